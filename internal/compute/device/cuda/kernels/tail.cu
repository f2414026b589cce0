// Packed and concatenated values whose memory has room for more rows than there are (device.Recorder).
#include "common.cuh"

// Rows from Σ lengths on of x [rows, width], which lie ld apart, become zero, and the rows of copy, where it is not
// null.
KERNEL clear_tail(float* x, bf16* copy, const int* lengths, int b, int rows, i64 width, i64 ld) {
  double sum = 0;  // of whole numbers
  for (int i = threadIdx.x; i < b; i += blockDim.x) sum += lengths[i];
  i64 first = (int)block_total(sum);
  EACH(i, (rows - first) * width) {
    i64 at = (first + i / width) * ld + i % width;
    x[at] = 0;
    if (copy) copy[at] = 0;
  }
}
