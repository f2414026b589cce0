// Additive attention of one query per sequence over its regions (device.AttentionArgs), one block for each sequence and
// a warp for each region in turn.
#include "pairs.cuh"

enum { kAhead = 4 };  // values that a lane asks for before it waits
#define AHEAD(k, n) for (int k = threadIdx.x & 31; k < (n); k += 32 * kAhead)
#define EACH_OF(j, k, n) for (int j = 0; j < kAhead; j++) if ((k) + 32 * j < (n))

// ahead reads the next kAhead values of a lane, 0 behind the last.
VSE_INLINE void ahead(float* v, const float* x, int k, int n) {
  for (int j = 0; j < kAhead; j++) v[j] = k + 32 * j < n ? x[k + 32 * j] : 0;
}

// e_r = vector·tanh(keys_r + query), weights = softmax e, context = Σ weights·values
// Cost: read 4*gx*(r*h+r*e); write 4*gx*(r+e); flop gx*r*(h*30+2*e); flight 16;
//   turns r*32/block*(h/128+2)+e/block*r/4+4
KERNEL attention(float* weights, float* context, const float* keys, const float* query, const float* vector,
                 const float* values, int r, int h, int e) {
  i64 b = blockIdx.x;
  const float* q = query + b * h;
  float* w = weights + b * r;
  for (int i = threadIdx.x / 32; i < r; i += blockDim.x / 32) {
    const float* key = keys + (b * r + i) * h;
    float s = 0, x[kAhead], y[kAhead], z[kAhead];
    AHEAD(k, h) {
      ahead(x, key, k, h);
      ahead(y, q, k, h);
      ahead(z, vector, k, h);
      EACH_OF(j, k, h) s += z[j] * tanh_(x[j] + y[j]);
    }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) w[i] = s;
  }
  __syncthreads();
  float most = w[0], sum = 0;
  for (int i = 1; i < r; i++)
    if (w[i] > most || w[i] != w[i]) most = w[i];
  for (int i = 0; i < r; i++) sum += exp_(w[i] - most);
  __syncthreads();
  for (int i = threadIdx.x; i < r; i += blockDim.x) w[i] = exp_(w[i] - most) / sum;
  __syncthreads();
  for (int k = threadIdx.x; k < e; k += blockDim.x) {
    float s = 0;
    for (int i = 0; i < r; i++) s += w[i] * values[(b * r + i) * e + k];
    context[b * e + k] = s;
  }
}

// dots [B, R] is scratch memory: dcontext·values_r.
// Cost: read 4*gx*(2*r*e+2*r*h); write 4*gx*(r*e+r*h); flop gx*r*(h*32+4*e); flight 16;
//   turns r*32/block*(e/128+2)+h/block*r/2+4
KERNEL attention_grad(float* dquery, float* dkeys, float* dvalues, float* dvector, float* dots, const float* keys,
                      const float* query, const float* vector, const float* values, const float* weights,
                      const float* dcontext, int r, int h, int e) {
  i64 b = blockIdx.x;
  const float *w = weights + b * r, *dc = dcontext + b * e, *q = query + b * h;
  dots += b * r;
  for (int i = threadIdx.x / 32; i < r; i += blockDim.x / 32) {
    const float* value = values + (b * r + i) * e;
    float *dvalue = dvalues + (b * r + i) * e, s = 0, x[kAhead], y[kAhead], z[kAhead];
    AHEAD(k, e) {
      ahead(x, value, k, e);
      ahead(y, dc, k, e);
      ahead(z, dvalue, k, e);
      EACH_OF(j, k, e) {
        s += y[j] * x[j];
        dvalue[k + 32 * j] = z[j] + w[i] * y[j];
      }
    }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) dots[i] = s;
  }
  __syncthreads();
  float mean = 0;
  for (int i = 0; i < r; i++) mean += w[i] * dots[i];
  for (int k = threadIdx.x; k < h; k += blockDim.x) {
    float dq = 0, dv = 0;
    for (int i = 0; i < r; i++) {
      i64 at = (b * r + i) * h + k;
      float de = w[i] * (dots[i] - mean), t = tanh_(keys[at] + q[k]), slope = de * vector[k] * (1 - t * t);
      dv += de * t;
      dq += slope;
      dkeys[at] += slope;
    }
    dvector[b * h + k] += dv;
    dquery[b * h + k] = dq;
  }
}
