// Packed and concatenated values whose memory has room for more rows than there are (device.Recorder).
#include "common.cuh"

// Rows from Σ lengths on of x [rows, width], which lie ld apart, become zero, and those of copy, where it is not null.
// Cost: read 4*b; write 4*width; turns b/4
KERNEL clear_tail(float* x, bf16* copy, const int* lengths, int b, int rows, i64 width, i64 ld) {
  i64 first = 0;
  for (int i = 0; i < b; i++) first += lengths[i];
  EACH(i, (rows - first) * width) {
    i64 at = (first + i / width) * ld + i % width;
    x[at] = 0;
    if (copy) copy[at] = 0;
  }
}
