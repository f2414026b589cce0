// The generalised pooling operator (device/pooling.go): softmax of packed scores, and pooling of sorted channels.
#define VSE_BLOCKS 4
#include "common.cuh"

// Weights of one sequence: a block for each. starts is the packing's table.
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

enum { kTile = 40, kEach = kTile / 8 };  // rows that a block of sort_pool ranks at once, and a thread of it
enum { kRanks = 48, kAhead = 6 };  // ranks that a warp of sort_pool_grad sums at once, rows that it asks for at once

// before_ adds to the ranks of the values v of a warp's rows how many values of a tile come before them: of rows with a
// greater number those that are greater, of rows with a smaller one also those that are equal. A pair adds one to
// either of its two, so ranks stay below n also where a value is NaN. The tile has a multiple of 8 rows; after the last
// lies -∞, which comes before nothing. A warp has one row of each eight, so which of two comes first is known to the
// compiler but within eight rows.
VSE_INLINE void before_(int (&rank)[kEach], const float (&v)[kEach], const float (*tile)[32], int rows) {
  int lane = threadIdx.x % 32, first = threadIdx.x / 32;
  UNROLL for (int s = 0; s < kEach; s++) {
    if (8 * s >= rows) break;
    float o[8];
    UNROLL for (int i = 0; i < 8; i++) o[i] = tile[8 * s + i][lane];
    UNROLL for (int j = 0; j < kEach; j++) {
      if (8 * j >= rows) break;
      UNROLL for (int i = 0; i < 8; i++)
        rank[j] += s < j || (s == j && i < first) ? !(v[j] > o[i]) : (s > j || i > first) && o[i] > v[j];
    }
  }
}

// y[b, c] and the ranks; the rank of a value is the number of values before it. A block has 32 channels of an item
// (blockIdx.y), its warps every eighth row each.
KERNEL sort_pool(float* y, int* ranks, const float* x, const float* weights, const int* lengths, const int* starts,
                 int packed, int d, int k) {
  __shared__ float tile[kTile][32], part[kTile][32];
  int b = blockIdx.y, n = lengths[b], lane = threadIdx.x % 32, first = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
  const float* w = weights + (i64)(k - n) * k;
  float s = 0;
  for (int p0 = 0; p0 < n; p0 += kTile) {
    float v[kEach];
    int rank[kEach];
    UNROLL for (int j = 0; j < kEach; j++) {
      int p = p0 + first + 8 * j;
      v[j] = p < n && c < d ? x[pool_row(starts, packed, b, p) * d + c] : 0;
      rank[j] = 0;
    }
    for (int q0 = 0; q0 < n; q0 += kTile) {
      __syncthreads();
      UNROLL for (int j = 0; j < kEach; j++) {
        int q = q0 + first + 8 * j;
        float o = -as_float(0x7f800000u);
        if (q < n) o = q0 == p0 ? v[j] : c < d ? x[pool_row(starts, packed, b, q) * d + c] : 0;
        tile[first + 8 * j][lane] = o;
      }
      __syncthreads();
      int rows = n - q0 < kTile ? n - q0 : kTile;
      if (q0 == p0) before_(rank, v, tile, rows);
      else
        for (int q = 0; q < rows; q++) {
          float o = tile[q][lane];
          UNROLL for (int j = 0; j < kEach; j++) rank[j] += q0 < p0 ? !(v[j] > o) : o > v[j];
        }
    }
    UNROLL for (int j = 0; j < kEach; j++) {
      int p = p0 + first + 8 * j;
      if (p >= n || c >= d) continue;
      ranks[pool_row(starts, packed, b, p) * d + c] = rank[j];
      part[first + 8 * j][lane] = w[rank[j]] * v[j];
    }
    __syncthreads();
    if (first == 0 && c < d)
      for (int p = p0; p < n && p < p0 + kTile; p++) s += part[p - p0][lane];
  }
  if (first == 0 && c < d) y[(i64)b * d + c] = s;
}

// dx, the weighted gradient put back in the places of its rows (may be null), and part[b, blockIdx.x, rank] = Σ_c dy·x
// of the values with that rank (may be null), of item b = blockIdx.y. A warp, which is a block, has every gx-th 32
// channels, and adds each up by its ranks in its own column.
KERNEL sort_pool_grad(float* dx, double* part, const float* dy, const float* x, const int* ranks, const float* weights,
                      const int* lengths, const int* starts, int packed, int d, int k) {
  __shared__ double sums[kRanks][33];
  int b = blockIdx.y, n = lengths[b], lane = threadIdx.x;
  const float* w = weights + (i64)(k - n) * k;
  for (int low = 0; low < n; low += kRanks) {
    if (part)
      for (int r = 0; r < kRanks; r++) sums[r][lane] = 0;
    for (int c = blockIdx.x * 32 + lane; c < d; c += gridDim.x * 32) {
      float g = dy[(i64)b * d + c];
      for (int p0 = 0; p0 < n; p0 += kAhead) {
        i64 at[kAhead];
        int rank[kAhead];
        float v[kAhead];
        for (int j = 0; j < kAhead; j++) {
          at[j] = p0 + j < n ? pool_row(starts, packed, b, p0 + j) * d + c : -1;
          rank[j] = at[j] < 0 ? -1 : ranks[at[j]];
          v[j] = at[j] < 0 || !part ? 0 : x[at[j]];
        }
        for (int j = 0; j < kAhead; j++) {
          if (rank[j] >= low && rank[j] < low + kRanks && part) sums[rank[j] - low][lane] += (double)g * (double)v[j];
          if (rank[j] >= 0 && low == 0 && dx) dx[at[j]] = w[rank[j]] * g;
        }
      }
    }
    if (!part) return;
    __syncthreads();
    for (int r = lane; r < kRanks && low + r < n; r += 32) {
      double s = 0;
      for (int i = 0; i < 32; i++) s += sums[r][i];
      part[((i64)b * gridDim.x + blockIdx.x) * k + low + r] = s;
    }
    __syncthreads();
  }
}

// dweights[k - n, p] = Σ part[b, piece, p] over the items of n rows: a block for each p and n.
KERNEL sort_pool_table(float* dweights, const double* part, const int* lengths, int items, int pieces, int k) {
  int p = blockIdx.x, n = k - (int)blockIdx.y;
  double s = 0;
  if (p < n)
    for (int b = threadIdx.x; b < items; b += blockDim.x)
      if (lengths[b] == n)
        for (int i = 0; i < pieces; i++) s += part[((i64)b * pieces + i) * k + p];
  s = block_total(s);
  if (threadIdx.x == 0) dweights[blockIdx.y * (i64)k + p] = (float)s;
}
