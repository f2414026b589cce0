// Sums of the columns of x [rows, ld], by pieces of per rows: dst [pieces, cols]. A block sums 32 columns of a piece,
// eight rows at a time.
#include "common.cuh"

// Cost: read 4*rows*cols; write 4*gy*cols; flop rows*cols; turns per/8/2
KERNEL column_sum(float* dst, const float* x, int rows, int cols, i64 ld, int per) {
  __shared__ float part[8][32];
  int lane = threadIdx.x % 32, first = threadIdx.x / 32, col = blockIdx.x * 32 + lane;
  i64 lo = (i64)blockIdx.y * per, hi = lo + per < rows ? lo + per : rows;
  float s = 0;
  if (col < cols)
    for (i64 r = lo + first; r < hi; r += 8) s += x[r * ld + col];
  part[first][lane] = s;
  __syncthreads();
  if (first || col >= cols) return;
  for (int w = 1; w < 8; w++) s += part[w][lane];
  dst[blockIdx.y * (i64)cols + col] = s;
}
