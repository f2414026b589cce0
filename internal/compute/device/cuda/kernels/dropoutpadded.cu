// Dropout of padded sequences as if they were packed (device.Recorder, DropoutPadded).
#include "philox.cuh"

// y and x are rows of steps first, first + 1, …, b for each step, n values in all. starts is the table of the packing
// of lengths [b]. Rows that have no word become zero.
// Cost: read 4*n; write 4*n; flop 60*n
KERNEL dropout_padded(float* y, const float* x, const int* step, const int* lengths, const int* starts, u32 key0,
                      u32 key1, u32 limit, float factor, int b, int first, int width, i64 n) {
  EACH(i, n) {
    i64 row = i / width, t = first + row / b;
    int s = (int)(row % b);
    if (t >= lengths[s]) {
      y[i] = 0;
      continue;
    }
    i64 index = ((i64)starts[t] + s) * width + (i - row * width);
    float k = dropout_factor(index, step, key0, key1, limit, factor);
    y[i] = k == 0 ? 0 : x[i] * k;
  }
}
