// Block cosines of nodes and their contexts (device.BlockMatch) where contexts are made on tensor cores and stay in
// registers: neither they nor products of words and regions nor Gram matrices are written to memory. Words with the
// regions of an image and regions with the words of a caption are the same to the kernel: rows that ask, and items
// whose rows are the keys.
//
//   c = Σ_k weight_k key_k of operands T (mma.cuh)    cosine = row·c / (‖row‖ ‖c‖)
//
// A warp keeps the keys of an item in a block of the vectors as operands B and takes 16 rows at a time as operand A. A
// lane has eight neighbouring values of a row: column 32q + 8t + 2j + i is column 2t + i of tile 4q + j.
#pragma once
#include "blockmatch.cuh"
#include "items.cuh"
#include "mma.cuh"

// Blocks of the vectors and rows that a block works on at once, the most keys of an item, tiles of a block of the
// vectors (Go: matchContextGroup, matchContextRows, matchContextKeys).
enum { kGroup = 4, kRows = 32, kKeys = 48, kTiles = 8 };

// Items that a block works on at once (Go: matchContextItems), of which TF32 takes twice as many registers; steps of an
// instruction's depth; words of the weights of a row, of which eight rows lie in different banks.
template <class T> struct Sizes {
  enum { kItems = T::kEach + 1, kSteps = kKeys / (8 * T::kEach), kStride = kKeys / T::kEach + 4 };
};

// The norms of blocks of nodes [rows, blocks], and the nodes in bfloat16 where they are wanted: eight lanes for each
// block.
template <bool halves>
VSE_INLINE void prepare_(bf16* half, float* norm, const float* x, int rows, int e, int blocks) {
  int width = e / blocks;
  i64 count = (i64)rows * blocks;
  for (i64 p0 = (i64)blockIdx.x * (blockDim.x / 8); p0 < count; p0 += (i64)gridDim.x * (blockDim.x / 8)) {
    i64 p = p0 + threadIdx.x / 8;
    float v[8], s = 0;
    UNROLL for (int i = 0; i < 8; i++) {
      int k = threadIdx.x % 8 + 8 * i;
      v[i] = p < count && k < width ? x[p * width + k] : 0;
      s += v[i] * v[i];
    }
    s = eight_sum(s);
    if (p >= count) continue;
    UNROLL for (int i = 0; i < 8; i++) {
      int k = threadIdx.x % 8 + 8 * i;
      if (halves && k < width) half[p * width + k] = bf16_of(v[i]);
    }
    if (threadIdx.x % 8 == 0) norm[p] = sqrtf(s);
  }
}

// A word of a column from x on, whose first and second value may not be there.
VSE_INLINE u32 word_(const bf16* x, bool first, bool second, int e) {
  return (first ? (u32)x[0] : 0) | (second ? (u32)x[e] : 0) << 16;
}
VSE_INLINE u32 word_(const float* x, bool first, bool, int) { return first ? tf32_(x[0]) : 0; }

// Eight values of a row.
VSE_INLINE void eight_(float* v, const bf16* row) {
  Quad y = *(const Quad*)row;
  UNROLL for (int j = 0; j < 4; j++) v[2 * j] = as_float(y[j] << 16), v[2 * j + 1] = as_float(y[j] & 0xffff0000u);
}
VSE_INLINE void eight_(float* v, const float* row) { read_eight(v, row, 0, 8); }

// Keys from first on, of n, as operands B of the tiles; keys and columns that are not there are 0.
template <class T, class Row>
VSE_INLINE void keys_(u32 (*b)[2], const Row* key, int first, int n, int e, int width) {
  int lane = threadIdx.x & 31, g = lane / 4;
  UNROLL for (int j = 0; j < kTiles; j++)
    UNROLL for (int i = 0; i < 2; i++) {
      int k = j / 4 * 32 + g / 2 * 8 + j % 4 * 2 + g % 2, row = first + T::kEach * (lane % 4 + 4 * i);
      b[j][i] = word_(key + (i64)row * e + k, k < width && row < n, k < width && row + 1 < n, e);
    }
}

// Cosines and contexts of rows with items. Words ask the r regions of an image; of_regions: regions ask the words of a
// caption. Block (x, y, z) has kGroup blocks of the vectors, kItems items and z's part of the rows, kRows·per of them.
// Rows of which a context is multiplied, and keys, are in bfloat16 or float32.
template <bool of_regions, class T, class Row>
VSE_INLINE void contexts_(float* match, float* context, const Row* row_of, const Row* key_of, const float* row_norm,
                          const float* key_norm, const float* x, const float* keys, const float* weights, i64 all,
                          const int* starts, const i64* squares, int r, int rows, int items, int e, int blocks,
                          int per) {
  enum { kItems = Sizes<T>::kItems, kSteps = Sizes<T>::kSteps, kStride = Sizes<T>::kStride, kEach = T::kEach };
  __shared__ u32 staged[2][kItems][kRows * kStride], lengths[kItems][kGroup][kKeys / kEach];
  __shared__ float sums[2][kItems][kRows * kGroup][3];
  int lane = threadIdx.x & 31, g = lane / 4, t = lane % 4;
  int own = threadIdx.x / (32 * kGroup), part = threadIdx.x / 32 % kGroup;
  int item = blockIdx.y * kItems + own, width = e / blocks, b = blockIdx.x * kGroup + part;
  Item it = item_of(of_regions ? starts : 0, squares, item < items ? item : 0, r);
  int n = item < items ? it.n : 0, steps = b < blocks ? (n + 8 * kEach - 1) / (8 * kEach) : 0;
  const float* w = weights + it.first * (of_regions ? all : 1);  // of a row and a key: row·row_step + key·key_step
  i64 row_step = of_regions ? 1 : all, key_step = of_regions ? all : 1;
  u32 operand[kSteps][kTiles][2];
  UNROLL for (int s = 0; s < kSteps; s++)
    keys_<T>(operand[s], key_of + it.first * e + b * width, 8 * kEach * s, steps > s ? n : 0, e, width);
  // The norms of the keys are an operand B too, the same in all columns.
  for (int p = lane; p < kKeys / kEach; p += 32) {
    const float* norm = key_norm + (it.first + kEach * p) * blocks + b;
    float v[kEach];
    UNROLL for (int i = 0; i < kEach; i++) v[i] = steps && kEach * p + i < n ? norm[i * blocks] : 0;
    lengths[own][part][p] = T::word(v);
  }
  // Weights go through shared memory as operands A, of which a thread reads the weights of six pairs of keys:
  // neighbouring lanes have neighbouring keys, or neighbouring rows, as the weights lie. The weights of the next kRows
  // rows are on their way while these are multiplied.
  int own_row = of_regions ? lane : 4 * part + lane / 8, own_key = 2 * (of_regions ? part : lane % 8);
  int row0 = blockIdx.z * per * kRows, last = row0 + per * kRows;
  if (last > rows) last = rows;
  for (int buffer = 1, begun = 0;; buffer ^= 1, row0 += kRows, begun = 1) {
    bool more = row0 < last;
    // A thread has the cosine of a row, of its item and of a block of the vectors.
    int row = row0 - kRows + threadIdx.x / kGroup % kRows, block = blockIdx.x * kGroup + threadIdx.x % kGroup;
    bool has = begun && item < items && block < blocks && row < rows;
    float norm_of_row = has ? row_norm[(i64)row * blocks + block] : 0;
    float next[6][2];
    const float* v = w + (row0 + own_row) * row_step + own_key * key_step;
    UNROLL for (int m = 0; m < 6; m++) {
      int row = row0 + own_row + (of_regions ? 0 : m / 3 * 16), k = own_key + (of_regions ? 8 * m : m % 3 * 16);
      next[m][0] = more && row < rows && k < n ? v[0] : 0;
      next[m][1] = more && row < rows && k + 1 < n ? v[key_step] : 0;
      v += of_regions ? 8 * all : m == 2 ? 16 * all - 32 : 16;
    }
    if (begun)
      UNROLL for (int h = 0; h < 2; h++) {
        float c[kTiles][4], size[4] = {0, 0, 0, 0}, dot[2] = {0, 0}, square[2] = {0, 0};
        UNROLL for (int j = 0; j < kTiles; j++)
          UNROLL for (int i = 0; i < 4; i++) c[j][i] = 0;
        const u32 *from = staged[buffer][own] + (16 * h + g) * kStride + t, *norm = lengths[own][part] + t;
        UNROLL for (int s = 0; s < kSteps; s++) {
          if (s >= steps) break;
          u32 a[4] = {from[8 * s], from[8 * s + 8 * kStride], from[8 * s + 4], from[8 * s + 8 * kStride + 4]};
          u32 same[2] = {norm[8 * s], norm[8 * s + 4]};
          UNROLL for (int j = 0; j < kTiles; j++) T::multiply(c[j], a, operand[s][j]);
          T::multiply(size, a, same);
        }
        int at = row0 - kRows + 16 * h + g;
        UNROLL for (int side = 0; side < 2; side++)
          UNROLL for (int q = 0; q < 2; q++) {
            float y[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (at + 8 * side < rows && b < blocks && 32 * q + 8 * t < width)
              eight_(y, row_of + (i64)(at + 8 * side) * e + b * width + 32 * q + 8 * t);
            UNROLL for (int j = 0; j < 4; j++) {
              float low = c[4 * q + j][2 * side], high = c[4 * q + j][2 * side + 1];
              dot[side] += low * y[2 * j];
              dot[side] += high * y[2 * j + 1];
              square[side] += low * low;
              square[side] += high * high;
            }
          }
        float d = half_sum(dot[0], dot[1], 1), sum = half_sum(square[0], square[1], 1);
        d += __shfl_xor_sync(0xffffffffu, d, 2);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        float* to = sums[buffer][own][(16 * h + 8 * (t & 1) + g) * kGroup + part];
        if (t < 2) to[0] = d, to[1] = sum, to[2] = t ? size[2] : size[0];
      }
    if (more) {
      u32* to = staged[buffer ^ 1][own] + own_row * kStride + own_key / kEach;
      UNROLL for (int m = 0; m < 6; m++)
        UNROLL for (int i = 0; i < 2; i += kEach)
          to[of_regions ? 8 / kEach * m + i : m / 3 * 16 * kStride + m % 3 * 16 / kEach + i] = T::word(next[m] + i);
    }
    __syncthreads();
    if (has) {
      const float* u = sums[buffer][own][threadIdx.x % (32 * kGroup)];
      Cosine v = cosine(u[0], u[1], u[2], norm_of_row, x + (i64)row * e + block * width,
                        keys + it.first * e + block * width, w + row * row_step, key_step, n, e, width);
      i64 to = of_regions ? ((i64)(row / r) * items + item) * r + row % r : (i64)item * rows + row;
      match[to * blocks + block] = v.cos;
      context[to * blocks + block] = v.norm;
    }
    if (!more) break;
  }
}
