// The kernels of contexts.cuh with operands in bfloat16.
#include "contexts.cuh"

KERNEL similarity_pack(u32* packed, u32* weights, const float* regions, const float* alpha, i64 all, int rows,
                       int images, int r, int e, int steps, i64 count) {
  pack_<BF16>(packed, weights, regions, alpha, all, rows, images, r, e, steps, count);
}

KERNEL similarity_contexts(bf16* z, const u32* weights, const u32* packed, const float* c, int rows, int images, int e,
                           int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_<BF16, 2>(z, weights, packed, c, rows, images, e, steps, per, part);
}

KERNEL similarity_contexts_small(bf16* z, const u32* weights, const u32* packed, const float* c, int rows, int images,
                                 int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_<BF16, 1>(z, weights, packed, c, rows, images, e, steps, per, part);
}

KERNEL similarity_contexts_grad(bf16* z, bf16* dz, float* drows, const u32* weights, const u32* packed, const float* c,
                                int rows, int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_grad_<BF16, true>(z, dz, drows, weights, packed, c, rows, images, e, steps, per, part);
}

KERNEL similarity_contexts_grad_small(bf16* z, bf16* dz, float* drows, const u32* weights, const u32* packed, const
                                      float* c, int rows, int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_grad_<BF16, false>(z, dz, drows, weights, packed, c, rows, images, e, steps, per, part);
}
