// Four values at a time: one access of 16 bytes for float32, of 8 for bfloat16.
#pragma once
#include "common.cuh"

typedef float Four __attribute__((vector_size(16)));
typedef u32 Two __attribute__((vector_size(8)));

VSE_INLINE Four four(const float* x) { return *(const Four*)x; }
VSE_INLINE void put_four(float* x, Four v) { *(Four*)x = v; }
VSE_INLINE void put_four(bf16* x, Four v) {
  Two w = {(u32)bf16_of(v[0]) | (u32)bf16_of(v[1]) << 16, (u32)bf16_of(v[2]) | (u32)bf16_of(v[3]) << 16};
  *(Two*)x = w;
}

VSE_INLINE void put_one(float* x, float v) { *x = v; }
VSE_INLINE void put_one(bf16* x, float v) { *x = bf16_of(v); }
