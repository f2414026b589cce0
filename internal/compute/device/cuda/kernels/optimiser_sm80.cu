// Adam of a weight whose gradient is a product (device.AdamFactored). A block makes the gradient of a tile of the
// weight on tensor cores, and Adam takes it from the registers: it is neither written nor read.
//
//   g [rows, columns] = dyᵀ x of operands in bfloat16, then Adam (adam.cuh)
//
// A warp has 16 rows of a tile: lane 4g + t has rows 2g and 2g + 1, of which it reads and writes the four columns from
// 4t and those from 16 + 4t on at a time, four lanes 64 bytes together. Column 16i + 4t + j is column 2t + i of the
// warp's tile j of 8 columns.
#define VSE_BLOCKS 2
#include "adam.cuh"
#include "mma.cuh"

// A block has kRows of the weight and kColumns of them at a time; shared memory has kDepth rows of both factors (Go:
// adamRows, adamColumns). Rows there lie apart by that many words that the lanes of a warp read from different banks.
enum { kRows = 128, kColumns = 32, kDepth = 128, kApart = 8 };

// Fours are four neighbouring values of two rows of a factor, two times: what a thread takes of a part of a tile to
// shared memory. A tile of that many columns has columns / kColumns parts.
struct Fours { Two of[2][2]; };

VSE_INLINE int item_(int part, int e) { return threadIdx.x + (2 * part + e) * VSE_THREADS; }

// read_ reads a part of a tile of x [depth, width] from row k and a column on; 0 where there is nothing.
template <int columns>
VSE_INLINE void read_(Fours* to, int part, const bf16* x, int k, int depth, int column, int width) {
  UNROLL for (int e = 0; e < 2; e++) {
    int item = item_(part, e), row = k + item / (columns / 4) * 2, at = column + item % (columns / 4) * 4;
    UNROLL for (int i = 0; i < 2; i++) {
      Two none = {0, 0};
      to->of[e][i] = row + i < depth && at < width ? *(const Two*)(x + (i64)(row + i) * width + at) : none;
    }
  }
}

// put_ writes a part of a tile to shared memory as operands, two rows a word; spread: in the order of columns in which
// a lane has the columns of its four tiles side by side.
template <int columns, bool spread> VSE_INLINE void put_(u32* to, int part, const Fours& from) {
  UNROLL for (int e = 0; e < 2; e++) {
    int item = item_(part, e), group = item % (columns / 4);
    if (spread) group = group % 4 * 2 + group / 4;
    Two low = from.of[e][0], high = from.of[e][1];
    Quad w = {(low[0] & 0xffffu) | high[0] << 16, low[0] >> 16 | (high[0] & 0xffff0000u),
              (low[1] & 0xffffu) | high[1] << 16, low[1] >> 16 | (high[1] & 0xffff0000u)};
    *(Quad*)(to + item / (columns / 4) * (columns + kApart) + 4 * group) = w;
  }
}

// stage_ takes a tile to shared memory.
template <int columns, bool spread>
VSE_INLINE void stage_(u32* to, const bf16* x, int k, int depth, int column, int width) {
  for (int part = 0; part < columns / kColumns; part++) {
    Fours of;
    read_<columns>(&of, part, x, k, depth, column, width);
    put_<columns, spread>(to, part, of);
  }
}

// multiply_ adds the product of that many steps of 16 rows of the factors to the values of a lane, which left and right
// begin at.
VSE_INLINE void multiply_(float (*c)[4], const u32* left, const u32* right, int steps) {
  for (int s = 0; s < steps; s++, left += 8 * (kRows + kApart), right += 8 * (kColumns + kApart)) {
    Two near = *(const Two*)left, far = *(const Two*)(left + 4 * (kRows + kApart));
    Quad b = *(const Quad*)right, d = *(const Quad*)(right + 4 * (kColumns + kApart));
    u32 of[4] = {near[0], near[1], far[0], far[1]}, two[4][2];
    UNROLL for (int j = 0; j < 4; j++) two[j][0] = b[j], two[j][1] = d[j];
    UNROLL for (int j = 0; j < 4; j++) mma_(c[j], of, two[j]);
  }
}

// product_adam does it for p, m and v [rows, columns], dy [depth, rows] and x [depth, columns]. copy, p rounded, may
// be null. Where clip is NaN nothing changes. Rows and columns are multiples of 4. A block goes through the tiles of
// its rows gridDim.y apart; of up to kDepth rows of the factors it reads dy once.
//
// Two blocks of a multiprocessor run at once. In each tile a thread waits once, for p, m and v, of which it has asked
// for all 192 bytes before the product; barriers and product take about as long as an access of the L2 cache. x is read
// again by every block of the same columns, at about the same time, 2*depth*columns*gx bytes of that cache.
KERNEL product_adam(bf16* copy, float* p, float* m, float* v, const bf16* dy, const bf16* x, const float* hyper,
                    const float* clip, float beta1, float c1, float beta2, float c2, float eps, int legacy, int depth,
                    int rows, int columns) {
  Adam a = adam_of_(hyper, clip, beta1, c1, beta2, c2, eps, legacy);
  __shared__ __attribute__((aligned(16))) u32 left[kDepth / 2 * (kRows + kApart)];
  __shared__ __attribute__((aligned(16))) u32 right[kDepth / 2 * (kColumns + kApart)];
  if (unchanged_(a)) {
    i64 fours = copy ? (i64)rows * columns / 4 : 0, all = (i64)gridDim.x * gridDim.y * blockDim.x;
    for (i64 i = ((i64)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x; i < fours; i += all)
      put_four(copy + 4 * i, four(p + 4 * i));
    return;
  }
  int lane = threadIdx.x & 31, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
  int first = blockIdx.x * kRows, row = first + 16 * warp + 2 * g;
  const u32* own_rows = left + t * (kRows + kApart) + 16 * warp + 2 * g;
  const u32* own_columns = right + t * (kColumns + kApart) + 4 * g;
  if (depth <= kDepth) stage_<kRows, false>(left, dy, 0, depth, first, rows);
  for (int column = blockIdx.y * kColumns; column < columns; column += gridDim.y * kColumns) {
    float c[4][4];
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int k = 0; k < 4; k++) c[j][k] = 0;
    int k = 0;
    for (; k + kDepth < depth; k += kDepth) {
      __syncthreads();  // what lay there has been multiplied
      stage_<kRows, false>(left, dy, k, depth, first, rows);
      stage_<kColumns, true>(right, x, k, depth, column, columns);
      __syncthreads();
      multiply_(c, own_rows, own_columns, kDepth / 16);
    }
    if (k > 0) {
      __syncthreads();
      stage_<kRows, false>(left, dy, k, depth, first, rows);
    }
    Fours next;
    read_<kColumns>(&next, 0, x, k, depth, column, columns);
    Four before[2][2][3];
    UNROLL for (int side = 0; side < 2; side++)
      UNROLL for (int i = 0; i < 2; i++) {
        i64 at = (i64)(row + side) * columns + column + 16 * i + 4 * t;
        bool in = row + side < rows && column + 16 * i + 4 * t < columns;
        Four none = {0, 0, 0, 0};
        before[side][i][0] = in ? four(p + at) : none;
        before[side][i][1] = in ? four(m + at) : none;
        before[side][i][2] = in ? four(v + at) : none;
      }
    __syncthreads();
    put_<kColumns, true>(right, 0, next);
    __syncthreads();
    multiply_(c, own_rows, own_columns, (depth - k + 15) / 16);
    UNROLL for (int side = 0; side < 2; side++)
      UNROLL for (int i = 0; i < 2; i++) {
        if (row + side >= rows || column + 16 * i + 4 * t >= columns) continue;
        const Four* of = before[side][i];
        Four d = {c[0][2 * side + i], c[1][2 * side + i], c[2][2 * side + i], c[3][2 * side + i]};
        adam_four_(a, copy, p, m, v, (i64)(row + side) * columns + column + 16 * i + 4 * t, of[0], of[1], of[2], d);
      }
  }
}
