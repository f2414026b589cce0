// y = x·m/(1-p), m drawn by counter (device.DropoutArgs; Philox4x32-10 of Salmon et al., SC 2011, as in internal/philox).
#include "common.cuh"

// A thread draws one block of four words. step holds the low and the high half of the counter of training steps.
KERNEL dropout(float* y, const float* x, const int* step, u32 key0, u32 key1, u32 limit, float factor, i64 first, i64 n) {
  EACH(i, (first + n + 3) / 4 - first / 4) {
    i64 index = first / 4 + i;
    u32 c[4] = {(u32)index, (u32)((u64)index >> 32), (u32)step[0], (u32)step[1]}, k0 = key0, k1 = key1;
    for (int round = 0; round < 10; round++) {
      u64 p0 = (u64)0xD2511F53u * c[0], p1 = (u64)0xCD9E8D57u * c[2];
      u32 n0 = (u32)(p1 >> 32) ^ c[1] ^ k0, n2 = (u32)(p0 >> 32) ^ c[3] ^ k1;
      c[1] = (u32)p1;
      c[3] = (u32)p0;
      c[0] = n0;
      c[2] = n2;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; w++) {
      i64 at = index * 4 + w - first;
      if (at >= 0 && at < n) y[at] = c[w] < limit ? 0 : x[at] * factor;
    }
  }
}
