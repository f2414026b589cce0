// Draws by counter: Philox4x32-10 (Salmon et al., SC 2011), as in internal/compute/philox.
#pragma once
#include "common.cuh"

// draw sets c to the words of columns 4·q to 4·q + 3 of the row with a number, which is not negative (device.Drops), in
// a training step, whose counter is step [2], the low half first.
VSE_INLINE void draw(u32 c[4], int number, int q, const int* step, u32 key0, u32 key1) {
  u64 block = (u64)number << 30 | (u32)q;
  c[0] = (u32)block;
  c[1] = (u32)(block >> 32);
  c[2] = (u32)step[0];
  c[3] = (u32)step[1];
  for (int round = 0; round < 10; round++) {
    u64 p0 = (u64)0xD2511F53u * c[0], p1 = (u64)0xCD9E8D57u * c[2];
    u32 n0 = (u32)(p1 >> 32) ^ c[1] ^ key0, n2 = (u32)(p0 >> 32) ^ c[3] ^ key1;
    c[1] = (u32)p1;
    c[3] = (u32)p0;
    c[0] = n0;
    c[2] = n2;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// dropout_factor returns what a column of the row with a number is multiplied by: 0, or factor = 1/(1 - rate).
VSE_INLINE float dropout_factor(int number, int column, const int* step, u32 key0, u32 key1, u32 limit, float factor) {
  if (number < 0) return 0;
  u32 c[4];
  draw(c, number, column / 4, step, key0, key1);
  u32 w = column % 4;
  u32 v = w == 0 ? c[0] : w == 1 ? c[1] : w == 2 ? c[2] : c[3];
  return v < limit ? 0 : factor;
}
