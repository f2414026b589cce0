// What the steps of recurrent layers on tensor cores share (gru_sm80.cu, decoder_sm80.cu): how operands lie, and
// products of some columns with the states of sequences, of which each warp of a block multiplies a part of the depth.
//
// Operands are bfloat16 and lie in tiles of 8 rows and 32 columns, first all rows of 32 columns: the lanes of a warp
// read a tile together, the next rows 512 bytes behind. The lane 4g + t has columns 8t to 8t + 7 of row g, which it
// gives to two instructions as their columns 2t, 2t + 1, 2t + 8, 2t + 9: the order of the depth is the same in both
// operands.
#pragma once
#include "grid.cuh"
#include "mma.cuh"

enum {
  kWarps = 8,
  kTile = 128,  // values of a tile of 16 sequences and 8 columns
};

// tiled is where a value of an operand of so many rows lies.
VSE_INLINE i64 tiled(i64 row, int column, int rows) { return (column / 32 * (i64)rows + row) * 32 + column % 32; }

VSE_INLINE int sixteens(int n) { return (n + 15) / 16 * 16; }

// Sequences are those of a block, [first, last), a multiple of 16 and others behind them.
struct Sequences { int first, last; };

// Divides the tiles of 16 of n sequences into splits parts.
VSE_INLINE Sequences sequences_(int n, int split, int splits) {
  int tiles = (n + 15) / 16, per = (tiles + splits - 1) / splits;
  Sequences s = {16 * per * split, 16 * per * (split + 1)};
  if (s.last > n) s.last = n;
  return s;
}

// Columns are those of a block, in tiles of 8 in w, which has so many rows: near of them lie side by side, the next
// ones are apart. keep_ copies them into shared memory, 16 depth bytes for each, and says where they are.
template <int columns, int near> struct Columns { const bf16* w; int rows, apart; };

DYNAMIC_SHARED(Quad, shared_quads);

template <int columns, int near>
VSE_INLINE Columns<columns, near> keep_(Quad* own, const Columns<columns, near>& c, int depth) {
  for (int i = threadIdx.x; i < depth; i += blockDim.x) {
    const bf16* w = c.w + 32 * (i64)c.rows * (i / 32) + i % 32 * 8;
    Quad* to = own + i / 32 * 32 * columns + i % 32;
    Quad v[columns];
    UNROLL for (int j = 0; j < columns; j++)
      v[j] = *(const Quad*)(w + 32 * (i64)c.apart * (j / near) + 256 * (j % near));
    UNROLL for (int j = 0; j < columns; j++) to[32 * j] = v[j];
  }
  Columns<columns, near> kept = {(const bf16*)own, 8 * columns, 8 * near};
  return kept;
}

// multiply_ makes x the part of the warp of the products of up to tall tiles of 16 rows of a, which has rowsA, with
// columns.
template <int tall, int columns, int near>
VSE_INLINE void multiply_(float (&x)[tall][columns][4], const bf16* a, int rowsA, const Columns<columns, near>& of,
                          int depth, int tiles) {
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  UNROLL for (int i = 0; i < tall; i++)
    UNROLL for (int j = 0; j < columns; j++)
      UNROLL for (int k = 0; k < 4; k++) x[i][j][k] = 0;
  a += 32 * (i64)rowsA * warp + 8 * lane;
  const bf16* w = of.w + 32 * (i64)of.rows * warp + 8 * lane;
  for (int c = warp; c < depth / 32; c += kWarps, a += 32 * kWarps * (i64)rowsA, w += 32 * kWarps * (i64)of.rows) {
    Quad low[tall], high[tall], v[columns];
    UNROLL for (int j = 0; j < columns; j++)
      v[j] = *(const Quad*)(w + 32 * (i64)of.apart * (j / near) + 256 * (j % near));
    UNROLL for (int i = 0; i < tall; i++)
      if (i < tiles) {
        low[i] = *(const Quad*)(a + 512 * i);
        high[i] = *(const Quad*)(a + 512 * i + 256);
      }
    UNROLL for (int i = 0; i < tall; i++)
      if (i < tiles)
        UNROLL for (int k = 0; k < 4; k += 2) {
          u32 rows[4] = {low[i][k], high[i][k], low[i][k + 1], high[i][k + 1]};
          UNROLL for (int j = 0; j < columns; j++) {
            u32 two[2] = {v[j][k], v[j][k + 1]};
            mma_(x[i][j], rows, two);
          }
        }
  }
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

