// y = x·m/(1-p), m drawn by counter (device.Dropout).
#include "philox.cuh"
#include "vector.cuh"

// A thread draws one block of four words. x and y have rows of width values, whose numbers are numbers. step holds the
// low and the high half of the counter of training steps. With aligned all rows lie at multiples of 16 bytes.
KERNEL dropout(float* y, const float* x, const int* step, const int* numbers, u32 key0, u32 key1, u32 limit,
               float factor, int aligned, int width, i64 n) {
  u32 quads = (width + 3) / 4;
  EACH(i, n / width * quads) {
    i64 row = (u32)i / quads;
    int q = (u32)i % quads, number = numbers[row];
    i64 at = row * width + 4 * q;
    u32 c[4] = {0, 0, 0, 0};
    if (number >= 0) draw(c, number, q, step, key0, key1);
    if (aligned) {
      Four v = four(x + at);
      for (int w = 0; w < 4; w++) v[w] = number < 0 || c[w] < limit ? 0 : v[w] * factor;
      put_four(y + at, v);
      continue;
    }
    UNROLL for (int w = 0; w < 4; w++)
      if (4 * q + w < width) y[at + w] = number < 0 || c[w] < limit ? 0 : x[at + w] * factor;
  }
}
