// Additive attention of one query per sequence over its regions (device.AdditiveAttention): a warp for each region of a
// sequence, then a thread for each column of a sequence.
#include "pairs.cuh"

enum { kAhead = 4, kPiece = 256 };  // values that a thread asks for before it waits; regions that a block works on
#define AHEAD(k, n) for (int k = threadIdx.x & 31; k < (n); k += 32 * kAhead)
#define EACH_OF(j, k, n) for (int j = 0; j < kAhead; j++) if ((k) + 32 * j < (n))

// ahead reads the next kAhead values of a lane, 0 after the last.
VSE_INLINE void ahead(float* v, const float* x, int k, int n) {
  for (int j = 0; j < kAhead; j++) v[j] = k + 32 * j < n ? x[k + 32 * j] : 0;
}

// column reads the next kAhead values of a column of rows of width values, 0 after row n.
VSE_INLINE void column(float* v, const float* x, int i, int n, int width) {
  for (int j = 0; j < kAhead; j++) v[j] = i + j < n ? x[(i64)(i + j) * width] : 0;
}

// scores_r = vector·tanh(keys_r + query)
KERNEL attention_scores(float* scores, const float* keys, const float* query, const float* vector, int b, int r,
                        int h) {
  WARPS(w, (i64)b * r) {
    const float *key = keys + w * h, *q = query + w / r * h;
    float s = 0, x[kAhead], y[kAhead], z[kAhead];
    AHEAD(k, h) {
      ahead(x, key, k, h);
      ahead(y, q, k, h);
      ahead(z, vector, k, h);
      EACH_OF(j, k, h) s += z[j] * tanh_(x[j] + y[j]);
    }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) scores[w] = s;
  }
}

// weights = softmax scores, context = Σ weights·values: a block for each sequence (blockIdx.y) and its columns.
KERNEL attention(float* weights, float* context, const float* scores, const float* values, int r, int e) {
  __shared__ float w[kPiece];
  i64 b = blockIdx.y;
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  scores += b * r;
  float most = scores[0], sum = 0, s = 0, v[kAhead];
  for (int i = 1; i < r; i++)
    if (scores[i] > most || scores[i] != scores[i]) most = scores[i];
  for (int pass = 0; pass < 2; pass++)
    for (int from = 0; from < r; from += kPiece) {
      int n = r - from < kPiece ? r - from : kPiece;
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        w[i] = exp_(scores[from + i] - most);
        if (!pass) continue;
        w[i] /= sum;
        if (blockIdx.x == 0) weights[b * r + from + i] = w[i];
      }
      __syncthreads();
      if (!pass) {
        for (int i = 0; i < n; i++) sum += w[i];
      } else if (k < e) {
        for (int i = 0; i < n; i += kAhead) {
          column(v, values + (b * r + from) * e + k, i, n, e);
          for (int j = 0; j < kAhead && i + j < n; j++) s += w[i + j] * v[j];
        }
      }
    }
  if (k < e) context[b * e + k] = s;
}

// dvalues_r += weights_r·dcontext, dots_r = dcontext·values_r
KERNEL attention_values_grad(float* dvalues, float* dots, const float* values, const float* weights,
                             const float* dcontext, int b, int r, int e) {
  WARPS(w, (i64)b * r) {
    const float *value = values + w * e, *dc = dcontext + w / r * e;
    float weight = weights[w];
    float *dvalue = dvalues + w * e, s = 0, x[kAhead], y[kAhead], z[kAhead];
    AHEAD(k, e) {
      ahead(x, value, k, e);
      ahead(y, dc, k, e);
      ahead(z, dvalue, k, e);
      EACH_OF(j, k, e) {
        s += y[j] * x[j];
        dvalue[k + 32 * j] = z[j] + weight * y[j];
      }
    }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) dots[w] = s;
  }
}

// The gradients of keys, query and vector: a block for each sequence (blockIdx.y) and its columns.
KERNEL attention_grad(float* dquery, float* dkeys, float* dvector, const float* dots, const float* keys,
                      const float* query, const float* vector, const float* weights, int r, int h) {
  i64 b = blockIdx.y;
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= h) return;
  const float* w = weights + b * r;
  dots += b * r;
  float mean = 0, dq = 0, dv = 0, q = query[b * h + k], u = vector[k], x[kAhead], y[kAhead];
  for (int i = 0; i < r; i++) mean += w[i] * dots[i];
  i64 at = b * r * h + k;
  for (int i = 0; i < r; i += kAhead) {
    column(x, keys + at, i, r, h);
    column(y, dkeys + at, i, r, h);
    for (int j = 0; j < kAhead && i + j < r; j++) {
      float de = w[i + j] * (dots[i + j] - mean), t = tanh_(x[j] + q), slope = de * u * (1 - t * t);
      dv += de * t;
      dq += slope;
      dkeys[at + (i64)(i + j) * h] = y[j] + slope;
    }
  }
  dvector[b * h + k] += dv;
  dquery[b * h + k] = dq;
}
