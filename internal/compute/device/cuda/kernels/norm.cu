// y = x/(‖x‖+ε) over the middle axis of x [outer, n, inner], and dx = dy/(‖x‖+ε) - x·(x·dy)/(‖x‖·(‖x‖+ε)²)
// (device.L2Norm).
#include "common.cuh"

// Row is what a thread has of a row of n values: those from `from` on, a block apart, kAhead at a time on their way.
enum { kAhead = 4 };
struct Row { float v[kAhead]; };

VSE_INLINE Row row_(const float* x, int from, int n) {
  Row r;
  UNROLL for (int j = 0; j < kAhead; j++) {
    int i = from + j * blockDim.x;
    r.v[j] = i < n ? x[i] : 0;
  }
  return r;
}

// One block for each row (inner = 1). A thread reads its values again only where it has more than kAhead of them.
KERNEL norm_rows(float* y, float* norm, const float* x, int n, float eps) {
  x += (i64)blockIdx.x * n;
  y += (i64)blockIdx.x * n;
  int step = kAhead * blockDim.x;
  float s = 0;
  Row v;
  for (int i = threadIdx.x; i < n; i += step) {
    v = row_(x, i, n);
    UNROLL for (int j = 0; j < kAhead; j++) s += v.v[j] * v.v[j];
  }
  float r = sqrtf(block_sum(s)), f = inverse_(r + eps);
  if (threadIdx.x == 0) norm[blockIdx.x] = r;
  for (int i = threadIdx.x; i < n; i += step) {
    if (n > step) v = row_(x, i, n);
    UNROLL for (int j = 0; j < kAhead; j++)
      if (i + j * (int)blockDim.x < n) y[i + j * blockDim.x] = v.v[j] * f;
  }
}

KERNEL norm_rows_grad(float* dx, const float* x, const float* norm, const float* dy, int n, float eps) {
  x += (i64)blockIdx.x * n;
  dx += (i64)blockIdx.x * n;
  dy += (i64)blockIdx.x * n;
  int step = kAhead * blockDim.x;
  float s = 0, r = norm[blockIdx.x];
  Row v, d;
  for (int i = threadIdx.x; i < n; i += step) {
    v = row_(x, i, n), d = row_(dy, i, n);
    UNROLL for (int j = 0; j < kAhead; j++) s += v.v[j] * d.v[j];
  }
  float dot = block_sum(s), u = inverse_(r + eps), w = r > 0 ? -dot * u * u / r : 0;
  for (int i = threadIdx.x; i < n; i += step) {
    if (n > step) v = row_(x, i, n), d = row_(dy, i, n);
    UNROLL for (int j = 0; j < kAhead; j++)
      if (i + j * (int)blockDim.x < n) dx[i + j * blockDim.x] = u * d.v[j] + w * v.v[j];
  }
}

// One thread for each of the count = outer·inner vectors.
KERNEL norm_columns(float* y, float* norm, const float* x, int n, int inner, float eps, i64 count) {
  EACH(i, count) {
    i64 o = i / inner, at = o * n * inner + (i - o * inner);
    float s = 0;
    for (int k = 0; k < n; k++) s += x[at + (i64)k * inner] * x[at + (i64)k * inner];
    float r = sqrtf(s), f = inverse_(r + eps);
    norm[i] = r;
    for (int k = 0; k < n; k++) y[at + (i64)k * inner] = x[at + (i64)k * inner] * f;
  }
}

KERNEL norm_columns_grad(float* dx, const float* x, const float* norm, const float* dy, int n, int inner, float eps,
                         i64 count) {
  EACH(i, count) {
    i64 o = i / inner, at = o * n * inner + (i - o * inner);
    float dot = 0;
    for (int k = 0; k < n; k++) dot += x[at + (i64)k * inner] * dy[at + (i64)k * inner];
    float r = norm[i], u = inverse_(r + eps), v = r > 0 ? -dot * u * u / r : 0;
#pragma unroll 4
    for (i64 j = at; j < at + (i64)n * inner; j += inner) dx[j] = u * dy[j] + v * x[j];
  }
}
