// The kernels of grusteps.cuh with operands in bfloat16.
//
// rows/steps sequences have a word, on average; a block has 8 more in its last tile. A multiprocessor gets some 13 kB
// of the operands of its blocks from the L2 cache in a turn, its share of the bandwidth of that cache, and 60 kB of the
// parts of the sums, which are written and read, from shared memory.
#include "grusteps.cuh"

KERNEL gru_weights(bf16* to, const float* whh0, const float* whh1, u32* arrived, int rows, int columns, int transposed,
                   i64 n) {
  weights_<BF16>(to, whh0, whh1, arrived, rows, columns, transposed, n);
}

KERNEL gru_tensor_step(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, bf16* to,
                       const bf16* from, const bf16* weights, const float* bih0, const float* bih1, const float* bhh0,
                       const float* bhh1, const int* starts, int n, int steps, int rows, int b, int h, int reverse) {
  step_<BF16>(gates0, gates1, y0, y1, prev0, prev1, to, from, weights, bih0, bih1, bhh0, bhh1, starts, n, steps, rows,
              b, h, reverse);
}

KERNEL gru_tensor_steps(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, bf16* even,
                        bf16* odd, const bf16* weights, const float* bih0, const float* bih1, const float* bhh0,
                        const float* bhh1, u32* arrived, const int* starts, int steps, int rows, int b, int h,
                        int reverse) {
  steps_<BF16>(gates0, gates1, y0, y1, prev0, prev1, even, odd, weights, bih0, bih1, bhh0, bhh1, arrived, starts, steps,
               rows, b, h, reverse);
}

KERNEL gru_tensor_grad(float* gates0, float* gates1, bf16* to, const bf16* from, float* carry, const bf16* weights,
                       const float* prev0, const float* prev1, const float* dy, const float* final, const int* starts,
                       float scale, int n, int steps, int rows, int b, int h, int reverse) {
  grad_<BF16>(gates0, gates1, to, from, carry, weights, prev0, prev1, dy, final, starts, scale, n, steps, rows, b, h,
              reverse);
}

KERNEL gru_tensor_grads(float* gates0, float* gates1, bf16* even, bf16* odd, float* carry, const bf16* weights,
                        const float* prev0, const float* prev1, const float* dy, const float* final, u32* arrived,
                        const int* starts, float scale, int steps, int rows, int b, int h, int reverse) {
  grads_<BF16>(gates0, gates1, even, odd, carry, weights, prev0, prev1, dy, final, arrived, starts, scale, steps, rows,
               b, h, reverse);
}
