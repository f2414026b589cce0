// y = x·m/(1-p), m drawn by counter (device.Dropout).
#include "philox.cuh"
#include "vector.cuh"

// A thread draws one block of four words. step holds the low and the high half of the counter of training steps. With
// aligned first is a multiple of 4, and x and y lie at multiples of 16 bytes.
// Cost: read 4*n; write 4*n; flop 15*n; flight 16
KERNEL dropout(float* y, const float* x, const int* step, u32 key0, u32 key1, u32 limit, float factor,
               int aligned, i64 first, i64 n) {
  EACH(i, (first + n + 3) / 4 - first / 4) {
    i64 index = first / 4 + i, at = index * 4 - first;
    u32 c[4];
    draw(c, index, step, key0, key1);
    if (aligned && at + 4 <= n) {
      Four v = four(x + at);
      for (int w = 0; w < 4; w++) v[w] = c[w] < limit ? 0 : v[w] * factor;
      put_four(y + at, v);
      continue;
    }
    for (int w = 0; w < 4; w++, at++)
      if (at >= 0 && at < n) y[at] = c[w] < limit ? 0 : x[at] * factor;
  }
}
