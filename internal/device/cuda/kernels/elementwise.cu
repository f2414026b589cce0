// Elementwise kernels over n values, and the change of axes.
#include "common.cuh"

// dst = a + b
KERNEL add(float* dst, const float* a, const float* b, i64 n) {
  EACH(i, n) dst[i] = a[i] + b[i];
}

// dst = factor[0]·x
KERNEL scale(float* dst, const float* x, const float* factor, i64 n) {
  float f = factor[0];
  EACH(i, n) dst[i] = x[i] * f;
}

// dst = alpha·a + beta·b; b may be absent (null).
KERNEL combine(float* dst, const float* a, const float* b, float alpha, float beta, i64 n) {
  EACH(i, n) dst[i] = b ? alpha * a[i] + beta * b[i] : alpha * a[i];
}

// The numbers of device.Activation.
enum { kReLU, kTanh, kSigmoid, kAbs, kGELU };

// y = f(x)
KERNEL activate(float* y, const float* x, int f, i64 n) {
  EACH(i, n) {
    float v = x[i];
    y[i] = f == kReLU ? (v < 0 ? 0 : v) : f == kTanh ? tanh_(v) : f == kSigmoid ? sigmoid_(v) : f == kGELU ? gelu_(v) : (v < 0 ? -v : v);
  }
}

// dx = dy·f'; of is the output y of tanh and of the sigmoid, the input x of the others.
KERNEL activate_grad(float* dx, const float* of, const float* dy, int f, i64 n) {
  EACH(i, n) {
    float v = of[i];
    float slope = f == kReLU ? (v > 0) : f == kTanh ? 1 - v * v : f == kSigmoid ? v * (1 - v) : f == kGELU ? gelu_slope_(v) : (float)((v > 0) - (v < 0));
    dx[i] = dy[i] * slope;
  }
}

// dst [B, A, inner] = x [A, B, inner]
KERNEL swap_axes(float* dst, const float* x, int a, int b, int inner, i64 n) {
  EACH(i, n) {
    i64 row = i / inner, k = i - row * inner, j = row / a;
    dst[i] = x[((row - j * a) * b + j) * inner + k];
  }
}
