// What the kernels of self-attention share (selfattention.cu, selfheads.cuh): dropout of the weights, and the blocks
// that clear the rows after the last caption.
#pragma once
#include "philox.cuh"
#include "warp.cuh"

// clear zeroes the columns of a head, size of them, in rows [from, rows) of x, which lie ld apart; the tiles (blockIdx.z)
// share them. copy, x rounded, or x may be null.
VSE_INLINE void clear(float* x, bf16* copy, i64 ld, int from, int rows, int head, int size) {
  for (i64 e = blockIdx.z * blockDim.x + threadIdx.x; e < (i64)(rows - from) * size; e += gridDim.z * blockDim.x) {
    i64 at = (from + e / size) * ld + head * size + e % size;
    if (x) x[at] = 0;
    if (copy) copy[at] = 0;
  }
}

// kept_ is dropout_factor, and 1 where keep is 0 because nothing is dropped.
VSE_INLINE float kept_(int number, int column, const int* step, u32 key0, u32 key1, u32 limit, float keep) {
  return keep == 0 ? 1 : dropout_factor(number, column, step, key0, key1, limit, keep);
}
