// The generalised pooling operator (device.Pooling): softmax of packed scores, and pooling of sorted channels.
#include "common.cuh"

// Weights of one sequence: a block for each. starts is the packing's table.
// Cost: read 4*gx*words; write 4*gx*wide; flop 60*gx*words; turns 8
KERNEL pool_weights(float* weights, const float* scores, const int* lengths, const int* starts, int wide,
                    float inverse) {
  int b = blockIdx.x, n = lengths[b];
  float* w = weights + (i64)b * wide;
  float most = scores[starts[0] + b];
  for (int t = threadIdx.x; t < n; t += blockDim.x) {
    float s = scores[starts[t] + b];
    if (s > most || s != s) most = s;
  }
  most = block_max(most);
  float sum = 0;
  for (int t = threadIdx.x; t < n; t += blockDim.x) sum += exp_((scores[starts[t] + b] - most) * inverse);
  sum = block_sum(sum);
  for (int t = threadIdx.x; t < wide; t += blockDim.x)
    w[t] = t < n ? exp_((scores[starts[t] + b] - most) * inverse) / sum : 0;
}

// Cost: read 8*gx*words; write 4*gx*words; flop 6*gx*words; turns 5
KERNEL pool_weights_grad(float* dscores, const float* weights, const float* dweights, const int* lengths,
                         const int* starts, int wide, float inverse) {
  int b = blockIdx.x, n = lengths[b];
  const float *w = weights + (i64)b * wide, *dw = dweights + (i64)b * wide;
  float s = 0;
  for (int t = threadIdx.x; t < n; t += blockDim.x) s += w[t] * dw[t];
  s = block_sum(s);
  for (int t = threadIdx.x; t < n; t += blockDim.x) dscores[starts[t] + b] = inverse * w[t] * (dw[t] - s);
}

// Where row p of item b lies: starts has one entry for each step where rows are packed, for each item where they are
// concatenated.
VSE_INLINE i64 pool_row(const int* starts, int packed, int b, int p) {
  return packed ? (i64)starts[p] + b : (i64)starts[b] + p;
}

// starts[b] = Σ lengths before b.
// Cost: read 4*b; write 4*b; flop b*b/2; turns b/4
KERNEL item_starts(int* starts, const int* lengths, int b) {
  EACH(i, b) {
    int s = 0;
    for (int k = 0; k < i; k++) s += lengths[k];
    starts[i] = s;
  }
}

// y[b, c] and the ranks; the rank of a value is the number of values before it. One thread for each channel of an item
// (blockIdx.y). A pair adds one to either of its two, so ranks stay below n also where a value is NaN.
// Cost: read 4*gy*d*(packed*words+(1-packed)*k)*((packed*words+(1-packed)*k)+1); write
// 4*gy*d*((packed*words+(1-packed)*k)+1); flop 2*gy*d*(packed*words+(1-packed)*k)*(packed*words+(1-packed)*k); turns
// d/(gx*block)*(packed*words+(1-packed)*k)*(packed*words+(1-packed)*k)/4
KERNEL sort_pool(float* y, int* ranks, const float* x, const float* weights, const int* lengths, const int* starts,
                 int packed, int d, int k) {
  int b = blockIdx.y, n = lengths[b];
  const float* w = weights + (i64)(k - n) * k;
  EACH(c, d) {
    float s = 0;
    for (int p = 0; p < n; p++) {
      i64 at = pool_row(starts, packed, b, p) * d + c;
      float v = x[at];
      int rank = 0;
      for (int q = 0; q < p; q++) rank += !(v > x[pool_row(starts, packed, b, q) * d + c]);
      for (int q = p + 1; q < n; q++) rank += x[pool_row(starts, packed, b, q) * d + c] > v;
      ranks[at] = rank;
      s += w[rank] * v;
    }
    y[(i64)b * d + c] = s;
  }
}

// dx: the weighted gradient, put back in the places of its rows.
// Cost: read 8*gy*d*(packed*words+(1-packed)*k); write 4*gy*d*(packed*words+(1-packed)*k); flop
// gy*d*(packed*words+(1-packed)*k); turns d/(gx*block)*(packed*words+(1-packed)*k)/2
KERNEL sort_pool_dx(float* dx, const float* dy, const int* ranks, const float* weights, const int* lengths,
                    const int* starts, int packed, int d, int k) {
  int b = blockIdx.y, n = lengths[b];
  const float* w = weights + (i64)(k - n) * k;
  EACH(c, d)
    for (int p = 0; p < n; p++) {
      i64 at = pool_row(starts, packed, b, p) * d + c;
      dx[at] = w[ranks[at]] * dy[(i64)b * d + c];
    }
}

// part[b, rank] = Σ_c dy·x of the values whose rank is blockIdx.x, of item b = blockIdx.y.
// Cost: read 4*gy*gx*d*(packed*words+(1-packed)*k); write 8*gy*gx; flop gy*gx*d*(packed*words+(1-packed)*k); turns
// ceil(gx*gy*block/resident)*d/block*(packed*words+(1-packed)*k)/4
KERNEL sort_pool_part(double* part, const float* dy, const float* x, const int* ranks, const int* lengths,
                      const int* starts, int packed, int d, int k) {
  int b = blockIdx.y, rank = blockIdx.x, n = lengths[b];
  if (rank >= n) return;
  double s = 0;
  for (int c = threadIdx.x; c < d; c += blockDim.x)
    for (int p = 0; p < n; p++) {
      i64 at = pool_row(starts, packed, b, p) * d + c;
      if (ranks[at] == rank) s += (double)dy[(i64)b * d + c] * (double)x[at];
    }
  s = block_total(s);
  if (threadIdx.x == 0) part[(i64)b * k + rank] = s;
}

// dweights[k - n, p] = Σ part[b, p] over the items of n rows.
// Cost: read 12*items*k; write 4*k*k; flop items*k*k/2; turns items/4
KERNEL sort_pool_table(float* dweights, const double* part, const int* lengths, int items, int k) {
  EACH(i, (i64)k * k) {
    int row = (int)(i / k), p = (int)(i - (i64)row * k), n = k - row;
    double s = 0;
    if (p < n)
      for (int b = 0; b < items; b++)
        if (lengths[b] == n) s += part[(i64)b * k + p];
    dweights[i] = (float)s;
  }
}
