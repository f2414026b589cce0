// The kernels of grusteps.cuh with operands in TF32, which have twice as many bytes: a block going back has half as
// many columns.
#include "grusteps.cuh"

KERNEL gru_weights_tf32(u32* to, const float* whh0, const float* whh1, u32* arrived, int rows, int columns,
                        int transposed, i64 n) {
  weights_<TF32>(to, whh0, whh1, arrived, rows, columns, transposed, n);
}

KERNEL gru_tensor_step_tf32(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, u32* to,
                            const u32* from, const u32* weights, const float* bih0, const float* bih1,
                            const float* bhh0, const float* bhh1, const int* starts, int n, int steps, int rows, int b,
                            int h, int reverse) {
  step_<TF32>(gates0, gates1, y0, y1, prev0, prev1, to, from, weights, bih0, bih1, bhh0, bhh1, starts, n, steps, rows,
              b, h, reverse);
}

KERNEL gru_tensor_steps_tf32(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, u32* even,
                             u32* odd, const u32* weights, const float* bih0, const float* bih1, const float* bhh0,
                             const float* bhh1, u32* arrived, const int* starts, int steps, int rows, int b, int h,
                             int reverse) {
  steps_<TF32>(gates0, gates1, y0, y1, prev0, prev1, even, odd, weights, bih0, bih1, bhh0, bhh1, arrived, starts, steps,
               rows, b, h, reverse);
}

KERNEL gru_tensor_grad_tf32(float* gates0, float* gates1, u32* to, const u32* from, float* carry, const u32* weights,
                            const float* prev0, const float* prev1, const float* dy, const float* final,
                            const int* starts, float scale, int n, int steps, int rows, int b, int h, int reverse) {
  grad_<TF32>(gates0, gates1, to, from, carry, weights, prev0, prev1, dy, final, starts, scale, n, steps, rows, b, h,
              reverse);
}

KERNEL gru_tensor_grads_tf32(float* gates0, float* gates1, u32* even, u32* odd, float* carry, const u32* weights,
                             const float* prev0, const float* prev1, const float* dy, const float* final, u32* arrived,
                             const int* starts, float scale, int steps, int rows, int b, int h, int reverse) {
  grads_<TF32>(gates0, gates1, even, odd, carry, weights, prev0, prev1, dy, final, arrived, starts, scale, steps, rows,
               b, h, reverse);
}
