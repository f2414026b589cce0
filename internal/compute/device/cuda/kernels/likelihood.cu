// The negative log likelihood of words (device.CrossEntropy), one block for each packed row. labels and mask hold
// the word and the weight of every row.
#include "common.cuh"

enum { kAhead = 8 };  // values that a thread asks for before it waits

// ahead reads what a thread has of the next values of a row of v from i on, the first value in place of those after it.
VSE_INLINE void ahead(float* y, const float* x, int i, int v) {
  UNROLL for (int k = 0; k < kAhead; k++) y[k] = x[i + k * (int)blockDim.x < v ? i + k * (int)blockDim.x : 0];
}

KERNEL cross_entropy(double* losses, float* norm, const float* logits, const int* labels, const int* mask, int v,
                     float scale) {
  int p = blockIdx.x;
  const float* x = logits + (i64)p * v;
  float top = x[0];
  float y[kAhead];
  for (int i = threadIdx.x; i < v; i += kAhead * blockDim.x) {
    ahead(y, x, i, v);
    UNROLL for (int k = 0; k < kAhead; k++)
      if (y[k] > top || y[k] != y[k]) top = y[k];
  }
  top = block_max(top);
  float s = 0;
  for (int i = threadIdx.x; i < v; i += kAhead * blockDim.x) {
    ahead(y, x, i, v);
    UNROLL for (int k = 0; k < kAhead; k++)
      if (i + k * (int)blockDim.x < v) s += exp_(y[k] - top);
  }
  s = block_sum(s);
  if (threadIdx.x) return;
  double n = (double)top + log_(s);
  norm[p] = (float)n;
  losses[p] = mask[p] ? (double)scale * mask[p] * (n - x[labels[p]]) : 0;
}

// loss[0] = Σ losses, in packed order. One block.
KERNEL sum_losses(float* loss, const double* losses, int n) {
  double s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += losses[i];
  s = block_total(s);
  if (threadIdx.x == 0) loss[0] = (float)s;
}

// dlogits = dloss·weight·(softmax x - the unit vector of the label); dlogits may be logits.
KERNEL cross_entropy_grad(float* dlogits, const float* logits, const float* norm, const float* dloss, const int* labels,
                          const int* mask, int v, float scale) {
  int p = blockIdx.x;
  const float* x = logits + (i64)p * v;
  float* d = dlogits + (i64)p * v;
  float g = dloss[0] * scale * mask[p], top = norm[p];
  for (int i = threadIdx.x; i < v; i += blockDim.x) {
    float q = mask[p] ? g * exp_(x[i] - top) : 0;
    d[i] = i == labels[p] && mask[p] ? q - g : q;
  }
}
