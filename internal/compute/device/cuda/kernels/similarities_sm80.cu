// The kernels of contexts.cuh with operands in bfloat16.
#include "contexts.cuh"

// Cost: read 4*images*r*e; write 8*count; flop 6*images*r*e; flight 16
KERNEL similarity_pack(u32* packed, const float* regions, int images, int r, int e, int steps, i64 count) {
  pack_<BF16>(packed, regions, images, r, e, steps, count);
}

// Cost: read 4*rows*images*r+2*images*steps*16*e+4*rows*e; write 4*rows*images*e*(1-half)+2*rows*images*e*half; flop
// 6*rows*images*e; mma 2*gx*16*images*steps*16*e; turns ceil(gx*gy*block/resident)*per*(1+0.4*(steps+1))
KERNEL similarity_contexts(float* z, bf16* half, const float* alpha, const u32* packed, const float* c, i64 all,
                           int rows, int images, int r, int e, int steps, int per) {
  __shared__ float part[16][kWarps + 1];
  squares_<BF16>(z, half, alpha, packed, c, all, rows, images, r, e, steps, per, part);
}

// Cost: read 4*rows*images*r+2*images*steps*16*e+4*rows*e+4*rows*images*e; write
// 4*rows*images*e*(1-half)+2*rows*images*e*half+4*gy*rows*e; flop 20*rows*images*e; mma 2*gx*16*images*steps*16*e;
// turns ceil(gx*gy*block*2/resident)*per*(2+0.4*(steps+2))
KERNEL similarity_contexts_grad(float* dx, bf16* half, float* drows, const float* dz, const float* alpha,
                                const u32* packed, const float* c, i64 all, int rows, int images, int r, int e,
                                int steps, int per) {
  __shared__ float part[16][kWarps + 1];
  squares_grad_<BF16>(dx, half, drows, dz, alpha, packed, c, all, rows, images, r, e, steps, per, part);
}
