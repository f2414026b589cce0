// Similarity vectors of the words of a tile of pairs (device.Similarities) where the contexts are made on tensor
// cores, and not written to memory: x = Σ_k α_k V_k of operands in bfloat16 (similarities_sm80.cu) or TF32
// (similarities_tf32_sm80.cu), as the product does that similarities.cu follows.
//
//   z = (x/(‖x‖ + ε) - c)²    back, with y = x/(‖x‖ + ε):  dd = 2 (y - c)∘dz    dc = -Σ_images dd    dx = l2'(dd)
//
// A block makes the contexts of a tile of 16 words or of two with the images of a group in turn; a warp has kColumns
// columns of them. A lane has eight neighbouring values of a row: column 32q + 8t + 2j + i of an image is column 2t + i
// of tile 4q + j. The operands of a step are asked for when the operands of the step before are used, the first of the
// next image before the last values are written. The kernels *_small do with half the shared memory.
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

// Operands are the operands of a lane in the next step, for one or two tiles of 16 words, and where the operands of the
// next step lie; of the second tile that many words on.
template <int tiles> struct Operands {
  const u32 *weights, *regions;
  int second;
  Quad a[tiles], b[kTiles / 2];
};

template <int tiles> VSE_INLINE void next_(Operands<tiles>* o) {
  o->weights += kWeightWords, o->regions += kRegionWords;
}

// Where there is no other step they become 0: no register then keeps what was.
template <int tiles> VSE_INLINE void fetch_(Operands<tiles>* o, bool more) {
  Quad none = {0, 0, 0, 0};
  UNROLL for (int i = 0; i < tiles; i++) o->a[i] = none;
  UNROLL for (int j = 0; j < kTiles / 2; j++) o->b[j] = none;
  if (!more) return;
  UNROLL for (int i = 0; i < tiles; i++) o->a[i] = *(const Quad*)(o->weights + i * o->second);
  UNROLL for (int j = 0; j < kTiles / 2; j++) o->b[j] = *(const Quad*)(o->regions + 128 * j);
  next_(o);
}

// Of the tiles of words of the block, of which the last may lie after all rows, with the images from b on.
template <int tiles>
VSE_INLINE Operands<tiles> operands_(const u32* weights, const u32* regions, i64 b, int rows, int images, int steps) {
  Operands<tiles> o;
  int lane = threadIdx.x & 31, tile = tiles * blockIdx.x;
  o.weights = weights + ((i64)tile * images + b) * steps * kWeightWords + 4 * lane;
  o.second = tiles == 2 && 16 * (tile + 1) < rows ? images * steps * kWeightWords : 0;
  o.regions = regions + b * steps * kRegionWords + 4 * (threadIdx.x / 32 * (kTiles / 2) * 32 + lane);
  fetch_(&o, true);
  return o;
}

// x = α V for the words of the block and the columns of the warp, with the next image, whose first operands are
// fetched; the operands of the next image are still to be. squares are the sums of squares of the lane, of rows g, g +
// 8 and so on.
template <class T, int tiles>
VSE_INLINE void contexts_(float (*x)[kTiles][4], float* squares, Operands<tiles>* o, int steps) {
  UNROLL for (int i = 0; i < tiles; i++)
    UNROLL for (int j = 0; j < kTiles; j++)
      UNROLL for (int k = 0; k < 4; k++) x[i][j][k] = 0;
  for (int step = 1; step <= steps; step++) {
    bool more = step < steps;
    u32 a[tiles][4];
    UNROLL for (int i = 0; i < tiles; i++) {
      UNROLL for (int k = 0; k < 4; k++) a[i][k] = o->a[i][k];
      if (more) o->a[i] = *(const Quad*)(o->weights + i * o->second);
    }
    UNROLL for (int j = 0; j < kTiles / 2; j++) {
      u32 b[2][2] = {{o->b[j][0], o->b[j][1]}, {o->b[j][2], o->b[j][3]}};
      UNROLL for (int i = 0; i < tiles; i++) {
        T::multiply(x[i][2 * j], a[i], b[0]);
        T::multiply(x[i][2 * j + 1], a[i], b[1]);
      }
      if (more) o->b[j] = *(const Quad*)(o->regions + 128 * j);
    }
    if (more) next_(o);
  }
  UNROLL for (int side = 0; side < 2 * tiles; side++) {
    squares[side] = 0;
    UNROLL for (int j = 0; j < kTiles; j++) {
      const float* of = x[side / 2][j] + 2 * (side % 2);
      squares[side] += of[0] * of[0] + of[1] * of[1];
    }
  }
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

// Group is what a block does, n words with the images [b, last), and what a lane has of it: the words g, g + 8 and so
// on, of which word g begins at at, with eight columns and eight more, 32 further on; there are that many of each word
// from the first of them on, 0 where there is no word. A tile has fewer than 2³¹ values.
template <int tiles> struct Group { int n, b, last, there[2 * tiles], at; };

template <int tiles> VSE_INLINE Group<tiles> group_(int rows, int images, int per, int e) {
  Group<tiles> of;
  int first = 16 * tiles * blockIdx.x, column = threadIdx.x / 32 * kColumns + (threadIdx.x & 3) * 8;
  int g = threadIdx.x / 4 & 7;
  of.n = rows - first, of.b = blockIdx.y * per, of.last = of.b + per < images ? of.b + per : images;
  UNROLL for (int side = 0; side < 2 * tiles; side++) of.there[side] = g + 8 * side < of.n ? e - column : 0;
  of.at = (first + g) * e + column;
  return of;
}

// Eight are neighbouring values of a row as they lie in memory, where k < e; 0 elsewhere. bfloat16 takes half the
// registers until its values are used.
template <class V> struct Eight { Four low, high; };
template <> struct Eight<bf16> { Quad words; };
VSE_INLINE Eight<float> ask_(const float* row, int k, int e) {
  Eight<float> x = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  if (k < e) x.low = four(row + k), x.high = four(row + k + 4);
  return x;
}
VSE_INLINE Eight<bf16> ask_(const bf16* row, int k, int e) {
  Eight<bf16> x = {{0, 0, 0, 0}};
  if (k < e) x.words = *(const Quad*)(row + k);
  return x;
}
VSE_INLINE float value_(const Eight<float>& x, int i) { return i < 4 ? x.low[i] : x.high[i - 4]; }
VSE_INLINE float value_(const Eight<bf16>& x, int i) {
  return as_float(i % 2 ? x.words[i / 2] & 0xffff0000u : x.words[i / 2] << 16);
}
VSE_INLINE void give_(float* row, const float* v, int k, int e) { write_eight(row, v, k, e); }
VSE_INLINE void give_(float* row, const Eight<float>& v, int k, int e) {
  if (k < e) put_four(row + k, v.low), put_four(row + k + 4, v.high);
}
VSE_INLINE void give_(bf16* row, const float* v, int k, int e) { write_eight_halves(row, v, k, e); }

// What a lane keeps in shared memory, as there are no registers for it, four values at a time, the values of all
// threads side by side: eight values of a word that it has and eight more, and after all of the block that many times
// others (Go: contextShared).
DYNAMIC_SHARED(Four, kept);
VSE_INLINE Four* kept_(int side, int q) { return kept + (4 * side + 2 * q) * VSE_THREADS + threadIdx.x; }
VSE_INLINE Eight<float> word_(int side, int q) {
  Four* w = kept_(side, q);
  return (Eight<float>){w[0], w[VSE_THREADS]};
}
VSE_INLINE void keep_(int side, int q, const Eight<float>& w) {
  Four* to = kept_(side, q);
  to[0] = w.low, to[VSE_THREADS] = w.high;
}

// z of the words of the block, one or two tiles of them, with the images of group blockIdx.y, per images each.
template <class T, int tiles, class V>
VSE_INLINE void squares_(V* z, const u32* weights, const u32* regions, const float* c, int rows, int images, int e,
                         int steps, int per, Parts* part) {
  Group<tiles> of = group_<tiles>(rows, images, per, e);
  UNROLL for (int side = 0; side < 2 * tiles; side++)
    UNROLL for (int q = 0; q < 2; q++)
      keep_(side, q, ask_(c + of.at + 8 * side * e, 32 * q, of.there[side]));
  Operands<tiles> o = operands_<tiles>(weights, regions, of.b, rows, images, steps);
  int image = of.b * rows * e + of.at;
  for (int b = of.b; b < of.last; b++, image += rows * e) {
    float x[tiles][kTiles][4], norm[2 * tiles];
    contexts_<T>(x, norm, &o, steps);
    UNROLL for (int side = 0; side < 2 * tiles; side++) {
      if (side % 2 == 0) row_sums(norm + side, norm + side + 1, part[tiles == 1 ? b & 1 : side / 2]);
      if (side == 2 * tiles - 2) fetch_(&o, b + 1 < of.last);  // there are registers for no more before
      float f = 1.0f / (sqrtf(norm[side]) + PAIR_EPS);
      UNROLL for (int q = 0; q < 2; q++) {
        float y[8];
        Eight<float> w = word_(side, q);
        UNROLL for (int j = 0; j < 8; j++) {
          float d = x[side / 2][4 * q + j / 2][2 * (side % 2) + j % 2] * f - value_(w, j);
          y[j] = d * d;
        }
        give_(z + image + 8 * side * e, y, 32 * q, of.there[side]);
      }
    }
  }
}

// From dz, in its place, the gradient of the contexts, and z; and of every group -Σ_images dd, [groups, rows, e]. These
// sums are kept first; the words are kept inside after them, or read from memory again and again where a block has no
// room for them. What a thread reads of dz it alone writes.
template <class T, bool inside, class V>
VSE_INLINE void squares_grad_(V* z, V* dz, float* drows, const u32* weights, const u32* regions, const float* c,
                              int rows, int images, int e, int steps, int per, Parts* part) {
  Group<1> of = group_<1>(rows, images, per, e);
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int q = 0; q < 2; q++) {
      keep_(side, q, (Eight<float>){{0, 0, 0, 0}, {0, 0, 0, 0}});
      if (inside) keep_(2 + side, q, ask_(c + of.at + 8 * side * e, 32 * q, of.there[side]));
    }
  Operands<1> o = operands_<1>(weights, regions, of.b, rows, images, steps);
  int image = of.b * rows * e + of.at;
  for (int b = of.b; b < of.last; b++, image += rows * e) {
    // A thread fetches 128 bytes of the next image's dz.
    int line = threadIdx.x % 32 * (128 / (int)sizeof(V)), word = threadIdx.x / 32;
    if (b + 1 < of.last && word < of.n && line < e)
      prefetch_(dz + ((b + 1) * rows + 16 * blockIdx.x + word) * e + line);
    Eight<V> d[2][2];  // on their way while the contexts are made
    UNROLL for (int side = 0; side < 2; side++)
      UNROLL for (int q = 0; q < 2; q++) d[side][q] = ask_(dz + image + 8 * side * e, 32 * q, of.there[side]);
    float x[1][kTiles][4], norm[2];
    contexts_<T>(x, norm, &o, steps);
    row_sums(&norm[0], &norm[1], part[0]);
    float dot[2] = {0, 0}, dd[2][2][8];
    UNROLL for (int side = 0; side < 2; side++) norm[side] = sqrtf(norm[side]);
    UNROLL for (int side = 0; side < 2; side++) {
      float f = 1.0f / (norm[side] + PAIR_EPS);
      UNROLL for (int q = 0; q < 2; q++) {
        float square[8];
        Four* sum = kept_(side, q);
        Eight<float> w;
        if (inside) w = word_(2 + side, q);
        else w = ask_(c + image - b * rows * e + 8 * side * e, 32 * q, of.there[side]);
        UNROLL for (int i = 0; i < 2; i++) {
          Four s = sum[i * VSE_THREADS];
          UNROLL for (int j = 4 * i; j < 4 * i + 4; j++) {
            float *y = &x[0][4 * q + j / 2][2 * side + j % 2], off;
            *y *= f;
            off = *y - value_(w, j);
            square[j] = off * off;
            dd[side][q][j] = 2 * off * value_(d[side][q], j);
            dot[side] += dd[side][q][j] * *y;
            s[j % 4] -= dd[side][q][j];
          }
          sum[i * VSE_THREADS] = s;
        }
        give_(z + image + 8 * side * e, square, 32 * q, of.there[side]);
      }
    }
    row_sums(&dot[0], &dot[1], part[1]);
    UNROLL for (int side = 0; side < 2; side++) {
      if (side == 1) fetch_(&o, b + 1 < of.last);  // there are registers for no more before
      Unit u = unit_(norm[side], dot[side]);
      UNROLL for (int q = 0; q < 2; q++) {
        float to[8];
        UNROLL for (int j = 0; j < 8; j++)
          to[j] = u.u * dd[side][q][j] + u.v * x[0][4 * q + j / 2][2 * side + j % 2];
        give_(dz + image + 8 * side * e, to, 32 * q, of.there[side]);
      }
    }
  }
  drows += (i64)blockIdx.y * rows * e + image - of.last * rows * e;  // image has gone through them
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int q = 0; q < 2; q++) give_(drows + 8 * side * e, word_(side, q), 32 * q, of.there[side]);
}
