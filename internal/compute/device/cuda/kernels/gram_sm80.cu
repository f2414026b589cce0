// The norm of a gradient that is a product, ‖dyᵀ x‖² = Σ (dy dyᵀ)∘(x xᵀ), of factors in bfloat16 with up to 128 rows
// (device.SumSquaresFactored): blocks make what slices of the columns give of the two Gram matrices on tensor cores,
// and a kernel after them adds the slices and multiplies.
//
// Of the matrices, which are symmetric, six tiles of 32 x 64 values hold the lower half. A warp makes one of them. In
// which order the depth is added does not matter to a sum, so the lane 4g + t has values 8t to 8t + 7 of row g of an
// operand, and gives them to two instructions as their columns 2t, 2t + 1, 2t + 8, 2t + 9 (recurrent.cuh).
#include "mma.cuh"

enum {
  kRows = 128,    // at most (Go: gramRows)
  kTiles = 6,     // of a matrix, and warps of gram_parts (Go: gramWarps)
  kCells = 2048,  // of a tile
  kChunk = 160,   // values of each row in shared memory: lanes of a warp read from different banks
  kPer = (kRows * kChunk / 8 + 32 * kTiles - 1) / (32 * kTiles),  // 16 bytes a thread
  kQuads = 16,    // of a block of gram_dot: four cells each (Go: gramBlock)
  kGroups = 16,   // of slices there
  kAhead = 4      // slices that a thread asks for together
};

// The first row and column of a tile.
VSE_INLINE int tile_row(int tile) { return tile < 2 ? 32 * tile : 32 + 32 * (tile / 2); }
VSE_INLINE int tile_column(int tile) { return tile < 2 ? 0 : tile % 2 * 64; }

// Chunk is what a thread takes of a chunk of columns to shared memory.
struct Chunk { Quad of[kPer]; };

VSE_INLINE Chunk read_(const bf16* x, int n, int width, int at, int last) {
  Chunk c;
  UNROLL for (int e = 0; e < kPer; e++) {
    int item = threadIdx.x + e * 32 * kTiles, row = item / (kChunk / 8), k = at + item % (kChunk / 8) * 8;
    Quad none = {0, 0, 0, 0};
    c.of[e] = row < n && k < last ? *(const Quad*)(x + (i64)row * width + k) : none;
  }
  return c;
}

VSE_INLINE void put_(bf16* to, const Chunk& c) {
  UNROLL for (int e = 0; e < kPer; e++) {
    int item = threadIdx.x + e * 32 * kTiles;
    if (item < kRows * kChunk / 8) *(Quad*)(to + 8 * item) = c.of[e];
  }
}

// parts [slices of x, then of y][tiles, 32, 64]: what depth columns give, or those that are left at the end. x has n
// rows of columns_x values, y of columns_y, multiples of 8. A block takes its columns in chunks, of which the next is
// on its way while one is multiplied.
KERNEL gram_parts(float* parts, const bf16* x, const bf16* y, int n, int columns_x, int columns_y, int depth) {
  __shared__ __attribute__((aligned(16))) bf16 rows[kRows * kChunk];
  int slices = (columns_x + depth - 1) / depth, slice = blockIdx.x;
  bool second = slice >= slices;
  int width = second ? columns_y : columns_x, at = (second ? slice - slices : slice) * depth;
  int last = at + depth < width ? at + depth : width;
  if (second) x = y;
  int lane = threadIdx.x & 31, g = lane / 4, t = lane % 4, tile = threadIdx.x / 32;
  const bf16* left = rows + (tile_row(tile) + g) * kChunk + 8 * t;
  const bf16* right = rows + (tile_column(tile) + g) * kChunk + 8 * t;
  float c[2][8][4];
  UNROLL for (int i = 0; i < 2; i++)
    UNROLL for (int j = 0; j < 8; j++)
      UNROLL for (int k = 0; k < 4; k++) c[i][j][k] = 0;
  Chunk next = read_(x, n, width, at, last);
  for (; at < last; at += kChunk) {
    __syncthreads();  // what lay there has been multiplied
    put_(rows, next);
    __syncthreads();
    next = read_(x, n, width, at + kChunk, last);
    for (int k = 0; k < kChunk && at + k < last; k += 32) {
      Quad low[2], high[2], v[8];
      UNROLL for (int i = 0; i < 2; i++) {
        low[i] = *(const Quad*)(left + 16 * i * kChunk + k);
        high[i] = *(const Quad*)(left + (16 * i + 8) * kChunk + k);
      }
      UNROLL for (int j = 0; j < 8; j++) v[j] = *(const Quad*)(right + 8 * j * kChunk + k);
      UNROLL for (int half = 0; half < 4; half += 2)
        UNROLL for (int i = 0; i < 2; i++) {
          u32 of[4] = {low[i][half], high[i][half], low[i][half + 1], high[i][half + 1]};
          UNROLL for (int j = 0; j < 8; j++) {
            u32 two[2] = {v[j][half], v[j][half + 1]};
            mma_(c[i][j], of, two);
          }
        }
    }
  }
  parts += ((i64)slice * kTiles + tile) * kCells;
  UNROLL for (int i = 0; i < 2; i++)
    UNROLL for (int j = 0; j < 8; j++)
      UNROLL for (int k = 0; k < 4; k++) parts[(16 * i + g + k / 2 * 8) * 64 + 8 * j + 2 * t + k % 2] = c[i][j][k];
}

// sum_ is the sum of four cells over the slices of a group: float over those that are on their way together, double
// across.
VSE_INLINE void sum_(double* sums, const float* parts, int group, int slices) {
  for (int k = 0; k < 4; k++) sums[k] = 0;
  for (int first = group; first < slices; first += kGroups * kAhead) {
    Four v[kAhead], s = {0, 0, 0, 0};
    UNROLL for (int e = 0; e < kAhead; e++) {
      Four none = {0, 0, 0, 0};
      int slice = first + e * kGroups;
      v[e] = slice < slices ? four(parts + (i64)slice * kTiles * kCells) : none;
    }
    UNROLL for (int e = 0; e < kAhead; e++) s += v[e];
    for (int k = 0; k < 4; k++) sums[k] += s[k];
  }
}

// partial[block] is what 64 cells give of the sum over both halves of the matrices.
KERNEL gram_dot(double* partial, const float* parts, int slices_x, int slices_y) {
  __shared__ double sums[2][kGroups][4 * kQuads];
  int quad = threadIdx.x % kQuads, group = threadIdx.x / kQuads, first = blockIdx.x * 4 * kQuads;
  parts += first + 4 * quad;
  sum_(&sums[0][group][4 * quad], parts, group, slices_x);
  sum_(&sums[1][group][4 * quad], parts + (i64)slices_x * kTiles * kCells, group, slices_y);
  __syncthreads();
  double s = 0;
  if (threadIdx.x < 4 * kQuads) {
    double x = 0, y = 0;
    for (int k = 0; k < kGroups; k++) x += sums[0][k][threadIdx.x], y += sums[1][k][threadIdx.x];
    int cell = first + threadIdx.x, tile = cell / kCells;
    int row = tile_row(tile) + cell % kCells / 64, column = tile_column(tile) + cell % 64;
    s = column < row ? 2 * x * y : column == row ? x * y : 0;
  }
  s = block_total(s);
  if (threadIdx.x == 0) partial[blockIdx.x] = s;
}
