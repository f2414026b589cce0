// Kernels with mistakes, for the tests of the emulator. They are in no PTX that is shipped.
#include "grid.cuh"
#include "mma.cuh"

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

// Two blocks add to one element.
KERNEL planted_two_adders(float* y) {
  if (threadIdx.x == 0) y[0] += 1;
}

// Two threads write the two halves of each word, which is not a mistake.
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

// y [16, 8] = A B of x, A [16, 8] and B [8, 8], in TF32: of operands that are rounded, or left as they are, which is
// not a mistake that the emulator finds.
KERNEL planted_tf32(float* y, const float* x, int rounds) {
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  float c[4] = {0, 0, 0, 0}, v[6] = {x[8 * g + t],       x[8 * g + 64 + t],   x[8 * g + t + 4],
                                     x[8 * g + 68 + t],  x[128 + 8 * t + g],  x[160 + 8 * t + g]};
  u32 w[6];
  UNROLL for (int i = 0; i < 6; i++) w[i] = rounds ? tf32_(v[i]) : as_bits(v[i]);
  mma_tf32(c, w, w + 4);
  UNROLL for (int i = 0; i < 4; i++) y[8 * (g + i / 2 * 8) + 2 * t + i % 2] = c[i];
}

// Each block writes a value, and after a barrier of the grid reads the value of the next block.
VSE_INLINE void pass_on(float* y, int n) {
  int next = (blockIdx.x + 1) % gridDim.x;
  if (threadIdx.x == 0) y[(n + 1) % 2 * gridDim.x + blockIdx.x] = y[n % 2 * gridDim.x + next] + 1;
}
DYNAMIC_SHARED(float, dynamic_floats);
KERNEL planted_grid(float* y, u32* arrived) {
  if (threadIdx.x == 0) dynamic_floats[0] = (float)blockIdx.x;
  for (int n = 0; n < 4; n++) {
    pass_on(y, n);
    grid_barrier(arrived, n + 1);
  }
  if (threadIdx.x == 0) y[blockIdx.x] += dynamic_floats[0];  // which is this block's own
}

// The same with one barrier of the grid too few.
KERNEL planted_missing_grid_barrier(float* y, u32* arrived) {
  for (int n = 0; n < 4; n++) {
    pass_on(y, n);
    if (n != 2) grid_barrier(arrived, n < 2 ? n + 1 : n);
  }
}

// The same with barriers that wait for one block too few.
KERNEL planted_early_grid_barrier(float* y, u32* arrived) {
  for (int n = 0; n < 4; n++) {
    pass_on(y, n);
    __syncthreads();
    if (threadIdx.x == 0) {
      add_release(arrived, 1);
      while (load_acquire(arrived) < (n + 1) * gridDim.x - 1) {}
    }
    __syncthreads();
  }
}

// The same with threads that do not wait until their block has seen the others arrive: the last warp passes values on.
KERNEL planted_loose_grid_barrier(float* y, u32* arrived) {
  for (int n = 0; n < 4; n++) {
    int next = (blockIdx.x + 1) % gridDim.x;
    if (threadIdx.x == 32) y[(n + 1) % 2 * gridDim.x + blockIdx.x] = y[n % 2 * gridDim.x + next] + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      add_release(arrived, 1);
      while (load_acquire(arrived) < (n + 1) * gridDim.x) {}
    }
  }
}

// The same with an arrival that may come before what the block did.
KERNEL planted_early_arrival(float* y, u32* arrived) {
  for (int n = 0; n < 4; n++) {
    int next = (blockIdx.x + 1) % gridDim.x;
    if (threadIdx.x == 32) y[(n + 1) % 2 * gridDim.x + blockIdx.x] = y[n % 2 * gridDim.x + next] + 1;
    if (threadIdx.x == 0) {
      add_release(arrived, 1);
      while (load_acquire(arrived) < (n + 1) * gridDim.x) {}
    }
    __syncthreads();
  }
}

// A barrier that waits for one block more than there are.
KERNEL planted_endless_grid_barrier(float* y, u32* arrived) {
  if (threadIdx.x == 0) {
    y[blockIdx.x] = 1;
    add_release(arrived, 1);
    while (load_acquire(arrived) < gridDim.x + 1) {}
  }
}

// One byte more of dynamic shared memory than there is.
KERNEL planted_dynamic_beyond(float* y, u32* arrived) { dynamic_floats[64] = y[0]; }
