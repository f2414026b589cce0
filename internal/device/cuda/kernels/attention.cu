// Additive attention of one query per sequence over its regions (device.AttentionArgs), one block for each sequence.
#include "common.cuh"

// e_r = vector·tanh(keys_r + query), weights = softmax e, context = Σ weights·values
// Cost: read 4*gx*(r*h+r*e); write 4*gx*(r+e); flop gx*r*(h*30+2*e); turns r*(h/block+1)+e/block*r/4
KERNEL attention(float* weights, float* context, const float* keys, const float* query, const float* vector,
                 const float* values, int r, int h, int e) {
  i64 b = blockIdx.x;
  const float* q = query + b * h;
  float* w = weights + b * r;
  float most = 0;
  for (int i = 0; i < r; i++) {
    const float* key = keys + (b * r + i) * h;
    float s = 0;
    for (int k = threadIdx.x; k < h; k += blockDim.x) s += vector[k] * tanh_(key[k] + q[k]);
    s = block_sum(s);
    if (i == 0 || s > most || s != s) most = s;
    if (threadIdx.x == 0) w[i] = s;
  }
  __syncthreads();
  float sum = 0;
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
// Cost: read 4*gx*(2*r*e+2*r*h); write 4*gx*(r*e+r*h); flop gx*r*(h*32+4*e); turns r*(e/block+1)+h/block*r/2
KERNEL attention_grad(float* dquery, float* dkeys, float* dvalues, float* dvector, float* dots, const float* keys,
                      const float* query, const float* vector, const float* values, const float* weights,
                      const float* dcontext, int r, int h, int e) {
  i64 b = blockIdx.x;
  const float *w = weights + b * r, *dc = dcontext + b * e, *q = query + b * h;
  dots += b * r;
  float mean = 0;
  for (int i = 0; i < r; i++) {
    float s = 0;
    for (int k = threadIdx.x; k < e; k += blockDim.x) {
      s += dc[k] * values[(b * r + i) * e + k];
      dvalues[(b * r + i) * e + k] += w[i] * dc[k];
    }
    s = block_sum(s);
    mean += w[i] * s;
    if (threadIdx.x == 0) dots[i] = s;
  }
  __syncthreads();
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
