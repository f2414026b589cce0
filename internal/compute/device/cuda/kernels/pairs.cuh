// What the kernels over pairs of images and captions share: warps as the unit of work, products of rows, the layout of
// words and nodes.
//
// A row of 256 or 1024 values is worked through by one warp, neighbouring lanes at neighbouring columns, so that no
// barrier is needed.
#pragma once
#include "warp.cuh"

// WARPS: w runs over n units of work, each done by the 32 lanes of a warp together. LANES: i runs over n values of a
// unit.
#define WARPS(w, n) \
  for (i64 w = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; w < (n); w += (i64)gridDim.x * (blockDim.x / 32))
#define LANES(i, n) for (int i = threadIdx.x & 31; i < (n); i += 32)

// half_sum adds two values over the halves of a warp, which differ in one bit of the lane: the lower half keeps the
// sums of low, the upper the sums of high.
VSE_INLINE float half_sum(float low, float high, int bit) {
  int upper = threadIdx.x & bit;
  float keep = upper ? high : low, give = upper ? low : high;
  return keep + __shfl_xor_sync(0xffffffffu, give, bit);
}

// warp_dots writes to[k] = y·x_k for k < n rows x_k of s values, eight at a time: y is read once for eight, and nine
// shuffles add them all. Each value is written by the lane that DOTS gives it to; no other lane may read it before the
// kernel ends.
#define DOTS(k, n) for (int k = (threadIdx.x & 3) << 3 | (threadIdx.x >> 2 & 7); k < (n); k += 32)
VSE_INLINE void warp_dots(float* to, const float* y, const float* x, int n, int s) {
  int lane_row = threadIdx.x >> 2 & 7;
  for (int k = 0; k < n; k += 8) {
    const float *x0 = x + (i64)k * s, *x1 = k + 1 < n ? x0 + s : x0, *x2 = k + 2 < n ? x1 + s : x0,
                *x3 = k + 3 < n ? x2 + s : x0, *x4 = k + 4 < n ? x3 + s : x0, *x5 = k + 5 < n ? x4 + s : x0,
                *x6 = k + 6 < n ? x5 + s : x0, *x7 = k + 7 < n ? x6 + s : x0;
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0, d4 = 0, d5 = 0, d6 = 0, d7 = 0;
    LANES(i, s) {
      float v = y[i];
      d0 += v * x0[i];
      d1 += v * x1[i];
      d2 += v * x2[i];
      d3 += v * x3[i];
      d4 += v * x4[i];
      d5 += v * x5[i];
      d6 += v * x6[i];
      d7 += v * x7[i];
    }
    d0 = half_sum(d0, d4, 16), d1 = half_sum(d1, d5, 16), d2 = half_sum(d2, d6, 16), d3 = half_sum(d3, d7, 16);
    d0 = half_sum(d0, d2, 8), d1 = half_sum(d1, d3, 8);
    d0 = half_sum(d0, d1, 4);
    d0 += __shfl_xor_sync(0xffffffffu, d0, 2);
    d0 += __shfl_xor_sync(0xffffffffu, d0, 1);
    if ((k >> 3 & 3) == (int)(threadIdx.x & 3) && k + lane_row < n) to[k + lane_row] = d0;
  }
}

// The constants of device/pairs.go.
#define PAIR_EPS 1e-8f
#define PAIR_SLOPE 0.1f

// unit_ gives the factors u, v of the gradient dx = u·dy + v·y of y = x/(‖x‖ + ε), from ‖x‖ and y·dy.
struct Unit { float u, v; };
VSE_INLINE Unit unit_(float norm, float dot) {
  Unit f;
  f.u = 1.0f / (norm + PAIR_EPS);
  f.v = norm > 0 ? -dot / norm : 0;
  return f;
}

// Graph is the nodes of one pair: n rows from row base on.
struct Graph { i64 base; int n; };

// The graph of caption c and image b; first [C + 1] lists the first word of each caption, nodes is the number of nodes
// of an image.
VSE_INLINE Graph graph_(const int* first, i64 b, int c, int nodes) {
  Graph g;
  g.base = b * nodes + first[c] + c;
  g.n = first[c + 1] - first[c] + 1;
  return g;
}
