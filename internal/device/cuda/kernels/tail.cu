// Packed and concatenated values whose memory has room for more rows than there are (device.Recorder).
#include "common.cuh"

// Rows from Σ lengths on of x [rows, width], which lie ld apart, become zero.
KERNEL clear_tail(float* x, const int* lengths, int b, int rows, i64 width, i64 ld) {
  i64 first = 0;
  for (int i = 0; i < b; i++) first += lengths[i];
  EACH(i, (rows - first) * width) x[(first + i / width) * ld + i % width] = 0;
}
