// Reductions over a warp, all of whose lanes take part, in a fixed order.
#pragma once
#include "common.cuh"

// warp_sum returns the sum of v over a warp to every lane, as the others do.
VSE_INLINE float warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// warp_max is the greatest v; NaN wins.
VSE_INLINE float warp_max(float v) {
  for (int d = 16; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(0xffffffffu, v, d);
    if (o > v || o != o) v = o;
  }
  return v;
}

VSE_INLINE double warp_total(double v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// warp_count is warp_sum of integers.
VSE_INLINE int warp_count(int v) {
  for (int d = 16; d > 0; d >>= 1) v += (int)as_bits(__shfl_xor_sync(0xffffffffu, as_float((u32)v), d));
  return v;
}

// eight_sum is the sum over eight neighbouring lanes.
VSE_INLINE float eight_sum(float v) {
  for (int d = 4; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}
