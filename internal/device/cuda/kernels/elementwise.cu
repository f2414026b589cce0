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

// Φ(-t) for t ≥ 0, the polynomial of internal/vec/gelu.go for its logarithm.
VSE_INLINE float normal_tail(float t) {
  t = t > 9 ? 9 : t;
  float p = -1.515536319e-08f;
  p = p * t + 4.976760692e-07f;
  p = p * t - 6.798317827e-06f;
  p = p * t + 4.939537394e-05f;
  p = p * t - 0.0001839578617f;
  p = p * t - 1.748203431e-05f;
  p = p * t + 0.004834793042f;
  p = p * t - 0.03636233136f;
  p = p * t - 0.3183034062f;
  p = p * t - 0.7978851199f;
  p = p * t - 0.6931471825f;
  return exp_(p);
}

VSE_INLINE float gelu(float x) {
  float t = x < 0 ? -x : x;
  return (x < 0 ? 0 : x) - t * normal_tail(t);
}

VSE_INLINE float gelu_slope(float x) {
  float phi = x < 0 ? normal_tail(-x) : 1 - normal_tail(x);
  return phi + x * exp_(-0.5f * x * x) * 0.39894228040143267794f;
}

// y = f(x)
KERNEL activate(float* y, const float* x, int f, i64 n) {
  EACH(i, n) {
    float v = x[i];
    y[i] = f == kGELU ? gelu(v) : f == kReLU ? (v < 0 ? 0 : v) : f == kTanh ? tanh_(v) : f == kSigmoid ? sigmoid_(v) : (v < 0 ? -v : v);
  }
}

// dx = dy·f'; of is the output y of tanh and of the sigmoid, the input x of the others.
KERNEL activate_grad(float* dx, const float* of, const float* dy, int f, i64 n) {
  EACH(i, n) {
    float v = of[i];
    float slope = f == kGELU ? gelu_slope(v) : f == kReLU ? (v > 0) : f == kTanh ? 1 - v * v : f == kSigmoid ? v * (1 - v) : (float)((v > 0) - (v < 0));
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
