// What the kernels over pairs of images and captions share: warps as the unit of work, products of rows, the layout of words and nodes.
//
// A row of 256 or 1024 values is worked through by one warp, neighbouring lanes at neighbouring columns, so that no barrier is needed.
#pragma once
#include "common.cuh"

// WARPS: w runs over n units of work, each done by the 32 lanes of a warp together. LANES: i runs over n values of a unit.
#define WARPS(w, n) for (i64 w = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; w < (n); w += (i64)gridDim.x * (blockDim.x / 32))
#define LANES(i, n) for (int i = threadIdx.x & 31; i < (n); i += 32)

// warp_sum returns the sum of v over a warp to every lane, in a fixed order.
VSE_INLINE float warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// warp_max is the greatest v of the warp; NaN wins.
VSE_INLINE float warp_max(float v) {
  for (int d = 16; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(0xffffffffu, v, d);
    if (o > v || o != o) v = o;
  }
  return v;
}

// warp_dots writes to[k] = y·x_k for k < n rows x_k of s values, four at a time so that y is read once for four. Lane k % 32 writes to[k], and
// no other lane may read it before the kernel ends.
VSE_INLINE void warp_dots(float* to, const float* y, const float* x, int n, int s) {
  int lane = threadIdx.x & 31;
  for (int k = 0; k < n; k += 4) {
    const float *x0 = x + (i64)k * s, *x1 = k + 1 < n ? x0 + s : x0, *x2 = k + 2 < n ? x1 + s : x1, *x3 = k + 3 < n ? x2 + s : x2;
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    LANES(i, s) {
      float v = y[i];
      d0 += v * x0[i];
      d1 += v * x1[i];
      d2 += v * x2[i];
      d3 += v * x3[i];
    }
    d0 = warp_sum(d0), d1 = warp_sum(d1), d2 = warp_sum(d2), d3 = warp_sum(d3);
    int of = lane - (k & 31);
    if (of >= 0 && of < 4 && k + of < n) to[k + of] = of == 0 ? d0 : of == 1 ? d1 : of == 2 ? d2 : d3;
  }
}

// The constants of device.Pairs.
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

// The graph of caption c and image b; first [C + 1] lists the first word of each caption, nodes is the number of nodes of an image.
VSE_INLINE Graph graph_(const int* first, i64 b, int c, int nodes) {
  Graph g;
  g.base = b * nodes + first[c] + c;
  g.n = first[c + 1] - first[c] + 1;
  return g;
}
