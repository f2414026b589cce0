// Four values at a time: one access of 16 bytes for float32, of 8 for bfloat16.
#pragma once
#include "common.cuh"

typedef float Four __attribute__((vector_size(16)));
typedef u32 Two __attribute__((vector_size(8)));

VSE_INLINE Four four(const float* x) { return *(const Four*)x; }
VSE_INLINE void put_four(float* x, Four v) { *(Four*)x = v; }
VSE_INLINE void put_four(bf16* x, Four v) {
  Two w = {two_(v[0], v[1]), two_(v[2], v[3])};
  *(Two*)x = w;
}

VSE_INLINE void put_one(float* x, float v) { *x = v; }
VSE_INLINE void put_one(bf16* x, float v) { *x = bf16_of(v); }

// What kernels use that work on values of type V: four at a time where the rows of all matrices begin at multiples of
// 16 bytes, otherwise one.
VSE_INLINE void get_(Four* v, const float* x) { *v = four(x); }
VSE_INLINE void get_(float* v, const float* x) { *v = *x; }
VSE_INLINE void put_(float* x, Four v) { put_four(x, v); }
VSE_INLINE void put_(bf16* x, Four v) { put_four(x, v); }
VSE_INLINE void put_(float* x, float v) { put_one(x, v); }
VSE_INLINE void put_(bf16* x, float v) { put_one(x, v); }
VSE_INLINE void zero_(Four* v) { *v = (Four){0, 0, 0, 0}; }
VSE_INLINE void zero_(float* v) { *v = 0; }

// EACH_FOUR: i runs over n elements in steps of the whole grid, four at a time, but for the first head of them and what
// is left at the end, which are the values of EACH_ONE. After head all vectors lie at multiples of four values; a
// caller whose vectors do not passes n as head.
#define EACH_FOUR(i, head, n)                                                                              \
  for (i64 i = (head) + 4 * ((i64)blockIdx.x * blockDim.x + threadIdx.x); i + 4 <= (n);                    \
       i += 4 * (i64)gridDim.x * blockDim.x)
#define EACH_ONE(i, head, n)                                                                                    \
  for (i64 i##_ = (i64)blockIdx.x * blockDim.x + threadIdx.x, i = one_(i##_, head, n);                          \
       i##_ < (head) + ((n) - (head)) % 4; i##_ += (i64)gridDim.x * blockDim.x, i = one_(i##_, head, n))
VSE_INLINE i64 one_(i64 k, i64 head, i64 n) { return k < head ? k : n - (n - head) % 4 + (k - head); }
