// The kernels of contexts.cuh with operands in TF32.
#include "contexts.cuh"

// Cost: read 4*images*r*e; write 8*count; flop 6*images*r*e; flight 8
KERNEL similarity_pack_tf32(u32* packed, const float* regions, int images, int r, int e, int steps, i64 count) {
  pack_<TF32>(packed, regions, images, r, e, steps, count);
}

// Cost: read 4*rows*images*r+4*images*steps*8*e+4*rows*e; write 4*rows*images*e; flop 6*rows*images*e; tf32
// 2*gx*16*images*steps*8*e; turns ceil(gx*gy*block/resident)*per*(1+0.4*(steps+1))
KERNEL similarity_contexts_tf32(float* z, const float* alpha, const u32* packed, const float* c, i64 all, int rows,
                                int images, int r, int e, int steps, int per) {
  __shared__ float part[16][kWarps + 1];
  squares_<TF32>(z, 0, alpha, packed, c, all, rows, images, r, e, steps, per, part);
}

// Cost: read 4*rows*images*r+4*images*steps*8*e+4*rows*e+4*rows*images*e; write 4*rows*images*e+4*gy*rows*e; flop
// 20*rows*images*e; tf32 2*gx*16*images*steps*8*e; turns ceil(gx*gy*block*2/resident)*per*(2+0.4*(steps+2))
KERNEL similarity_contexts_grad_tf32(float* dx, float* drows, const float* dz, const float* alpha, const u32* packed,
                                     const float* c, i64 all, int rows, int images, int r, int e, int steps,
                                     int per) {
  __shared__ float part[16][kWarps + 1];
  squares_grad_<TF32>(dx, 0, drows, dz, alpha, packed, c, all, rows, images, r, e, steps, per, part);
}
