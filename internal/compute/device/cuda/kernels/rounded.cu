// Copies of float32 values in bfloat16, which products read (device/cuda/copies.go).
#include "vector.cuh"

// copy [n] = x [n] rounded, four values at a time: the first head of them, and what is left at the end, one by one.
// After head x lies at a multiple of 16 bytes and copy at one of 8.
KERNEL round_copy(bf16* copy, const float* x, i64 head, i64 n) {
  i64 fours = (n - head) / 4, tail = head + 4 * fours;
  EACH(i, fours) put_four(copy + head + 4 * i, four(x + head + 4 * i));
  EACH(i, head) copy[i] = bf16_of(x[i]);
  EACH(i, n - tail) copy[tail + i] = bf16_of(x[tail + i]);
}

// x [n] = copy [n], values that were rounded.
KERNEL widen_copy(float* x, const bf16* copy, i64 n) {
  EACH(i, n) x[i] = bf16_value(copy[i]);
}
