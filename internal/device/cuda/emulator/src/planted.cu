// Kernels with mistakes, for the tests of the emulator. They are in no PTX that is shipped.
#include "common.cuh"

// The sum of 64 values, with the barrier between writing and reading shared memory left out.
KERNEL planted_missing_barrier(float* y, const float* x) {
  __shared__ float part[64];
  part[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = part[63 - threadIdx.x];
}

// The same with the barrier.
KERNEL planted_none(float* y, const float* x) {
  __shared__ float part[64];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = part[63 - threadIdx.x];
}

// One element too many.
KERNEL planted_write_beyond(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 1;
}

KERNEL planted_read_beyond(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i + 1];
}

// Two blocks write one element.
KERNEL planted_two_writers(float* y) {
  if (threadIdx.x == 0) y[0] = 1;
}

// Two threads write the two halves of each word, which is no mistake.
KERNEL planted_halves(bf16* y) {
  y[threadIdx.x] = 1;
}

// The same, and a thread reads a whole word that its neighbour has written a half of.
KERNEL planted_half_race(bf16* y, float* z) {
  y[threadIdx.x] = 1;
  if (threadIdx.x % 2) z[threadIdx.x] = ((const float*)y)[threadIdx.x / 2];
}

// Two blocks write one half.
KERNEL planted_half_writers(bf16* y) {
  if (threadIdx.x == 0) y[1] = 1;
}

// A barrier that half of the block does not reach.
KERNEL planted_half_barrier(float* y) {
  if (threadIdx.x < 32) __syncthreads();
  y[threadIdx.x] = 1;
}

// A kernel whose PTX (planted.ptx) subtracts where this adds.
KERNEL planted_other_instruction(float* y, const float* x) {
  y[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x];
}

// A product and a sum, which the PTX rounds once.
KERNEL planted_fused(float* y, const float* x) {
  y[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x] - 1.0f;
}
