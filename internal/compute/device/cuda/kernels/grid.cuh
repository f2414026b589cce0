// A barrier of the whole grid, for the kernels of compute capability 8.0 and later (*_sm80.cu) whose blocks all run at
// once (Go: driver.Launch.Together).
#pragma once
#include "common.cuh"

// add_release adds to a counter in device memory what another block may wait for: it sees what this thread, and others
// in front of its barriers, did before. load_acquire is the counter; a thread that calls it again and again waits.
#if defined(VSE_EMULATOR)
VSE_INLINE void add_release(u32* at, u32 v) { emu::add_release(at, v); }
VSE_INLINE u32 load_acquire(const u32* at) { return emu::load_acquire(at); }
#else
VSE_INLINE void add_release(u32* at, u32 v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;"
               :: "l"((__attribute__((address_space(1))) u32*)at), "r"(v) : "memory");
}
VSE_INLINE u32 load_acquire(const u32* at) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(v) : "l"((const __attribute__((address_space(1))) u32*)at) : "memory");
  return v;
}
#endif

// grid_barrier is the n-th barrier of all threads of a grid of two dimensions, counted from 1. arrived counts the
// blocks that have come to any of them; it is 0 before the launch. It has two halves: what a block writes between them
// no other block may read after the barrier, and it takes no time of those that wait. grid_wait may be the wait of some
// blocks, with a counter of their own.
VSE_INLINE void grid_arrive(u32* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) add_release(arrived, 1);
}
VSE_INLINE void grid_wait(const u32* arrived, u32 n, u32 blocks) {
  if (threadIdx.x == 0)
    while (load_acquire(arrived) < n * blocks) {}
  __syncthreads();
}
VSE_INLINE void grid_barrier(u32* arrived, u32 n) {
  grid_arrive(arrived);
  grid_wait(arrived, n, gridDim.x * gridDim.y);
}
