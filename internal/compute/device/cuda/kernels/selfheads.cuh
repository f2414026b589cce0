// Self-attention on tensor cores, with operands T (mma.cuh): device.SelfAttention; selfattention.cu has the base
// kernels. A block has one head (blockIdx.x) of one caption of at most 64 rows, all of it, in three parts with a barrier
// between them: scores Q Kᵀ (and dC Vᵀ) to shared memory, a softmax of each row there, and products of these weights
// with values (and keys, queries, dC). So a step is one launch each way, and no weight is written to memory. Blocks
// begin with the longest caption (blockIdx.y): none that takes long is left for the end.
//
// Rows of operands are read where they lie, from memory or the first cache, straight into the registers of an
// instruction. The depth of a product may be in any order that both operands have: a lane takes eight neighbouring
// columns for scores, and four neighbouring keys for the products that follow.
#pragma once
#define VSE_THREADS 128
#define VSE_BLOCKS 7
#include "mma.cuh"
#include "selfattention.cuh"

enum { kWarps = VSE_THREADS / 32, kEights = 8 };  // eights of keys, at most (Go: selfRows)

// Scores [tall, tall + 4] of a head, tall its rows rounded up to 16; the gradients of the weights lie after them.
DYNAMIC_SHARED(float, shared_scores);

// Head is the block's part of the work.
struct Head {
  int lane, g, t, warp;
  int caption, start;  // and its first row
  int n, tall, line;  // rows of the caption, rounded up to 16, and how far apart rows of scores lie
  int size;           // columns of the head
  i64 at, in;         // first element of the head in a matrix [T, D], and in queries, keys and values
};

VSE_INLINE Head head_(const int* order, const int* lengths, const int* starts, int d, int ld) {
  Head h;
  h.caption = order[blockIdx.y], h.start = starts[h.caption];
  h.lane = threadIdx.x & 31, h.g = h.lane / 4, h.t = h.lane % 4, h.warp = threadIdx.x / 32;
  h.n = lengths[h.caption], h.tall = (h.n + 15) / 16 * 16, h.line = h.tall + 4;
  h.size = d / gridDim.x;
  h.at = (i64)h.start * d + blockIdx.x * h.size;
  h.in = (i64)h.start * ld + blockIdx.x * h.size;
  return h;
}

// put_ writes four neighbouring values, get_ sets v to an even number of them, 0 where there are none. fours says that
// each four of a row lie at a multiple of 16 bytes.
template <bool fours, class P> VSE_INLINE void put_(P* x, Four v) {
  if (fours) put_four(x, v);
  else
    for (int k = 0; k < 4; k++) put_one(x + k, v[k]);
}
template <bool fours, int many> VSE_INLINE void get_(float (&v)[many], const float* x, bool there) {
  UNROLL for (int i = 0; i < many; i++) v[i] = 0;
  if (!there) return;
  if (!fours) {
    UNROLL for (int i = 0; i < many; i++) v[i] = x[i];
  } else if (many % 4) {
    UNROLL for (int i = 0; i < many; i += 2) {
      Two q = *(const Two*)(x + i);
      v[i] = as_float(q[0]), v[i + 1] = as_float(q[1]);
    }
  } else {
    UNROLL for (int i = 0; i < many; i += 4) {
      Four q = four(x + i);
      UNROLL for (int k = 0; k < 4; k++) v[i + k] = q[k];
    }
  }
}

// words_ makes a lane's neighbours in depth words of an operand.
template <class T, int many> VSE_INLINE void words_(u32 (&w)[many / T::kEach], const float (&v)[many]) {
  UNROLL for (int i = 0; i < many / T::kEach; i++) w[i] = T::word(v + i * T::kEach);
}

// to [rows, line] = a_i·b_j for all rows of both, lda and ldb apart; a unit is 16 rows and 8 keys. Units first, first +
// step and so on are the units of the warp. Rows and keys after the caption get what its last row has.
template <class T, bool fours>
VSE_INLINE void scores_(const Head& h, float* to, const float* a, int lda, const float* b, int ldb, int first,
                        int step) {
  enum { kDeep = 8 / T::kEach };
  int keys = (h.n + 7) / 8, last = h.n - 1;
  if (keys == 0) return;
  for (int tile = 0, unit = first;; unit += step) {
    for (; unit >= keys; unit -= keys) tile += 16;
    if (tile >= h.tall) return;
    int low = tile + h.g, high = low + 8, column = 8 * unit, key = column + h.g;
    float c[4] = {0, 0, 0, 0};
    const float *x0 = a + (low < last ? low : last) * lda, *x1 = a + (high < last ? high : last) * lda,
                *x2 = b + (key < last ? key : last) * ldb;
    for (int k0 = 8 * h.t; k0 < h.size + 8 * h.t; k0 += 64) {
      float x[2][8], y[2][8], z[2][8];
      UNROLL for (int s = 0; s < 2; s++) {
        int k = k0 + 32 * s;
        get_<fours>(x[s], x0 + k, k < h.size);
        get_<fours>(y[s], x1 + k, k < h.size);
        get_<fours>(z[s], x2 + k, k < h.size);
      }
      UNROLL for (int s = 0; s < 2; s++) {
        u32 v[kDeep], w[kDeep], of[kDeep];
        words_<T>(v, x[s]), words_<T>(w, y[s]), words_<T>(of, z[s]);
        UNROLL for (int i = 0; i < kDeep; i += 2) {
          u32 rows[4] = {v[i], w[i], v[i + 1], w[i + 1]};
          T::multiply(c, rows, of + i);
        }
      }
    }
    float* at = to + low * h.line + column + 2 * h.t;
    UNROLL for (int i = 0; i < 4; i++) at[i / 2 * 8 * h.line + i % 2] = c[i];
  }
}

// eight_max is the greatest v of eight neighbouring lanes; NaN wins.
VSE_INLINE float eight_max(float v) {
  for (int d = 4; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(0xffffffffu, v, d);
    if (o > v || o != o) v = o;
  }
  return v;
}

// Drop is the dropout of the weights.
struct Drop {
  const int *step, *numbers;
  u32 key0, key1, limit;
  float keep;
};

// weights_ turns scores p into weights with dropout, over the rows whose word is not 0, and with back the gradients d
// of those into the gradients of the scores. Rows and keys after the caption get 0. Eight lanes have a row.
template <bool back>
VSE_INLINE void weights_(const Head& h, float* p, float* d, const int* words, const Drop& drop, float factor) {
  int eighth = h.lane % 8, number = drop.keep != 0 ? drop.numbers[h.start] : 0;
  u32 there = 0, some = 0;  // bit m: key eighth + 8m is one of the caption, and has a word
  UNROLL for (int m = 0; m < kEights; m++) {
    int j = eighth + 8 * m;
    if (8 * m >= h.n) break;
    if (j >= h.n) continue;
    there |= 1u << m;
    if (words && words[j]) some |= 1u << m;
  }
  if (eight_max((float)some) == 0) some = there;
  for (int row = 4 * h.warp + h.lane / 8; row < h.tall; row += 4 * kWarps) {
    float w[kEights], g[kEights], top = -as_float(0x7f800000u), sum = 0, mean = 0;
    float *at = p + row * h.line + eighth, *slope = d + row * h.line + eighth;
    UNROLL for (int m = 0; m < kEights; m++) {
      if (8 * m >= h.tall) break;
      w[m] = at[8 * m];
      if (some >> m & 1 && (w[m] > top || w[m] != w[m])) top = w[m];
    }
    top = eight_max(top);
    UNROLL for (int m = 0; m < kEights; m++) {
      if (8 * m >= h.tall) break;
      w[m] = some >> m & 1 ? exp_((w[m] - top) * factor) : 0;
      sum += w[m];
    }
    sum = 1 / eight_sum(sum);
    int column = ((int)blockIdx.x * h.n + row) * h.n + eighth;
    UNROLL for (int m = 0; m < kEights; m++) {
      if (8 * m >= h.tall) break;
      int live = row < h.n && there >> m & 1;
      float kept = 0;
      if (live) kept = kept_(number, column + 8 * m, drop.step, drop.key0, drop.key1, drop.limit, drop.keep);
      w[m] *= sum;
      at[8 * m] = live ? w[m] * kept : 0;
      if (!back) continue;
      g[m] = live ? slope[8 * m] * kept : 0;
      mean += w[m] * g[m];
    }
    if (!back) continue;
    mean = eight_sum(mean);
    UNROLL for (int m = 0; m < kEights; m++) {
      if (8 * m >= h.tall) break;
      slope[8 * m] = row < h.n ? w[m] * (g[m] - mean) * factor : 0;
    }
  }
}

// Mix is out_i = Σ_j w_ij x_j, copy_i rounded, and total = Σ_i out_i, each where it is not null. Rows of x lie ldx
// apart, the rows of out and copy ldo.
struct Mix {
  const float* w;  // in shared memory
  const float* x;
  int ldx, ldo;
  float* out;
  bf16* copy;
  float* total;
};

// mix_tiles_ does 16 columns of it, from column c on, of the two tiles of rows from row tile on, and adds their sums to
// sums: a lane has four neighbouring columns of two rows of a tile. With across the weight w_ij lies where the weight
// of row j and key i does.
template <class T, bool fours, bool across>
VSE_INLINE void mix_tiles_(const Head& h, const Mix& mix, int c, int tile, float* sums) {
  enum { kDeep = 4 / T::kEach };
  float s[2][2][4];
  UNROLL for (int i = 0; i < 2; i++)
    UNROLL for (int j = 0; j < 2; j++)
      UNROLL for (int k = 0; k < 4; k++) s[i][j][k] = 0;
  for (int key = 4 * h.t; key < h.tall; key += 16) {
    float x[4][2];
    u32 of[2][kDeep];
    const float* from = mix.w + (across ? key * h.line + tile + h.g : (tile + h.g) * h.line + key);
    UNROLL for (int e = 0; e < 4; e++)
      get_<fours>(x[e], mix.x + (key + e) * mix.ldx + c + 2 * h.g, key + e < h.n);
    UNROLL for (int j = 0; j < 2; j++) {
      float column[4] = {x[0][j], x[1][j], x[2][j], x[3][j]};
      words_<T>(of[j], column);
    }
    UNROLL for (int i = 0; i < 2; i++) {
      if (tile + 16 * i >= h.tall) break;
      u32 w[2][kDeep];
      UNROLL for (int side = 0; side < 2; side++) {
        float v[4];
        if (across) {
          UNROLL for (int e = 0; e < 4; e++) v[e] = from[e * h.line + 16 * i + 8 * side];
        } else {
          get_<true>(v, from, true);
          from += 8 * h.line;
        }
        words_<T>(w[side], v);
      }
      UNROLL for (int j = 0; j < 2; j++)
        UNROLL for (int k = 0; k < kDeep; k += 2) {
          u32 rows[4] = {w[0][k], w[1][k], w[0][k + 1], w[1][k + 1]};
          T::multiply(s[i][j], rows, of[j] + k);
        }
    }
  }
  UNROLL for (int i = 0; i < 2; i++) {
    if (tile + 16 * i >= h.tall) break;
    UNROLL for (int side = 0; side < 2; side++) {
      Four v = {s[i][0][2 * side], s[i][1][2 * side], s[i][0][2 * side + 1], s[i][1][2 * side + 1]};
      UNROLL for (int k = 0; k < 4; k++) sums[k] += v[k];
      int row = tile + 16 * i + 8 * side + h.g;
      if (row >= h.n) continue;
      int at = row * mix.ldo + c + 4 * h.t;
      if (mix.out) put_<fours>(mix.out + at, v);
      if (mix.copy) put_<fours>(mix.copy + at, v);
    }
  }
}
template <class T, bool fours, bool across> VSE_INLINE void mix_(const Head& h, const Mix& mix, int c) {
  float sums[4] = {0, 0, 0, 0};
  for (int tile = 0; tile < h.tall; tile += 32) mix_tiles_<T, fours, across>(h, mix, c, tile, sums);
  if (!mix.total) return;
  float sum = half_sum(half_sum(sums[0], sums[2], 16), half_sum(sums[1], sums[3], 16), 8);
  sum += __shfl_xor_sync(0xffffffffu, sum, 4);
  if (!(h.g & 1)) mix.total[c + 4 * h.t + h.g / 4 * 2 + h.g / 2 % 2] = sum;
}

// Where a vector or matrix may be null, no offset makes it an address.
template <class P> VSE_INLINE P* from_(P* x, i64 at) { return x ? x + at : x; }

template <class T, bool fours>
VSE_INLINE void attend_(const Head& h, float* context, bf16* copy, const float* query, const float* key,
                        const float* value, const int* words, const Drop& drop, float factor, int d, int ld) {
  scores_<T, fours>(h, shared_scores, query + h.in, ld, key + h.in, ld, h.warp, kWarps);
  __syncthreads();
  weights_<false>(h, shared_scores, shared_scores, words, drop, factor);
  __syncthreads();
  Mix mix = {shared_scores, value + h.in, ld, d, from_(context, h.at), from_(copy, h.at), 0};
  for (int c = 16 * h.warp; c < h.size; c += 16 * kWarps) mix_<T, fours, false>(h, mix, c);
}

// The gradient: dQ = dS K, dK = dSᵀ Q, dV = (M∘P)ᵀ dC, and the sums of their columns over each caption, part
// [captions, 3d], which may be null.
template <class T, bool fours>
VSE_INLINE void attend_grad_(const Head& h, float* dquery, float* dkey, float* dvalue, bf16* dquery_copy,
                             bf16* dkey_copy, bf16* dvalue_copy, float* part, const float* dcontext,
                             const float* query, const float* key, const float* value, const int* words,
                             const Drop& drop, float factor, int d, int ld) {
  float* slopes = shared_scores + h.tall * h.line;
  const float *q = query + h.in, *k = key + h.in, *dc = dcontext + h.at;
  // Half of the warps make the scores, the others the gradients of the weights.
  int other = h.warp % 2;
  scores_<T, fours>(h, other ? slopes : shared_scores, other ? dc : q, other ? d : ld, other ? value + h.in : k, ld,
                    h.warp / 2, kWarps / 2);
  __syncthreads();
  weights_<true>(h, shared_scores, slopes, words, drop, factor);
  __syncthreads();
  float* total = from_(part, (i64)h.caption * 3 * d + blockIdx.x * h.size);
  Mix dq = {slopes, k, ld, ld, from_(dquery, h.in), from_(dquery_copy, h.in), total},
      dk = {slopes, q, ld, ld, from_(dkey, h.in), from_(dkey_copy, h.in), from_(total, d)},
      dv = {shared_scores, dc, d, ld, from_(dvalue, h.in), from_(dvalue_copy, h.in), from_(total, 2 * d)};
  for (int c = 16 * h.warp; c < h.size; c += 16 * kWarps) {
    mix_<T, fours, false>(h, dq, c);
    mix_<T, fours, true>(h, dk, c);
    mix_<T, fours, true>(h, dv, c);
  }
}
