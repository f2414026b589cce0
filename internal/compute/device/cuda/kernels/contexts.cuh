// Similarity vectors of the words of a tile of pairs (device.Similarities) where the contexts are made on tensor
// cores, and not written to memory: x = Σ_k α_k V_k of operands in bfloat16 (similarities_sm80.cu) or TF32
// (similarities_tf32_sm80.cu), as the product does that similarities.cu follows.
//
//   z = (x/(‖x‖ + ε) - c)²    back, with y = x/(‖x‖ + ε):  dd = 2 (y - c)∘dz    dc = -Σ_images dd    dx = l2'(dd)
//
// A block makes the contexts of 16 words with the images of a group in turn; a warp has kColumns columns of them. A
// lane has eight neighbouring values of a row: column 32q + 8t + 2j + i of an image is column 2t + i of tile 4q + j.
// The operands of a step are asked for when those of the step before are used, those of the next image too, so that
// they come while sums go from warp to warp.
#pragma once
#define VSE_THREADS 512
#include "mma.cuh"

enum { kWarps = 16, kTiles = 8, kColumns = 64 };  // of a warp: tiles, columns (Go: contextColumns of all warps)

enum {  // words of a step
  kRegionWords = 64 * kWarps * kTiles,
  kWeightWords = 128
};

// regions [images, steps, 64, 32]: the regions of the images as operands B, as many regions a step as an instruction is
// deep, two tiles of 8 columns, of which a lane has two words each. weights [(rows + 15) / 16, images, steps, 32]: α of
// 16 words as operands A, of which a lane has four words. Columns, regions and words that are not there are 0.
template <class T>
VSE_INLINE void pack_(u32* regions, u32* weights, const float* images_, const float* alpha, i64 all, int rows,
                      int images, int r, int e, int steps, i64 count) {
  i64 first = (i64)images * steps * (kRegionWords / 4);
  EACH(i, count) {
    int lane = (int)(i % 32), g = lane / 4, t = lane % 4;
    Quad w;
    if (i < first) {
      int pair = (int)(i / 32 % (kWarps * kTiles / 2));
      i64 step = i / (kRegionWords / 4), image = step / steps;
      int row = T::kEach * (8 * (int)(step - image * steps) + t);
      UNROLL for (int j = 0; j < 4; j++) {
        int tile = 2 * pair + j / 2, k = tile / 4 * 32 + g / 2 * 8 + tile % 4 * 2 + g % 2;
        const float* x = images_ + image * r * e + k;
        float v[T::kEach];
        for (int q = 0; q < T::kEach; q++) {
          int at = row + 4 * T::kEach * (j % 2) + q;
          v[q] = k < e && at < r ? x[(i64)at * e] : 0;
        }
        w[j] = T::word(v);
      }
      *(Quad*)(regions + 4 * i) = w;
      continue;
    }
    i64 step = (i - first) / 32, image = step / steps;
    int word = (int)(image / images) * 16 + g, row = T::kEach * (8 * (int)(step - image * steps) + t);
    const float* x = alpha + image % images * r;
    UNROLL for (int j = 0; j < 4; j++) {
      float v[T::kEach];
      for (int q = 0; q < T::kEach; q++) {
        int at = row + 4 * T::kEach * (j / 2) + q, of = word + 8 * (j % 2);
        v[q] = of < rows && at < r ? x[of * all + at] : 0;
      }
      w[j] = T::word(v);
    }
    *(Quad*)(weights + 4 * (i - first)) = w;
  }
}

// Operands are those of a lane in the next step, and where those of the steps behind lie, of which there are so many.
struct Operands {
  const u32 *weights, *regions;
  int left;
  Quad a, b[kTiles / 2];
};

VSE_INLINE void next_(Operands* o) {
  o->left--;
  o->weights += kWeightWords, o->regions += kRegionWords;
}

// Of the 16 words from 16·blockIdx.x on, with n images from image b on.
VSE_INLINE Operands operands_(const u32* weights, const u32* regions, i64 b, int n, int images, int steps) {
  Operands o;
  int lane = threadIdx.x & 31;
  o.weights = weights + ((i64)blockIdx.x * images + b) * steps * kWeightWords + 4 * lane;
  o.regions = regions + b * steps * kRegionWords + 4 * (threadIdx.x / 32 * (kTiles / 2) * 32 + lane);
  o.a = *(const Quad*)o.weights;
  UNROLL for (int j = 0; j < kTiles / 2; j++) o.b[j] = *(const Quad*)(o.regions + 128 * j);
  o.left = n * steps;
  next_(&o);
  return o;
}

// x = α V for the 16 words and the columns of the warp, with the next image. low and high are the sums of squares of
// the lane, of rows g and g + 8.
template <class T>
VSE_INLINE void contexts_(float (*x)[4], float* low, float* high, Operands* o, int steps) {
  UNROLL for (int j = 0; j < kTiles; j++)
    UNROLL for (int i = 0; i < 4; i++) x[j][i] = 0;
  for (int step = 0; step < steps; step++) {
    bool more = o->left > 0;
    u32 a[4] = {o->a[0], o->a[1], o->a[2], o->a[3]};
    if (more) o->a = *(const Quad*)o->weights;
    UNROLL for (int j = 0; j < kTiles / 2; j++) {
      u32 b[2][2] = {{o->b[j][0], o->b[j][1]}, {o->b[j][2], o->b[j][3]}};
      T::multiply(x[2 * j], a, b[0]);
      T::multiply(x[2 * j + 1], a, b[1]);
      if (more) o->b[j] = *(const Quad*)(o->regions + 128 * j);
    }
    next_(o);
  }
  *low = *high = 0;
  UNROLL for (int j = 0; j < kTiles; j++) *low += x[j][0] * x[j][0] + x[j][1] * x[j][1];
  UNROLL for (int j = 0; j < kTiles; j++) *high += x[j][2] * x[j][2] + x[j][3] * x[j][3];
}

// What the warps add to the sums of the 16 rows.
typedef float Parts[16][kWarps + 4];

// The sums of low and high over the rows g and g + 8 of a block, to every lane that has such a row. What an earlier
// call left in part has been read: the call before had other parts, and a barrier.
VSE_INLINE void row_sums(float* low, float* high, Parts part) {
  for (int d = 1; d < 4; d <<= 1) {
    *low += __shfl_xor_sync(0xffffffffu, *low, d);
    *high += __shfl_xor_sync(0xffffffffu, *high, d);
  }
  int lane = threadIdx.x & 31, g = lane / 4, warp = threadIdx.x / 32;
  if (lane % 4 == 0) part[g][warp] = *low, part[g + 8][warp] = *high;
  __syncthreads();
  *low = *high = 0;
  UNROLL for (int w = 0; w < kWarps; w += 4) {
    Four one = four(part[g] + w), next = four(part[g + 8] + w);
    UNROLL for (int j = 0; j < 4; j++) *low += one[j], *high += next[j];
  }
}

// Group is what a block does, n words with the images [b, last), and what a lane has of it: the words g and g + 8, of
// which word g begins at at, with eight columns and eight more, 32 behind, of `columns` from the first of them on. A
// tile has fewer than 2³¹ values.
struct Group { int n, b, last, g, columns, at; };

VSE_INLINE Group group_(int rows, int images, int per, int e) {
  Group of;
  int first = 16 * blockIdx.x, column = threadIdx.x / 32 * kColumns + (threadIdx.x & 3) * 8;
  of.n = rows - first, of.b = blockIdx.y * per, of.last = of.b + per < images ? of.b + per : images;
  of.g = threadIdx.x / 4 & 7, of.columns = e - column, of.at = (first + of.g) * e + column;
  return of;
}

// z of the words from 16·blockIdx.x on with the images of group blockIdx.y, per images each, to half or to z.
template <class T>
VSE_INLINE void squares_(float* z, bf16* half, const u32* weights, const u32* regions, const float* c, int rows,
                         int images, int e, int steps, int per, Parts* part) {
  Group of = group_(rows, images, per, e);
  float w[2][2][8];  // of the words
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int q = 0; q < 2; q++)
      read_eight(w[side][q], c + of.at + 8 * side * e + 32 * q, 0, of.g + 8 * side < of.n ? of.columns - 32 * q : 0);
  Operands o = operands_(weights, regions, of.b, of.last - of.b, images, steps);
  int image = of.b * rows * e + of.at;
  for (int b = of.b; b < of.last; b++, image += rows * e) {
    float x[kTiles][4], low, high;
    contexts_<T>(x, &low, &high, &o, steps);
    row_sums(&low, &high, part[b & 1]);
    UNROLL for (int side = 0; side < 2; side++) {
      float f = 1.0f / (sqrtf(side ? high : low) + PAIR_EPS);
      if (of.g + 8 * side >= of.n) continue;
      UNROLL for (int q = 0; q < 2; q++) {
        float y[8];
        UNROLL for (int j = 0; j < 8; j++) {
          float d = x[4 * q + j / 2][2 * side + j % 2] * f - w[side][q][j];
          y[j] = d * d;
        }
        int to = image + 8 * side * e + 32 * q;
        if (half) write_eight_halves(half + to, y, 0, of.columns - 32 * q);
        else write_eight(z + to, y, 0, of.columns - 32 * q);
      }
    }
  }
}

// The values of the words that a lane has, in shared memory, four at a time, those of all threads side by side: there
// are no registers for them (Go: contextShared).
DYNAMIC_SHARED(Four, kept_words);
VSE_INLINE void kept_(float* w, int side, int q) {
  UNROLL for (int i = 0; i < 8; i++) w[i] = kept_words[(4 * side + 2 * q + i / 4) * VSE_THREADS + threadIdx.x][i % 4];
}

// From dz the gradient of the contexts, to half or dx, which may be dz; and of every group Σ_images dd, [groups, rows,
// e]. What a thread reads of dz it alone writes.
template <class T>
VSE_INLINE void squares_grad_(float* dx, bf16* half, float* drows, const float* dz, const u32* weights,
                              const u32* regions, const float* c, int rows, int images, int e, int steps, int per,
                              Parts* part) {
  Group of = group_(rows, images, per, e);
  float dv[2][2][8];
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int q = 0; q < 2; q++) {
      float w[8];
      read_eight(w, c + of.at + 8 * side * e + 32 * q, 0, of.g + 8 * side < of.n ? of.columns - 32 * q : 0);
      UNROLL for (int i = 0; i < 8; i += 4) {
        Four v = {w[i], w[i + 1], w[i + 2], w[i + 3]};
        kept_words[(4 * side + 2 * q + i / 4) * VSE_THREADS + threadIdx.x] = v;
      }
      UNROLL for (int j = 0; j < 8; j++) dv[side][q][j] = 0;
    }
  int image = of.b * rows * e + of.at;
  for (int b = of.b; b < of.last; b++, image += rows * e) {
    // A thread fetches 128 bytes of the next image's dz.
    int line = threadIdx.x % 32 * 32, word = threadIdx.x / 32;
    if (b + 1 < of.last && word < of.n && line < e)
      prefetch_(dz + ((b + 1) * rows + 16 * blockIdx.x + word) * e + line);
    float x[kTiles][4], low, high;
    Operands o = operands_(weights, regions, b, 1, images, steps);  // there are registers for no more
    contexts_<T>(x, &low, &high, &o, steps);
    row_sums(&low, &high, part[0]);
    float norm[2] = {sqrtf(low), sqrtf(high)}, dot[2] = {0, 0};
    UNROLL for (int side = 0; side < 2; side++) {
      float f = 1.0f / (norm[side] + PAIR_EPS);
      if (of.g + 8 * side >= of.n) continue;
      UNROLL for (int q = 0; q < 2; q++) {
        float w[8], d[8];
        kept_(w, side, q);
        read_eight(d, dz + image + 8 * side * e + 32 * q, 0, of.columns - 32 * q);
        UNROLL for (int j = 0; j < 8; j++) {
          float y = x[4 * q + j / 2][2 * side + j % 2] * f, dd = 2 * (y - w[j]) * d[j];
          dot[side] += dd * y;
          dv[side][q][j] -= dd;
        }
      }
    }
    row_sums(&dot[0], &dot[1], part[1]);
    UNROLL for (int side = 0; side < 2; side++) {
      float f = 1.0f / (norm[side] + PAIR_EPS);
      Unit u = unit_(norm[side], dot[side]);
      if (of.g + 8 * side >= of.n) continue;
      UNROLL for (int q = 0; q < 2; q++) {
        float w[8], d[8];
        int to = image + 8 * side * e + 32 * q;
        kept_(w, side, q);
        read_eight(d, dz + to, 0, of.columns - 32 * q);
        UNROLL for (int j = 0; j < 8; j++) {
          float y = x[4 * q + j / 2][2 * side + j % 2] * f;
          d[j] = u.u * (2 * (y - w[j]) * d[j]) + u.v * y;
        }
        if (half) write_eight_halves(half + to, d, 0, of.columns - 32 * q);
        else write_eight(dx + to, d, 0, of.columns - 32 * q);
      }
    }
  }
  drows += (i64)blockIdx.y * rows * e + of.at;
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int q = 0; q < 2; q++)
      if (of.g + 8 * side < of.n) write_eight(drows + 8 * side * e + 32 * q, dv[side][q], 0, of.columns - 32 * q);
}
