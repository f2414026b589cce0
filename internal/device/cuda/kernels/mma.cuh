// Products on tensor cores, for the kernels of compute capability 8.0 and later (*_sm80.cu). A warp multiplies tiles
// that lie in the registers of its lanes (PTX ISA, mma.m16n8k16): lane 4g + t has of
//
//   A [16, 16]  a[0] (g, 2t), a[1] (g+8, 2t), a[2] (g, 2t+8), a[3] (g+8, 2t+8): two bfloat16 each, that and the next
//               column
//   B [16, 8]   b[0] (2t, g), b[1] (2t+8, g): two bfloat16 each, that and the next row
//   C [16, 8]   c[0], c[1] (g, 2t), (g, 2t+1), c[2], c[3] (g+8, 2t), (g+8, 2t+1)
#pragma once
#include "pairs.cuh"
#include "vector.cuh"

// mma_ is c += A B. Products are exact, sums are float32; in which order a GPU adds is not specified. The emulator adds
// them to c one by one, k from 0 on.
#if defined(VSE_EMULATOR)
VSE_INLINE void mma_(float* c, const u32* a, const u32* b) { emu::mma(c, a, b); }
#else
VSE_INLINE void mma_(float* c, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
      "%12, %13};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
#endif

// two_ is two values rounded to bfloat16, the first in the lower half.
VSE_INLINE u32 two_(float x, float y) { return (u32)bf16_of(x) | (u32)bf16_of(y) << 16; }

typedef u32 Quad __attribute__((vector_size(16)));

// Eight neighbouring values from column k on of a row of e, a multiple of 8, that begins at a multiple of 16 bytes; 0
// behind the row.
VSE_INLINE void read_eight(float* v, const float* row, int k, int e) {
  Four x = {0, 0, 0, 0}, y = x;
  if (k < e) x = four(row + k), y = four(row + k + 4);
  UNROLL for (int i = 0; i < 4; i++) v[i] = x[i], v[4 + i] = y[i];
}
VSE_INLINE void write_eight(float* row, const float* v, int k, int e) {
  if (k >= e) return;
  Four x = {v[0], v[1], v[2], v[3]}, y = {v[4], v[5], v[6], v[7]};
  put_four(row + k, x);
  put_four(row + k + 4, y);
}
VSE_INLINE void write_eight_halves(bf16* row, const float* v, int k, int e) {
  if (k >= e) return;
  Quad x = {two_(v[0], v[1]), two_(v[2], v[3]), two_(v[4], v[5]), two_(v[6], v[7])};
  *(Quad*)(row + k) = x;
}
