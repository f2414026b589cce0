// The negative log likelihood of words (device.CrossEntropyArgs), one block for each packed row. labels and mask hold
// the word and the weight of every row.
#include "common.cuh"

// Cost: read 8*gx*v; write 12*gx; flop 30*gx*v; turns ceil(gx*block/resident)*(2*v/block+3)
KERNEL cross_entropy(double* losses, float* norm, const float* logits, const int* labels, const int* mask, int v,
                     float scale) {
  int p = blockIdx.x;
  const float* x = logits + (i64)p * v;
  float top = x[0];
  for (int i = threadIdx.x; i < v; i += blockDim.x)
    if (x[i] > top || x[i] != x[i]) top = x[i];
  top = block_max(top);
  float s = 0;
  for (int i = threadIdx.x; i < v; i += blockDim.x) s += exp_(x[i] - top);
  s = block_sum(s);
  if (threadIdx.x) return;
  double n = (double)top + log_(s);
  norm[p] = (float)n;
  losses[p] = mask[p] ? (double)scale * mask[p] * (n - x[labels[p]]) : 0;
}

// loss[0] = Σ losses, in packed order. One block.
// Cost: read 8*n; write 4; flop n; turns n/block+2
KERNEL sum_losses(float* loss, const double* losses, int n) {
  double s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += losses[i];
  s = block_total(s);
  if (threadIdx.x == 0) loss[0] = (float)s;
}

// dlogits = dloss·weight·(softmax x - the unit vector of the label); dlogits may be logits.
// Cost: read 4*gx*v; write 4*gx*v; flop 30*gx*v
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
