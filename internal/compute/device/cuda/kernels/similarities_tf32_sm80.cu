// The kernels of contexts.cuh with operands in TF32.
#include "contexts.cuh"

// Cost: read 4*images*r*e+4*rows*images*r; write 16*count; flop 12*count; flight 16
KERNEL similarity_pack_tf32(u32* packed, u32* weights, const float* regions, const float* alpha, i64 all, int rows,
                            int images, int r, int e, int steps, i64 count) {
  pack_<TF32>(packed, weights, regions, alpha, all, rows, images, r, e, steps, count);
}

// Cost: read 4*rows*images*steps*8+4*images*steps*8*e+4*rows*e; write 4*rows*images*e; flop
// 6*rows*images*e; tf32 2*gx*16*images*steps*8*e; turns ceil(gx*gy*block*4/resident)*per*(0.4+0.35*(steps+1))
KERNEL similarity_contexts_tf32(float* z, const u32* weights, const u32* packed, const float* c, int rows, int images,
                                int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_<TF32>(z, 0, weights, packed, c, rows, images, e, steps, per, part);
}

// Cost: read 4*rows*images*steps*8+4*images*steps*8*e+4*rows*e+4*rows*images*e; write
// 4*rows*images*e+4*gy*rows*e; flop 20*rows*images*e; tf32 2*gx*16*images*steps*8*e;
// turns ceil(gx*gy*block*4/resident)*per*(1+0.4*(steps+2))
KERNEL similarity_contexts_grad_tf32(float* dx, float* drows, const float* dz, const u32* weights, const u32* packed,
                                     const float* c, int rows, int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_grad_<TF32>(dx, 0, drows, dz, weights, packed, c, rows, images, e, steps, per, part);
}
