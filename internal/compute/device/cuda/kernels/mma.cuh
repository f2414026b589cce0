// Products on tensor cores, for the kernels of compute capability 8.0 and later (*_sm80.cu). A warp multiplies tiles
// that lie in the registers of its lanes, in words of two bfloat16 or of one TF32 (PTX ISA, mma.m16n8k16 and
// mma.m16n8k8). Lane 4g + t has of
//
//   A [16, 16]  a[0] (g, 2t), a[1] (g+8, 2t), a[2] (g, 2t+8), a[3] (g+8, 2t+8): two bfloat16 each, that and the next
//               column
//   B [16, 8]   b[0] (2t, g), b[1] (2t+8, g): two bfloat16 each, that and the next row
//   C [16, 8]   c[0], c[1] (g, 2t), (g, 2t+1), c[2], c[3] (g+8, 2t), (g+8, 2t+1)
//
//   A [16, 8]   a[0] (g, t), a[1] (g+8, t), a[2] (g, t+4), a[3] (g+8, t+4): one TF32 each
//   B [8, 8]    b[0] (t, g), b[1] (t+4, g); C is the same
#pragma once
#include "pairs.cuh"
#include "vector.cuh"

// mma_ is c += A B of bfloat16, mma_tf32 of TF32, which are float32 of whose significands the upper 11 bits count: the
// instruction ignores the others. Products are exact, sums are float32; in which order a GPU adds is not specified. The
// emulator adds them to c one by one, k from 0 on. tf32_ rounds to TF32, and where two neighbours are as near, to the
// one of the greater magnitude. prefetch_ fetches the 128 bytes around an address to the L2 cache. bytes_ is four of the
// bytes of x (0 to 3) and y (4 to 7), each chosen by four bits of select.
#if defined(VSE_EMULATOR)
VSE_INLINE void mma_(float* c, const u32* a, const u32* b) { emu::mma(c, a, b); }
VSE_INLINE void mma_tf32(float* c, const u32* a, const u32* b) { emu::mma_tf32(c, a, b); }
VSE_INLINE u32 tf32_(float x) { return emu::tf32(x); }
VSE_INLINE void prefetch_(const void*) {}
VSE_INLINE u32 bytes_(u32 x, u32 y, u32 select) { return emu::bytes(x, y, select); }
#else
VSE_INLINE void mma_(float* c, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
      "%12, %13};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
VSE_INLINE void mma_tf32(float* c, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
      "%12, %13};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
VSE_INLINE u32 tf32_(float x) {
  u32 u;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(u) : "f"(x));
  return u;
}
VSE_INLINE void prefetch_(const void* x) { asm volatile("prefetch.L2 [%0];" : : "l"(x)); }
VSE_INLINE u32 bytes_(u32 x, u32 y, u32 select) {
  u32 u;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(u) : "r"(x), "r"(y), "r"(select));
  return u;
}
#endif

// Operands are what a kernel is written for: how many values a word holds, which are neighbours in depth, how a value
// lies in memory, a word of values, and c += A B. An instruction is 8·kEach deep, of which lane 4g + t has the places
// kEach·(t + 4j) on in its words j.
struct BF16 {
  enum { kEach = 2 };
  typedef bf16 Value;
  VSE_INLINE Value value(float x) { return bf16_of(x); }
  VSE_INLINE u32 word(const float* v) { return two_(v[0], v[1]); }
  VSE_INLINE void multiply(float* c, const u32* a, const u32* b) { mma_(c, a, b); }
};
struct TF32 {
  enum { kEach = 1 };
  typedef u32 Value;
  VSE_INLINE Value value(float x) { return tf32_(x); }
  VSE_INLINE u32 word(const float* v) { return tf32_(v[0]); }
  VSE_INLINE void multiply(float* c, const u32* a, const u32* b) { mma_tf32(c, a, b); }
};

typedef u32 Quad __attribute__((vector_size(16)));

// Eight neighbouring values from column k on of a row of e, a multiple of 8, that begins at a multiple of 16 bytes; 0
// after the row.
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
