// dst [cols] = Σ_rows x [rows, ld]: a block sums 32 columns, eight rows at a time.
#include "common.cuh"

KERNEL column_sum(float* dst, const float* x, int rows, int cols, i64 ld) {
  __shared__ float part[8][32];
  int lane = threadIdx.x % 32, first = threadIdx.x / 32, col = blockIdx.x * 32 + lane;
  float s = 0;
  if (col < cols)
    for (i64 r = first; r < rows; r += 8) s += x[r * ld + col];
  part[first][lane] = s;
  __syncthreads();
  if (first || col >= cols) return;
  for (int w = 1; w < 8; w++) s += part[w][lane];
  dst[col] = s;
}
