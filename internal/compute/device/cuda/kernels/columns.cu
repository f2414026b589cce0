// Sums of the columns of x [rows, ld], by pieces of per rows: dst [pieces, cols]. A block sums 32 columns of a piece,
// eight rows at a time, and each thread has eight values on their way. Where rest is not null, it gets the sums of the
// columns from split on. copy, x rounded, may be null.
#include "common.cuh"

VSE_INLINE void sum_columns(float* dst, float* rest, bf16* copy, const float* x, int rows, int cols, int split, i64 ld,
                            int per) {
  __shared__ float part[8][32];
  int lane = threadIdx.x % 32, first = threadIdx.x / 32, col = blockIdx.x * 32 + lane;
  i64 lo = (i64)blockIdx.y * per, hi = lo + per < rows ? lo + per : rows;
  float s = 0;
  if (col < cols)
    for (i64 r = lo + first; r < hi; r += 64) {
      float v[8];
      UNROLL for (int k = 0; k < 8; k++) v[k] = r + 8 * k < hi ? x[(r + 8 * k) * ld + col] : 0;
      UNROLL for (int k = 0; k < 8; k++) s += v[k];
      if (copy) {
        UNROLL for (int k = 0; k < 8; k++)
          if (r + 8 * k < hi) copy[(r + 8 * k) * ld + col] = bf16_of(v[k]);
      }
    }
  part[first][lane] = s;
  __syncthreads();
  if (first || col >= cols) return;
  for (int w = 1; w < 8; w++) s += part[w][lane];
  if (!rest) dst[blockIdx.y * (i64)cols + col] = s;
  else if (col < split) dst[blockIdx.y * (i64)split + col] = s;
  else rest[blockIdx.y * (i64)(cols - split) + col - split] = s;
}

KERNEL column_sum(float* dst, float* rest, bf16* copy, const float* x, int rows, int cols, int split, i64 ld,
                  int per) {
  sum_columns(dst, rest, copy, x, rows, cols, split, ld, per);
}

// The sums of two matrices, or of one: the sums of the pieces of x1 lie after the sums of x0.
KERNEL column_sum_both(float* dst, bf16* copy0, bf16* copy1, const float* x0, const float* x1, int rows, int cols,
                       int per) {
  int second = blockIdx.z;
  dst += second * (i64)gridDim.y * cols;
  sum_columns(dst, 0, second ? copy1 : copy0, second ? x1 : x0, rows, cols, cols, cols, per);
}
