// The kernels of contexts.cuh with operands in bfloat16.
#include "contexts.cuh"

// Cost: read 4*images*r*e+4*rows*images*r; write 16*count; flop 12*count; flight 32
KERNEL similarity_pack(u32* packed, u32* weights, const float* regions, const float* alpha, i64 all, int rows,
                       int images, int r, int e, int steps, i64 count) {
  pack_<BF16>(packed, weights, regions, alpha, all, rows, images, r, e, steps, count);
}

// Cost: read 2*rows*images*steps*16+2*images*steps*16*e+4*rows*e; write
// 4*rows*images*e*(1-half)+2*rows*images*e*half; flop 6*rows*images*e; mma 2*gx*16*images*steps*16*e; turns
// ceil(gx*gy*block*4/resident)*per*(0.4+0.35*(steps+1))
KERNEL similarity_contexts(float* z, bf16* half, const u32* weights, const u32* packed, const float* c, int rows,
                           int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_<BF16>(z, half, weights, packed, c, rows, images, e, steps, per, part);
}

// Cost: read 2*rows*images*steps*16+2*images*steps*16*e+4*rows*e+4*rows*images*e; write
// 4*rows*images*e*(1-half)+2*rows*images*e*half+4*gy*rows*e; flop 20*rows*images*e; mma 2*gx*16*images*steps*16*e;
// turns ceil(gx*gy*block*4/resident)*per*(1+0.4*(steps+2))
KERNEL similarity_contexts_grad(float* dx, bf16* half, float* drows, const float* dz, const u32* weights,
                                const u32* packed, const float* c, int rows, int images, int e, int steps, int per) {
  __shared__ __attribute__((aligned(16))) Parts part[2];
  squares_grad_<BF16>(dx, half, drows, dz, weights, packed, c, rows, images, e, steps, per, part);
}
