// The steps of a large GRU over a packed batch on tensor cores, with operands T (mma.cuh): device.GRU; gru.cu has
// the kernels between products. A step is the product with the recurrent weights, and the gates of its columns. All
// steps one way are one kernel where its blocks run at once (gru_tensor_steps, gru_tensor_grads), each with its columns
// of the weights in shared memory. Else each step is one (gru_tensor_step, gru_tensor_grad). Both give the same bits.
//
//   forward   hidden = h W_hhᵀ of the states before the step, then the gates of the step
//   back      the gradient of the states, of the slopes [r, z, hn] of the step that was done before times W_hh, then
//             the slopes of the step
//
// A block has some units, all columns of which it computes, and a part of the sequences. Each of its warps multiplies a
// part of the depth, so that the block reads its operands once, straight into registers, and the sums of the warps are
// added in shared memory. What a launch reads that its other blocks write, states or slopes, alternates between two
// places.
#pragma once
#include "gru.cuh"
#include "recurrent.cuh"

enum {
  kTall = 4,    // tiles of 16 sequences that a warp multiplies at a time
  kUnits = 16,  // of a block, forward (Go: tensorUnits)
  kForward = 3 * kUnits / 8,  // tiles of 8 columns of a block, forward
};

// The units of a block back (Go: slopes), of which shared memory holds the columns where there are 1,024 in all, and
// tiles of 8 of them.
template <class T> struct BackSizes { enum { kSlopes = 16 * T::kEach, kBack = kSlopes / 8 }; };

// The weights as operands, of directions blockIdx.y: to [rows, columns] = whh, transposed where it says so. n counts
// groups of values of 16 bytes. arrived [2] becomes 0, for the barriers of the next kernel.
template <class T>
VSE_INLINE void weights_(typename T::Value* to, const float* whh0, const float* whh1, u32* arrived, int rows,
                         int columns, int transposed, i64 n) {
  enum { kColumns = Tile<T>::kColumns, kQuad = Tile<T>::kQuad };
  if (blockIdx.x + threadIdx.x == 0) arrived[blockIdx.y] = 0;
  const float* w = blockIdx.y ? whh1 : whh0;
  to += (i64)blockIdx.y * rows * columns;
  i64 across = transposed ? rows : 1, down = transposed ? 1 : columns;
  EACH(i, n) {
    i64 row = i / 4 % rows, column = i / 4 / rows * kColumns + i % 4 * kQuad;
    const float* x = w + row * down + column * across;
    float v[kQuad];
    UNROLL for (int j = 0; j < kQuad; j++) v[j] = x[j * across];
    Quad q;
    UNROLL for (int j = 0; j < 4; j++) q[j] = T::word(v + j * T::kEach);
    *(Quad*)(to + kQuad * i) = q;
  }
}

// Forward is what the steps of a direction are of: where its states lie among all, the unit of the thread and its
// biases.
template <class T> struct Forward {
  float *gates, *y, *prev;
  Columns<kForward, 2, T> of;
  i64 all;
  int k;
  float ir, iz, in, br, bz, bn;
};

template <class T>
VSE_INLINE Forward<T> forward_of_(float* gates, float* y, float* prev, const typename T::Value* weights,
                                  const float* bi, const float* bh, int b, int h) {
  int group = blockIdx.x % (h / kUnits), k = group * kUnits + threadIdx.x % 8 + threadIdx.x / kTile * 8;
  weights += blockIdx.y * 3 * (i64)h * h + Tile<T>::kColumns * group * kUnits;
  Forward<T> f = {gates, y, prev, {weights, 3 * h, h}, blockIdx.y * (i64)sixteens(b) * h, k,
                  bi[k], bi[h + k], bi[2 * h + k], bh[k], bh[h + k], bh[2 * h + k]};
  return f;
}

// forward_ is a step when n of all steps are done. to and from [2, b, h], in tiles, b rounded up to 16, are the states
// after and before it. At the last step the rows of prev after the words become zero. The gates of all tiles are made
// together, so that a thread has several on their way. Where arrived is not null, the block comes to the barrier after
// the step once the states are written, before gates and prev, which no other block reads.
template <class T>
VSE_INLINE void forward_(const Forward<T>& f, typename T::Value* to, const typename T::Value* from, float* part,
                         u32* arrived, const int* starts, int n, int steps, int rows, int b, int h, int reverse) {
  int t = word(n, steps, reverse), old = word(n - 1, steps, reverse), k = f.k;
  i64 start = starts[t], before = n == 0 ? 0 : starts[old];
  int active = starts[t + 1] - (int)start, continued = n == 0 ? 0 : starts[old + 1] - (int)before;
  int groups = h / kUnits;
  Sequences s = sequences_(active, blockIdx.x / groups, gridDim.x / groups);
  // The output of a thread in each tile of 16 sequences.
  int half = threadIdx.x / kTile, own = threadIdx.x % kTile / 8;
  if (arrived && s.first >= s.last) grid_arrive(arrived);
  float *gates = f.gates + start * 4 * h + k, *y = f.y + k;
  for (int row = s.first; row < s.last; row += 16 * kTall) {
    float x[kTall][kForward][4], g[kTall][4], sums[kTall][3];
    UNROLL for (int i = 0; i < kTall; i++) {
      int q = row + 16 * i + own;
      UNROLL for (int j = 0; j < 3; j++) g[i][j] = q < s.last ? gates[(q * 4 + j) * h] : 0;
      g[i][3] = q < continued && q < s.last ? y[before * h + q * h] : 0;
    }
    int last = s.last < continued ? s.last : continued;
    if (row < last)
      multiply_<true>(x, from + f.all + Tile<T>::kColumns * row, sixteens(b), f.of, h, (last - row + 15) / 16);
    UNROLL for (int i = 0; i < kTall; i++) {
      UNROLL for (int j = 0; j < 3; j++) sums[i][j] = 0;
      if (row + 16 * i >= last) continue;
      give_<kForward>(part, x[i]);
      if (row + 16 * i + own >= last) continue;
      UNROLL for (int j = 0; j < 3; j++) sums[i][j] = total_<kForward>(part, 2 * j + half, threadIdx.x % kTile);
    }
    Gates v[kTall];
    UNROLL for (int i = 0; i < kTall; i++) {
      sums[i][2] += f.bn;
      v[i] = gates_(g[i][0] + f.ir + (sums[i][0] + f.br), g[i][1] + f.iz + (sums[i][1] + f.bz), g[i][2] + f.in,
                    sums[i][2], g[i][3]);
    }
    UNROLL for (int i = 0; i < kTall; i++) {
      int q = row + 16 * i + own;
      if (q >= s.last) continue;
      y[start * h + q * h] = v[i].after;
      to[f.all + tiled<T>(q, k, sixteens(b))] = T::value(v[i].after);
    }
    if (arrived && row + 16 * kTall >= s.last) grid_arrive(arrived);
    UNROLL for (int i = 0; i < kTall; i++) {
      int q = row + 16 * i + own;
      if (q >= s.last) continue;
      float* o = gates + q * 4 * h;
      o[0] = v[i].r;
      o[h] = v[i].z;
      o[2 * h] = v[i].m;
      o[3 * h] = sums[i][2];
      f.prev[start * h + q * h + k] = g[i][3];
    }
  }
  if (n == steps - 1) {
    i64 words = (i64)starts[steps] * h;
    EACH(i, (i64)rows * h - words) f.prev[words + i] = 0;
  }
}

// A step forward. weights [2, 3h, h].
template <class T>
VSE_INLINE void step_(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1,
                      typename T::Value* to, const typename T::Value* from, const typename T::Value* weights,
                      const float* bih0, const float* bih1, const float* bhh0, const float* bhh1, const int* starts,
                      int n, int steps, int rows, int b, int h, int reverse) {
  __shared__ __attribute__((aligned(16))) float part[kWarps * kForward * kTile];
  int second = blockIdx.y;
  Forward<T> f = forward_of_<T>(second ? gates1 : gates0, second ? y1 : y0, second ? prev1 : prev0, weights,
                                second ? bih1 : bih0, second ? bhh1 : bhh0, b, h);
  forward_<T>(f, to, from, part, 0, starts, n, steps, rows, b, h, reverse);
}

// All steps forward, whose states lie in even and odd in turn. The blocks run at once; between two steps is a barrier
// of the blocks of a direction, which four accesses of the L2 cache one after the other take. The other direction has
// its many sequences when this one has few, so neither waits for it. Shared memory: weights and parts.
template <class T>
VSE_INLINE void steps_(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1,
                       typename T::Value* even, typename T::Value* odd, const typename T::Value* weights,
                       const float* bih0, const float* bih1, const float* bhh0, const float* bhh1, u32* arrived,
                       const int* starts, int steps, int rows, int b, int h, int reverse) {
  int second = blockIdx.y;
  arrived += second;
  Forward<T> f = forward_of_<T>(second ? gates1 : gates0, second ? y1 : y0, second ? prev1 : prev0, weights,
                                second ? bih1 : bih0, second ? bhh1 : bhh0, b, h);
  f.of = keep_(shared_quads, f.of, h);
  float* part = (float*)(shared_quads + kForward * (8 * h / Tile<T>::kQuad));
  for (int n = 0; n < steps; n++) {
    if (n > 0) grid_wait(arrived, n, gridDim.x);
    forward_<T>(f, n % 2 ? odd : even, n % 2 ? even : odd, part, n < steps - 1 ? arrived : 0, starts, n, steps, rows, b,
                h, reverse);
  }
}

// Back is what the steps of a direction in the opposite order are of: where its slopes lie among all, and the units of
// the thread, k and 16 units further on.
template <class T> struct Back {
  float *gates, *carry;
  const float *prev, *dy, *final;
  Columns<BackSizes<T>::kBack, BackSizes<T>::kBack, T> of;
  i64 all;
  int k;
  float scale;
};

template <class T>
VSE_INLINE Back<T> back_of_(float* gates, const float* prev, float* carry, const typename T::Value* weights,
                            const float* dy, const float* final, float scale, int b, int h) {
  enum { kSlopes = BackSizes<T>::kSlopes };
  int group = blockIdx.x % (h / kSlopes), k = group * kSlopes + threadIdx.x % 8 + threadIdx.x / kTile * 8;
  weights += blockIdx.y * 3 * (i64)h * h + Tile<T>::kColumns * group * kSlopes;
  Back<T> f = {gates, carry + blockIdx.y * (i64)b * h, prev, dy, final, {weights, h, 0},
               blockIdx.y * (i64)sixteens(b) * 3 * h, k, scale};
  return f;
}

// back_ is the gradient of a step. to and from [2, b, 3h], in tiles, are the slopes of this step and of the one before;
// carry [2, b, h] is z times the gradient of the state. The gates become the gradients of the gate inputs, at the last
// step with zeros after the words. dy is scaled; it and final may be null. What a thread needs of its own outputs is on
// its way while it multiplies. Where arrived is not null, the block comes to the barrier after the step before it
// writes the gates.
template <class T>
VSE_INLINE void back_(const Back<T>& f, typename T::Value* to, const typename T::Value* from, float* part,
                      u32* arrived, const int* starts, int n, int steps, int rows, int b, int h, int reverse) {
  enum { kSlopes = BackSizes<T>::kSlopes, kBack = BackSizes<T>::kBack, kOwn = kSlopes / 16 };
  int t = word(n, steps, !reverse), done = word(n - 1, steps, !reverse), k = f.k;
  i64 start = starts[t];
  int active = starts[t + 1] - (int)start, carried = n == 0 ? 0 : starts[done + 1] - starts[done];
  int groups = h / kSlopes;
  Sequences s = sequences_(active, blockIdx.x / groups, gridDim.x / groups);
  // The outputs of a thread in each tile of 16 sequences.
  int half = threadIdx.x / kTile, own = threadIdx.x % kTile / 8;
  if (arrived && s.first >= s.last) grid_arrive(arrived);
  float* gates = f.gates + start * 4 * h + k;
  for (int row = s.first; row < s.last; row += 16 * kTall) {
    float x[kTall][kBack][4], sums[kTall][kOwn];
    float kept[kTall][kOwn][7];  // r, z, n, c, the state before, the gradient of the state in two parts
    UNROLL for (int i = 0; i < kTall; i++)
      UNROLL for (int u = 0; u < kOwn; u++) {
        int q = row + 16 * i + own, at = q * h + 16 * u, there = q < s.last;
        UNROLL for (int j = 0; j < 4; j++) kept[i][u][j] = there ? gates[(q * 4 + j) * h + 16 * u] : 0;
        kept[i][u][4] = there ? f.prev[start * h + k + at] : 0;
        kept[i][u][5] = !there ? 0 : q < carried ? f.carry[k + at] : f.final ? f.final[k + at] : 0;
        kept[i][u][6] = there && f.dy ? f.dy[start * h + k + at] : 0;
      }
    int last = s.last < carried ? s.last : carried;
    if (row < last)
      multiply_<true>(x, from + f.all + Tile<T>::kColumns * row, sixteens(b), f.of, 3 * h, (last - row + 15) / 16);
    UNROLL for (int i = 0; i < kTall; i++) {
      UNROLL for (int u = 0; u < kOwn; u++) sums[i][u] = 0;
      if (row + 16 * i >= last) continue;
      give_<kBack>(part, x[i]);
      if (row + 16 * i + own >= last) continue;
      UNROLL for (int u = 0; u < kOwn; u++) sums[i][u] = total_<kBack>(part, 2 * u + half, threadIdx.x % kTile);
    }
    Slopes v[kTall][kOwn];
    UNROLL for (int i = 0; i < kTall; i++)
      UNROLL for (int u = 0; u < kOwn; u++) {
        const float* in = kept[i][u];
        sums[i][u] = in[5] + sums[i][u] + f.scale * in[6];
        v[i][u] = slopes_(sums[i][u], in[0], in[1], in[2], in[3], in[4]);
      }
    UNROLL for (int i = 0; i < kTall; i++) {
      int q = row + 16 * i + own;
      if (q >= s.last) continue;
      UNROLL for (int u = 0; u < kOwn; u++) {
        typename T::Value* o = to + f.all + tiled<T>(q, k + 16 * u, sixteens(b));
        o[0] = T::value(v[i][u].dr);
        o[(i64)h * sixteens(b)] = T::value(v[i][u].dz);
        o[2 * (i64)h * sixteens(b)] = T::value(v[i][u].dh);
        f.carry[k + q * h + 16 * u] = sums[i][u] * kept[i][u][1];
      }
    }
    if (arrived && row + 16 * kTall >= s.last) grid_arrive(arrived);
    UNROLL for (int i = 0; i < kTall; i++) {
      int q = row + 16 * i + own;
      if (q >= s.last) continue;
      UNROLL for (int u = 0; u < kOwn; u++) {
        float* g = gates + q * 4 * h + 16 * u;
        g[0] = v[i][u].dn;
        g[h] = v[i][u].dr;
        g[2 * h] = v[i][u].dz;
        g[3 * h] = v[i][u].dh;
      }
    }
  }
  if (n == steps - 1) {
    i64 words = (i64)starts[steps] * 4 * h;
    EACH(i, (i64)rows * 4 * h - words) f.gates[words + i] = 0;
  }
}

// The gradient of a step. weights [2, h, 3h].
template <class T>
VSE_INLINE void grad_(float* gates0, float* gates1, typename T::Value* to, const typename T::Value* from, float* carry,
                      const typename T::Value* weights, const float* prev0, const float* prev1, const float* dy,
                      const float* final, const int* starts, float scale, int n, int steps, int rows, int b, int h,
                      int reverse) {
  __shared__ __attribute__((aligned(16))) float part[kWarps * BackSizes<T>::kBack * kTile];
  int second = blockIdx.y;
  Back<T> f = back_of_<T>(second ? gates1 : gates0, second ? prev1 : prev0, carry, weights, dy, final, scale, b, h);
  back_<T>(f, to, from, part, 0, starts, n, steps, rows, b, h, reverse);
}

// The gradients of all steps, as steps_.
template <class T>
VSE_INLINE void grads_(float* gates0, float* gates1, typename T::Value* even, typename T::Value* odd, float* carry,
                       const typename T::Value* weights, const float* prev0, const float* prev1, const float* dy,
                       const float* final, u32* arrived, const int* starts, float scale, int steps, int rows, int b,
                       int h, int reverse) {
  int second = blockIdx.y;
  arrived += second;
  Back<T> f = back_of_<T>(second ? gates1 : gates0, second ? prev1 : prev0, carry, weights, dy, final, scale, b, h);
  f.of = keep_(shared_quads, f.of, 3 * h);
  float* part = (float*)(shared_quads + BackSizes<T>::kBack * (8 * 3 * h / Tile<T>::kQuad));
  for (int n = 0; n < steps; n++) {
    if (n > 0) grid_wait(arrived, n, gridDim.x);
    back_<T>(f, n % 2 ? odd : even, n % 2 ? even : odd, part, n < steps - 1 ? arrived : 0, starts, n, steps, rows, b, h,
             reverse);
  }
}
