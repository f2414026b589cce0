// The kernels of contexts.cuh with operands in TF32.
#include "contexts.cuh"

KERNEL similarity_pack_tf32(u32* packed, u32* weights, const float* regions, const float* alpha, i64 all, int rows,
                            int images, int r, int e, int steps, i64 count) {
  pack_<TF32>(packed, weights, regions, alpha, all, rows, images, r, e, steps, count);
}

KERNEL similarity_contexts_tf32(float* z, const u32* weights, const u32* packed, const float* c, int rows, int images,
                                int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_<TF32, 2>(z, weights, packed, c, rows, images, e, steps, per, part);
}

KERNEL similarity_contexts_small_tf32(float* z, const u32* weights, const u32* packed, const float* c, int rows,
                                      int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_<TF32, 1>(z, weights, packed, c, rows, images, e, steps, per, part);
}

KERNEL similarity_contexts_grad_tf32(float* z, float* dz, float* drows, const u32* weights, const u32* packed, const
                                     float* c, int rows, int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_grad_<TF32, true>(z, dz, drows, weights, packed, c, rows, images, e, steps, per, part);
}

KERNEL similarity_contexts_grad_small_tf32(float* z, float* dz, float* drows, const u32* weights, const u32* packed,
                                           const float* c, int rows, int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_grad_<TF32, false>(z, dz, drows, weights, packed, c, rows, images, e, steps, per, part);
}
