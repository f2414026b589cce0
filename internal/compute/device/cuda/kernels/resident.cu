// Features in half precision: rows of a table that stays on the device (device.Resident), and what is streamed to it.
#include "vector.cuh"

// from_half is the value of a half: 1 sign, 5 exponent, 10 fraction bits; float32 holds it exactly.
VSE_INLINE float from_half(u32 h) {
  u32 sign = (h & 0x8000u) << 16, em = h & 0x7fffu;
  if (em - 0x400u < 0x7800u) return as_float(sign | ((em << 13) + (112u << 23)));
  if (em < 0x400u) return as_float(sign | as_bits((float)(int)em * (1.0f / 16777216.0f)));  // subnormal: units of 2^-24
  return as_float(sign | 0x7f800000u | (em & 0x3ffu) << 13);
}

// halves_ are four values of float16.
VSE_INLINE Four halves_(const unsigned short* x) {
  Two h = *(const Two*)x;
  Four v = {from_half(h[0] & 0xffffu), from_half(h[0] >> 16), from_half(h[1] & 0xffffu), from_half(h[1] >> 16)};
  return v;
}

// dst [n]: rows index[0 … rows-1] of the table, floats or halves (the other is null), and zeros after them. copy, dst
// rounded to bfloat16, may be null. With fours the width is a multiple of 4 and everything lies at multiples of four
// values, which are read and written together.
KERNEL gather_table(float* dst, bf16* copy, const float* floats, const unsigned short* halves, const int* index,
                    int rows, int fours, i64 width, i64 n) {
  EACH(k, fours ? n / 4 : 0) {
    i64 i = 4 * k, row = i / width, at = row < rows ? index[row] * width + (i - row * width) : 0;
    Four none = {0, 0, 0, 0}, v = row >= rows ? none : halves ? halves_(halves + at) : four(floats + at);
    put_four(dst + i, v);
    if (copy) put_four(copy + i, v);
  }
  EACH(i, fours ? 0 : n) {
    i64 row = i / width, at = row < rows ? index[row] * width + (i - row * width) : 0;
    float v = row >= rows ? 0 : halves ? from_half(halves[at]) : floats[at];
    dst[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}

// dst [n] = src [n], and copy, dst rounded to bfloat16, which may be null: four values at a time, but for the first
// head of them and what is left at the end.
KERNEL widen_half(float* dst, bf16* copy, const unsigned short* src, i64 head, i64 n) {
  EACH_FOUR(i, head, n) {
    Four v = halves_(src + i);
    put_four(dst + i, v);
    if (copy) put_four(copy + i, v);
  }
  EACH_ONE(i, head, n) {
    float v = from_half(src[i]);
    dst[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}

// dst [rows, width]: the lists index[0], index[1], … of those that lie one after the other in values, list k from
// starts[k] to starts[k+1], with zeros after what is shorter; of what is longer the beginning.
KERNEL gather_lists(int* dst, const int* values, const int* starts, const int* index, int width, i64 n) {
  EACH(i, n) {
    i64 row = i / width;
    int from = starts[index[row]], at = (int)(i - row * width);
    dst[i] = at < starts[index[row] + 1] - from ? values[from + at] : 0;
  }
}
