// Sets of rows, one after the other (device/segments.go); first [B + 1] lists the first row of each.
#define VSE_THREADS 512
#include "pairs.cuh"

// dst [B, d] = the mean of the rows of each item; count is B·d.
KERNEL segment_means(float* dst, const float* x, const int* first, int d, i64 count) {
  EACH(i, count) {
    int b = (int)(i / d), k = (int)(i - (i64)b * d), lo = first[b], hi = first[b + 1];
    float s = 0;
    for (i64 r = lo; r < hi; r++) s += x[r * d + k];
    dst[i] = s * (1.0f / (float)(hi - lo));
  }
}

// dx of every row; units are rows, owner lists the item of each. Rows of no item, -1, become zero.
KERNEL segment_means_grad(float* dx, const float* ddst, const int* first, const int* owner, int d, i64 units) {
  WARPS(r, units) {
    int b = owner[r];
    if (b < 0) {
      LANES(k, d) dx[r * d + k] = 0;
      continue;
    }
    float f = 1.0f / (float)(first[b + 1] - first[b]);
    LANES(k, d) dx[r * d + k] = ddst[(i64)b * d + k] * f;
  }
}

// Row r of the captions one after the other is row starts[t] + b of the packed ones; back copies the other way. Rows of
// no caption become zero.
KERNEL unpack_words(float* dst, const float* src, const int* starts, const int* first, const int* owner, int d,
                    int back, i64 units) {
  WARPS(r, units) {
    int b = owner[r];
    if (b < 0) {
      LANES(k, d) dst[r * d + k] = 0;
      continue;
    }
    i64 packed = (i64)starts[r - first[b]] + b, to = back ? packed : r, from = back ? r : packed;
    LANES(k, d) dst[to * d + k] = src[from * d + k];
  }
}

// row_dot is Σ w_k y_k x_k of rows of d values, by a warp; each lane has eight values on their way. w may be null.
VSE_INLINE float row_dot(const float* w, const float* y, const float* x, int d) {
  float s = 0;
  for (int k = threadIdx.x & 31; k < d; k += 256) {
    float v[8];
    UNROLL for (int j = 0; j < 8; j++) {
      int i = k + 32 * j;
      v[j] = i < d ? (w ? w[i] * y[i] : y[i]) * x[i] : 0;
    }
    UNROLL for (int j = 0; j < 8; j++) s += v[j];
  }
  return warp_sum(s);
}

// Gated pooling of one item: a block for each.
KERNEL gated_pool(float* out, float* weights, const float* l, const float* g, const float* w, const float* x,
                  const int* first, int d) {
  i64 b = blockIdx.x, lo = first[b];
  int n = first[b + 1] - (int)lo, warps = blockDim.x / 32;
  float* a = weights + lo;
  for (int r = threadIdx.x / 32; r < n; r += warps) {
    float s = row_dot(w, g + b * d, l + (lo + r) * d, d);
    if ((threadIdx.x & 31) == 0) a[r] = s;
  }
  __syncthreads();
  float most = a[0], sum = 0;
  for (int r = 1; r < n; r++)
    if (a[r] > most || a[r] != a[r]) most = a[r];
  for (int r = 0; r < n; r++) sum += exp_(a[r] - most);
  sum = 1.0f / sum;
  __syncthreads();
  for (int r = threadIdx.x; r < n; r += blockDim.x) a[r] = exp_(a[r] - most) * sum;
  __syncthreads();
  for (int k = threadIdx.x; k < d; k += blockDim.x) {
    float s = 0;
    for (int r = 0; r < n; r += 8) {
      float v[8];  // eight rows are on their way at a time
      UNROLL for (int j = 0; j < 8; j++) v[j] = r + j < n ? x[(lo + r + j) * d + k] : 0;
      for (int j = 0; j < 8 && r + j < n; j++) s += a[r + j] * v[j];
    }
    out[b * d + k] = s;
  }
}

// dots [rows] is scratch memory: dα_r = dOut·X_r. de = α∘(dα - Σ α∘dα), dL_r = de_r W∘G, dG = W∘Σ de_r L_r, dW = G∘Σ
// de_r L_r.
KERNEL gated_pool_grad(float* dl, float* dg, float* dx, float* dw, float* dots, const float* l, const float* g,
                       const float* w, const float* x, const float* weights, const float* dout, const int* first,
                       int d) {
  i64 b = blockIdx.x, lo = first[b];
  int n = first[b + 1] - (int)lo, warps = blockDim.x / 32;
  for (int r = threadIdx.x / 32; r < n; r += warps) {
    float s = row_dot(0, dout + b * d, x + (lo + r) * d, d);
    if ((threadIdx.x & 31) == 0) dots[lo + r] = s;
  }
  __syncthreads();
  float mean = 0;
  for (int r = 0; r < n; r++) mean += weights[lo + r] * dots[lo + r];
  for (int k = threadIdx.x; k < d; k += blockDim.x) {
    float dy = dout[b * d + k], gate = w[k] * g[b * d + k], s = 0;
    for (i64 r = lo; r < lo + n; r += 8) {
      float v[8];  // eight rows are on their way at a time
      UNROLL for (int j = 0; j < 8; j++) v[j] = r + j < lo + n ? l[(r + j) * d + k] : 0;
      for (int j = 0; j < 8 && r + j < lo + n; j++) {
        float de = weights[r + j] * (dots[r + j] - mean);
        dl[(r + j) * d + k] = de * gate;
        dx[(r + j) * d + k] = weights[r + j] * dy;
        s += de * v[j];
      }
    }
    dg[b * d + k] = w[k] * s;
    dw[b * d + k] = g[b * d + k] * s;
  }
}
