// Similarity vectors of the words of a tile of pairs (device.Similarities) where the contexts are made on tensor
// cores, and not written to memory: x = Σ_k α_k V_k of operands in bfloat16 (similarities_sm80.cu) or TF32
// (similarities_tf32_sm80.cu), as the product does that similarities.cu follows.
//
//   z = (x/(‖x‖ + ε) - c)²    back, with y = x/(‖x‖ + ε):  dd = 2 (y - c)∘dz    dc = -Σ_images dd    dx = l2'(dd)
//
// A block makes the contexts of 16 words with the images of a group in turn; a warp has kColumns columns of them. A
// lane has eight neighbouring values of a row: column 32q + 8t + 2j + i of an image is column 2t + i of tile 4q + j.
#pragma once
#define VSE_THREADS 512
#include "mma.cuh"

enum { kWarps = 16, kTiles = 8, kColumns = 64 };  // of a warp: tiles, columns (Go: contextColumns of all warps)

// packed [images, steps, 128, 32]: the regions of the images as operands B, as many regions a step as an instruction is
// deep, 8 columns a tile; a lane has two words. Columns and regions that are not there are 0.
template <class T>
VSE_INLINE void pack_(u32* packed, const float* regions, int images, int r, int e, int steps, i64 count) {
  EACH(i, count) {
    int lane = (int)(i % 32), tile = (int)(i / 32 % (kWarps * kTiles)), g = lane / 4;
    i64 step = i / (32 * kWarps * kTiles), image = step / steps;
    step -= image * steps;
    int k = tile / 4 * 32 + g / 2 * 8 + tile % 4 * 2 + g % 2, row = T::kEach * (8 * (int)step + lane % 4);
    const float* x = regions + image * r * e + k;
    float v[2][T::kEach];
    for (int j = 0; j < 2; j++)
      for (int q = 0; q < T::kEach; q++) {
        int at = row + 4 * T::kEach * j + q;
        v[j][q] = k < e && at < r ? x[(i64)at * e] : 0;
      }
    Two w = {T::word(v[0]), T::word(v[1])};
    *(Two*)(packed + 2 * i) = w;
  }
}

// x = α V for 16 words whose weights begin at alpha, of which there are n, and the columns of the warp. low and high
// are the sums of squares of the lane, of rows g and g + 8.
template <class T>
VSE_INLINE void contexts_(float (*x)[4], float* low, float* high, const float* alpha, const u32* packed, int n, i64 all,
                          int r, int steps) {
  int lane = threadIdx.x & 31, g = lane / 4;
  packed += 2 * (threadIdx.x / 32 * kTiles * 32 + lane);
  UNROLL for (int j = 0; j < kTiles; j++)
    for (int i = 0; i < 4; i++) x[j][i] = 0;
  for (int step = 0; step < steps; step++, packed += 64 * kWarps * kTiles) {
    u32 a[4], b[kTiles][2];
    for (int j = 0; j < 4; j++) {
      int word = g + j % 2 * 8, k = T::kEach * (8 * step + lane % 4 + j / 2 * 4);
      const float* w = alpha + word * all + k;
      float v[T::kEach];
      for (int q = 0; q < T::kEach; q++) v[q] = word < n && k + q < r ? w[q] : 0;
      a[j] = T::word(v);
    }
    UNROLL for (int j = 0; j < kTiles; j++) {
      Two w = *(const Two*)(packed + 64 * j);
      b[j][0] = w[0], b[j][1] = w[1];
    }
    UNROLL for (int j = 0; j < kTiles; j++) T::multiply(x[j], a, b[j]);
  }
  *low = *high = 0;
  UNROLL for (int j = 0; j < kTiles; j++) *low += x[j][0] * x[j][0] + x[j][1] * x[j][1];
  UNROLL for (int j = 0; j < kTiles; j++) *high += x[j][2] * x[j][2] + x[j][3] * x[j][3];
}

// The sums of low and high over the rows g and g + 8 of a block, to every lane that has such a row.
VSE_INLINE void row_sums(float* low, float* high, float (*part)[kWarps + 1]) {
  for (int d = 1; d < 4; d <<= 1) {
    *low += __shfl_xor_sync(0xffffffffu, *low, d);
    *high += __shfl_xor_sync(0xffffffffu, *high, d);
  }
  int lane = threadIdx.x & 31, g = lane / 4, warp = threadIdx.x / 32;
  __syncthreads();  // what an earlier call left has been read
  if (lane % 4 == 0) part[g][warp] = *low, part[g + 8][warp] = *high;
  __syncthreads();
  *low = *high = 0;
  for (int w = 0; w < kWarps; w++) *low += part[g][w], *high += part[g + 8][w];
}

// z of the words from 16·blockIdx.x on with the images of group blockIdx.y, per images each, to half or to z.
template <class T>
VSE_INLINE void squares_(float* z, bf16* half, const float* alpha, const u32* packed, const float* c, i64 all, int rows,
                         int images, int r, int e, int steps, int per, float (*part)[kWarps + 1]) {
  int lane = threadIdx.x & 31, g = lane / 4, first = 16 * blockIdx.x, n = rows - first;
  int column = threadIdx.x / 32 * kColumns + lane % 4 * 8;
  int last = ((int)blockIdx.y + 1) * per;
  if (last > images) last = images;
  for (i64 b = blockIdx.y * per; b < last; b++) {
    float x[kTiles][4], low, high;
    contexts_<T>(x, &low, &high, alpha + first * all + b * r, packed + 64 * kWarps * kTiles * b * steps, n, all, r,
                 steps);
    row_sums(&low, &high, part);
    UNROLL for (int side = 0; side < 2; side++) {
      int word = g + 8 * side;
      float f = 1.0f / (sqrtf(side ? high : low) + PAIR_EPS);
      if (word >= n) continue;
      const float* v = c + (i64)(first + word) * e;
      i64 to = (b * rows + first + word) * e;
      UNROLL for (int q = 0; q < 2; q++) {
        int k = column + 32 * q;
        float y[8], w[8];
        read_eight(w, v, k, e);
        UNROLL for (int j = 0; j < 8; j++) {
          float d = x[4 * q + j / 2][2 * side + j % 2] * f - w[j];
          y[j] = d * d;
        }
        if (half) write_eight_halves(half + to, y, k, e);
        else write_eight(z + to, y, k, e);
      }
    }
  }
}

// From dz the gradient of the contexts, to half or dx, which may be dz; and of every group Σ_images dd, [groups, rows,
// e]. What a thread reads of dz it alone writes.
template <class T>
VSE_INLINE void squares_grad_(float* dx, bf16* half, float* drows, const float* dz, const float* alpha,
                              const u32* packed, const float* c, i64 all, int rows, int images, int r, int e,
                              int steps, int per, float (*part)[kWarps + 1]) {
  int lane = threadIdx.x & 31, g = lane / 4, first = 16 * blockIdx.x, n = rows - first;
  int column = threadIdx.x / 32 * kColumns + lane % 4 * 8;
  int last = ((int)blockIdx.y + 1) * per;
  if (last > images) last = images;
  float dv[2][2][8];
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int q = 0; q < 2; q++)
      UNROLL for (int j = 0; j < 8; j++) dv[side][q][j] = 0;
  for (i64 b = blockIdx.y * per; b < last; b++) {
    float x[kTiles][4], low, high;
    contexts_<T>(x, &low, &high, alpha + first * all + b * r, packed + 64 * kWarps * kTiles * b * steps, n, all, r,
                 steps);
    row_sums(&low, &high, part);
    float norm[2] = {sqrtf(low), sqrtf(high)}, dot[2] = {0, 0};
    UNROLL for (int side = 0; side < 2; side++) {
      int word = g + 8 * side;
      float f = 1.0f / (norm[side] + PAIR_EPS);
      if (word >= n) continue;
      UNROLL for (int q = 0; q < 2; q++) {
        int k = column + 32 * q;
        float w[8], d[8];
        read_eight(w, c + (i64)(first + word) * e, k, e);
        read_eight(d, dz + (b * rows + first + word) * e, k, e);
        UNROLL for (int j = 0; j < 8; j++) {
          float y = x[4 * q + j / 2][2 * side + j % 2] * f, dd = 2 * (y - w[j]) * d[j];
          dot[side] += dd * y;
          dv[side][q][j] -= dd;
        }
      }
    }
    row_sums(&dot[0], &dot[1], part);
    UNROLL for (int side = 0; side < 2; side++) {
      int word = g + 8 * side;
      float f = 1.0f / (norm[side] + PAIR_EPS);
      Unit u = unit_(norm[side], dot[side]);
      if (word >= n) continue;
      i64 to = (b * rows + first + word) * e;
      UNROLL for (int q = 0; q < 2; q++) {
        int k = column + 32 * q;
        float w[8], d[8];
        read_eight(w, c + (i64)(first + word) * e, k, e);
        read_eight(d, dz + to, k, e);
        UNROLL for (int j = 0; j < 8; j++) {
          float y = x[4 * q + j / 2][2 * side + j % 2] * f;
          d[j] = u.u * (2 * (y - w[j]) * d[j]) + u.v * y;
        }
        if (half) write_eight_halves(half + to, d, k, e);
        else write_eight(dx + to, d, k, e);
      }
    }
  }
  UNROLL for (int side = 0; side < 2; side++) {
    int word = g + 8 * side;
    if (word >= n) continue;
    float* to = drows + ((i64)blockIdx.y * rows + first + word) * e;
    UNROLL for (int q = 0; q < 2; q++) write_eight(to, dv[side][q], column + 32 * q, e);
  }
}
