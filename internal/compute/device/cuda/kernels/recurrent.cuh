// What the steps of recurrent layers on tensor cores share (grusteps.cuh, decoder_sm80.cu): how operands lie, and
// products of some columns with the states of sequences, of which each warp of a block multiplies a part of the depth.
//
// Operands (T of mma.cuh) lie in tiles of 8 rows and 64 bytes of columns, first all rows of such columns: the lanes of
// a warp read a tile together, the next rows 512 bytes further on. The lane 4g + t has the 16 bytes from 16t on of row
// g, the first two words for one instruction and the others for the next: in bfloat16 columns 8t to 8t + 7 are columns
// 2t, 2t + 1, 2t + 8, 2t + 9 of the two. The order of the depth is the same in both operands.
#pragma once
#include "grid.cuh"
#include "mma.cuh"

enum {
  kWarps = 8,
  kTile = 128,  // values of a tile of 16 sequences and 8 columns
};

// The columns of a tile, and the values of 16 bytes.
template <class T> struct Tile { enum { kColumns = 16 * T::kEach, kQuad = 4 * T::kEach }; };

// tiled is where a value of an operand of that many rows lies.
template <class T = BF16> VSE_INLINE i64 tiled(i64 row, int column, int rows) {
  enum { kColumns = Tile<T>::kColumns };
  return (column / kColumns * (i64)rows + row) * kColumns + column % kColumns;
}

VSE_INLINE int sixteens(int n) { return (n + 15) / 16 * 16; }

// Sequences are the sequences of a block, [first, last), a multiple of 16 and others after them.
struct Sequences { int first, last; };

// Divides the tiles of 16 of n sequences into splits parts.
VSE_INLINE Sequences sequences_(int n, int split, int splits) {
  int tiles = (n + 15) / 16, per = (tiles + splits - 1) / splits;
  Sequences s = {16 * per * split, 16 * per * (split + 1)};
  if (s.last > n) s.last = n;
  return s;
}

// Columns are the columns of a block, in tiles of 8 in w, which has that many rows: near of them lie side by side, the
// next ones are apart. keep_ copies them into shared memory, eight columns for each, and says where they are.
template <int columns, int near, class T = BF16> struct Columns { const typename T::Value* w; int rows, apart; };

DYNAMIC_SHARED(Quad, shared_quads);

template <int columns, int near, class T>
VSE_INLINE Columns<columns, near, T> keep_(Quad* own, const Columns<columns, near, T>& c, int depth) {
  enum { kColumns = Tile<T>::kColumns, kQuad = Tile<T>::kQuad };
  for (int i = threadIdx.x; i < 8 * depth / kQuad; i += blockDim.x) {
    const typename T::Value* w = c.w + kColumns * (i64)c.rows * (i / 32) + i % 32 * kQuad;
    Quad* to = own + i / 32 * 32 * columns + i % 32;
    Quad v[columns];
    UNROLL for (int j = 0; j < columns; j++)
      v[j] = *(const Quad*)(w + kColumns * ((i64)c.apart * (j / near) + 8 * (j % near)));
    UNROLL for (int j = 0; j < columns; j++) to[32 * j] = v[j];
  }
  Columns<columns, near, T> kept = {(const typename T::Value*)own, 8 * columns, 8 * near};
  return kept;
}

// Rows are operands of a lane in tiles of 16 rows, rows_ the rows of the first tiles of a.
template <int most> struct Rows { Quad low[most], high[most]; };

template <class T, int most> VSE_INLINE void rows_(Rows<most>& r, const typename T::Value* a, int tiles) {
  UNROLL for (int i = 0; i < most; i++)
    if (i < tiles) {
      r.low[i] = *(const Quad*)(a + Tile<T>::kColumns * 16 * i);
      r.high[i] = *(const Quad*)(a + Tile<T>::kColumns * (16 * i + 8));
    }
}

// multiply_tiles adds to x the part of the warp of the products of up to most tiles. Where these are few there are
// registers for the operands that follow, which are on their way while it multiplies.
template <int most, int tall, int columns, int near, class T>
VSE_INLINE void multiply_tiles(float (&x)[tall][columns][4], const typename T::Value* a, int rowsA,
                               const Columns<columns, near, T>& of, int depth, int tiles) {
  enum { kColumns = Tile<T>::kColumns, kQuad = Tile<T>::kQuad, kFew = most <= 2 };
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, n = depth / kColumns;
  a += kColumns * (i64)rowsA * warp + kQuad * lane;
  const typename T::Value* w = of.w + kColumns * (i64)of.rows * warp + kQuad * lane;
  Rows<most> r, next;
  if (kFew && warp < n) rows_<T>(next, a, tiles);
  for (int c = warp; c < n; c += kWarps, w += kColumns * kWarps * (i64)of.rows) {
    Quad v[columns];
    UNROLL for (int j = 0; j < columns; j++)
      v[j] = *(const Quad*)(w + kColumns * ((i64)of.apart * (j / near) + 8 * (j % near)));
    if (kFew) r = next;
    else rows_<T>(r, a, tiles);
    a += kColumns * kWarps * (i64)rowsA;
    if (kFew && c + kWarps < n) rows_<T>(next, a, tiles);
    UNROLL for (int i = 0; i < most; i++)
      if (i < tiles)
        UNROLL for (int k = 0; k < 4; k += 2) {
          u32 rows[4] = {r.low[i][k], r.high[i][k], r.low[i][k + 1], r.high[i][k + 1]};
          UNROLL for (int j = 0; j < columns; j++) {
            u32 two[2] = {v[j][k], v[j][k + 1]};
            T::multiply(x[i][j], rows, two);
          }
        }
  }
}

// multiply_ makes x the part of the warp of the products of up to tall tiles of 16 rows of a, which has rowsA, with
// columns. ahead: few of them ask for operands before they are needed.
template <bool ahead, int tall, int columns, int near, class T>
VSE_INLINE void multiply_(float (&x)[tall][columns][4], const typename T::Value* a, int rowsA,
                          const Columns<columns, near, T>& of, int depth, int tiles) {
  UNROLL for (int i = 0; i < tall; i++)
    UNROLL for (int j = 0; j < columns; j++)
      UNROLL for (int k = 0; k < 4; k++) x[i][j][k] = 0;
  if (ahead && tiles <= 2) multiply_tiles<2>(x, a, rowsA, of, depth, tiles);
  else multiply_tiles<tall>(x, a, rowsA, of, depth, tiles);
}

// give_ puts the part of the warp of a tile of 16 rows into part, [warps, columns, 16, 8]; total_ adds what lies there
// at a value of a tile.
template <int columns> VSE_INLINE void give_(float* part, const float (*x)[4]) {
  int lane = threadIdx.x & 31;
  __syncthreads();  // what lay there has been read
  UNROLL for (int j = 0; j < columns; j++) {
    float* to = part + (threadIdx.x / 32 * columns + j) * kTile + lane / 4 * 8 + lane % 4 * 2;
    UNROLL for (int k = 0; k < 4; k++) to[k / 2 * 64 + k % 2] = x[j][k];
  }
  __syncthreads();
}
template <int columns> VSE_INLINE float total_(const float* part, int column, int at) {
  float s = 0;
  for (int w = 0; w < kWarps; w++) s += part[(w * columns + column) * kTile + at];
  return s;
}

