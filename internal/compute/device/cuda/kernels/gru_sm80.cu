// The kernels of grusteps.cuh with operands in bfloat16.
//
// rows/steps sequences have a word, on average; a block has 8 more in its last tile. A multiprocessor gets some 13 kB
// of the operands of its blocks from the L2 cache in a turn, its share of the bandwidth of that cache, and 60 kB of the
// parts of the sums, which are written and read, from shared memory.
#include "grusteps.cuh"

// Cost: read 4*gy*rows*columns; write 2*gy*rows*columns; flight 32
KERNEL gru_weights(bf16* to, const float* whh0, const float* whh1, u32* arrived, int rows, int columns, int transposed,
                   i64 n) {
  weights_<BF16>(to, whh0, whh1, arrived, rows, columns, transposed, n);
}

// Cost: read 16*gy*rows/steps*h+2*gy*rows/steps*h+6*gy*h*h; write 26*gy*rows/steps*h; flop 80*gy*rows/steps*h; mma
// 6*gy*h*h*(rows/steps+8); turns 4+ceil(gx*gy*2048/resident)*(2*h*(48+rows/steps*h/(16*gx)+8)/13000
// +(rows/steps*h/(16*gx)+8)/20)
KERNEL gru_tensor_step(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, bf16* to,
                       const bf16* from, const bf16* weights, const float* bih0, const float* bih1, const float* bhh0,
                       const float* bhh1, const int* starts, int n, int steps, int rows, int b, int h, int reverse) {
  step_<BF16>(gates0, gates1, y0, y1, prev0, prev1, to, from, weights, bih0, bih1, bhh0, bhh1, starts, n, steps, rows,
              b, h, reverse);
}

// Cost: read 18*gy*rows*h+6*gy*h*h; write 26*gy*rows*h; flop 80*gy*rows*h; mma 6*gy*h*h*(rows+8*steps); turns 1; hits
// 96*h/13000+steps*(8+2*h*(rows/steps*h/(16*gx)+8)/13000+(rows/steps*h/(16*gx)+8)/20)
KERNEL gru_tensor_steps(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, bf16* even,
                        bf16* odd, const bf16* weights, const float* bih0, const float* bih1, const float* bhh0,
                        const float* bhh1, u32* arrived, const int* starts, int steps, int rows, int b, int h,
                        int reverse) {
  steps_<BF16>(gates0, gates1, y0, y1, prev0, prev1, even, odd, weights, bih0, bih1, bhh0, bhh1, arrived, starts, steps,
               rows, b, h, reverse);
}

// Cost: read 32*gy*rows/steps*h+6*gy*rows/steps*h+6*gy*h*h; write 26*gy*rows/steps*h; flop 30*gy*rows/steps*h; mma
// 6*gy*h*h*(rows/steps+8); turns 5+ceil(gx*gy*2048/resident)*(6*h*(32+rows/steps*h/(32*gx)+8)/13000
// +(rows/steps*h/(32*gx)+8)/29)
KERNEL gru_tensor_grad(float* gates0, float* gates1, bf16* to, const bf16* from, float* carry, const bf16* weights,
                       const float* prev0, const float* prev1, const float* dy, const float* final, const int* starts,
                       float scale, int n, int steps, int rows, int b, int h, int reverse) {
  grad_<BF16>(gates0, gates1, to, from, carry, weights, prev0, prev1, dy, final, starts, scale, n, steps, rows, b, h,
              reverse);
}

// Cost: read 38*gy*rows*h+6*gy*h*h; write 26*gy*rows*h; flop 30*gy*rows*h; mma 6*gy*h*h*(rows+8*steps); turns 1; hits
// 192*h/13000+steps*(9+6*h*(rows/steps*h/(32*gx)+8)/13000+(rows/steps*h/(32*gx)+8)/29)
KERNEL gru_tensor_grads(float* gates0, float* gates1, bf16* even, bf16* odd, float* carry, const bf16* weights,
                        const float* prev0, const float* prev1, const float* dy, const float* final, u32* arrived,
                        const int* starts, float scale, int steps, int rows, int b, int h, int reverse) {
  grads_<BF16>(gates0, gates1, even, odd, carry, weights, prev0, prev1, dy, final, arrived, starts, scale, steps, rows,
               b, h, reverse);
}
