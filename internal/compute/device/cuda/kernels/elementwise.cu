// Elementwise kernels over n values, and the change of axes.
#include "vector.cuh"

// dst = a + b
KERNEL add(float* dst, const float* a, const float* b, i64 head, i64 n) {
  EACH_FOUR(i, head, n) put_four(dst + i, four(a + i) + four(b + i));
  EACH_ONE(i, head, n) dst[i] = a[i] + b[i];
}

// dst = factor[0]·x
KERNEL scale(float* dst, const float* x, const float* factor, i64 head, i64 n) {
  float f = factor[0];
  EACH_FOUR(i, head, n) put_four(dst + i, four(x + i) * f);
  EACH_ONE(i, head, n) dst[i] = x[i] * f;
}

// dst = alpha·a + beta·b; b may be absent (null).
KERNEL combine(float* dst, const float* a, const float* b, float alpha, float beta, i64 head, i64 n) {
  EACH_FOUR(i, head, n) put_four(dst + i, b ? alpha * four(a + i) + beta * four(b + i) : alpha * four(a + i));
  EACH_ONE(i, head, n) dst[i] = b ? alpha * a[i] + beta * b[i] : alpha * a[i];
}

// The numbers of device.Activation.
enum { kReLU, kTanh, kSigmoid, kAbs, kGELU };

VSE_INLINE float value_of(int f, float v) {
  return f == kReLU      ? (v < 0 ? 0 : v)
         : f == kTanh    ? tanh_(v)
         : f == kSigmoid ? sigmoid_(v)
         : f == kGELU    ? gelu_(v, tail_of(v))
                         : (v < 0 ? -v : v);
}

// of is the output y of tanh and of the sigmoid, the input x of the others.
VSE_INLINE float slope_of(int f, float of) {
  return f == kReLU      ? (of > 0)
         : f == kTanh    ? 1 - of * of
         : f == kSigmoid ? of * (1 - of)
         : f == kGELU    ? gelu_slope_(of, tail_of(of))
                         : (float)((of > 0) - (of < 0));
}

VSE_INLINE Four values_of(int f, Four v) {
  Four y;
  if (f == kGELU) {
    UNROLL for (int k = 0; k < 4; k++) y[k] = gelu_(v[k], tail_of(v[k]));
  } else {
    UNROLL for (int k = 0; k < 4; k++) y[k] = value_of(f, v[k]);
  }
  return y;
}

// both_of sets y to the value at x and dx to dy times the slope there, not for tanh and the sigmoid.
VSE_INLINE void both_of(int f, const float* x, const float* dy, float* y, float* dx, int n) {
  if (f == kGELU) {
    UNROLL for (int k = 0; k < n; k++) {
      float tail = tail_of(x[k]);
      y[k] = gelu_(x[k], tail);
      dx[k] = dy[k] * gelu_slope_(x[k], tail);
    }
  } else {
    UNROLL for (int k = 0; k < n; k++) y[k] = value_of(f, x[k]), dx[k] = dy[k] * slope_of(f, x[k]);
  }
}

// y = f(x)
KERNEL activate(float* y, const float* x, int f, i64 head, i64 n) {
  EACH_FOUR(i, head, n) put_four(y + i, values_of(f, four(x + i)));
  EACH_ONE(i, head, n) y[i] = value_of(f, x[i]);
}

// x += bias in every row of cols values, and y = f(x); bias may be absent (null), and y or copy, y rounded. cols is a
// multiple of 4 and bias lies at one of 16 bytes, or head is n.
KERNEL bias_activate(float* y, bf16* copy, float* x, const float* bias, int f, int cols, i64 head, i64 n) {
  EACH_FOUR(i, head, n) {
    Four v = four(x + i);
    if (bias) put_four(x + i, v += four(bias + i % cols));
    v = values_of(f, v);
    if (y) put_four(y + i, v);
    if (copy) put_four(copy + i, v);
  }
  EACH_ONE(i, head, n) {
    float v = x[i];
    if (bias) x[i] = v = v + bias[i % cols];
    v = value_of(f, v);
    if (y) y[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}

// The gradient works on values of type V, each thread on the same columns of every eighth row of a piece; the values of
// the next one are on their way.
template <class V>
VSE_INLINE void activate_gradient(float* dx, float* y, bf16* dx_copy, bf16* y_copy, float* part, const float* x,
                                  const float* dy, int f, int rows, int cols, int per, V (*sums)[32]) {
  const int many = sizeof(V) / 4;
  int lane = threadIdx.x % 32, first = threadIdx.x / 32, col = many * (blockIdx.x * 32 + lane);
  i64 lo = (i64)blockIdx.y * per, hi = lo + per < rows ? lo + per : rows;
  V s, next_x, next_dy;
  zero_(&s);
  if (col < cols && lo + first < hi) {
    i64 at = (lo + first) * cols + col;
    get_(&next_x, x + at), get_(&next_dy, dy + at);
  }
  if (col < cols)
    for (i64 r = lo + first; r < hi; r += 8) {
      i64 i = r * cols + col;
      V v = next_x, d = next_dy, value;
      if (r + 8 < hi) get_(&next_x, x + i + 8 * cols), get_(&next_dy, dy + i + 8 * cols);
      both_of(f, (float*)&v, (float*)&d, (float*)&value, (float*)&d, many);
      if (dx) put_(dx + i, d);
      if (dx_copy) put_(dx_copy + i, d);
      if (y) put_(y + i, value);
      if (y_copy) put_(y_copy + i, value);
      s += d;
    }
  if (!part) return;
  sums[first][lane] = s;
  __syncthreads();
  if (first || col >= cols) return;
  for (int w = 1; w < 8; w++) s += sums[w][lane];
  put_(part + blockIdx.y * (i64)cols + col, s);
}

// For x, dy [rows, cols]: dx = dy·f'(x), y = f(x) (may be x), dx_copy and y_copy, both rounded, and the sums of the
// columns of dx over each piece of per rows, part [pieces, cols]. All of them may be absent. A block takes 128 columns
// of a piece, or 32 where rows are not aligned, eight rows at a time.
KERNEL bias_activate_grad(float* dx, float* y, bf16* dx_copy, bf16* y_copy, float* part, const float* x,
                          const float* dy, int f, int rows, int cols, int per, int aligned) {
  __shared__ __attribute__((aligned(16))) float sums[8 * 32 * 4];
  if (aligned)
    activate_gradient(dx, y, dx_copy, y_copy, part, x, dy, f, rows, cols, per, (Four(*)[32])sums);
  else
    activate_gradient(dx, y, dx_copy, y_copy, part, x, dy, f, rows, cols, per, (float(*)[32])sums);
}

// dx = dy·f'
KERNEL activate_grad(float* dx, const float* of, const float* dy, int f, i64 head, i64 n) {
  EACH_FOUR(i, head, n) {
    Four x = four(of + i), slope = {slope_of(f, x[0]), slope_of(f, x[1]), slope_of(f, x[2]), slope_of(f, x[3])};
    put_four(dx + i, four(dy + i) * slope);
  }
  EACH_ONE(i, head, n) dx[i] = dy[i] * slope_of(f, of[i]);
}

// dst [B, A, inner] = x [A, B, inner]
KERNEL swap_axes(float* dst, const float* x, int a, int b, int inner, i64 n) {
  EACH(i, n) {
    i64 row = i / inner, k = i - row * inner, j = row / a;
    dst[i] = x[((row - j * a) * b + j) * inner + k];
  }
}
