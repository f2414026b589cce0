// Matrix products where cuBLAS is missing: C = alpha·op(A)·op(B) + beta·C + bias, row-major, and the bias added after
// cuBLAS.
#include "vector.cuh"

enum { kTile = 64, kDepth = 16, kPer = 4 };  // a block makes 64 × 64 values, a thread 4 × 4

// What operands are: float32, float32 to be rounded to bfloat16, bfloat16, and that with a result in bfloat16 (Go:
// operandsSingle and so on).
enum { kSingle, kRounded, kHalf, kAllHalf };
VSE_INLINE float operand_(const void* x, i64 at, int kind) {
  if (kind >= kHalf) return bf16_value(((const bf16*)x)[at]);
  float v = ((const float*)x)[at];
  return kind == kRounded ? to_bf16(v) : v;
}

// Element (i, k) of A lies at i·ar + k·ac, element (k, j) of B at k·br + j·bc: one of the two strides is 1. bias may be
// null. blockIdx.z counts the products of a batch. operands says what A and B are; C in bfloat16 is one product without
// beta and bias.
KERNEL gemm(float* c, const void* a, const void* b, const float* bias, int m, int n, int k, float alpha, float beta,
            i64 ar, i64 ac, i64 br, i64 bc, i64 ldc, i64 stride_a, i64 stride_b, i64 stride_c, int operands) {
  __shared__ float ta[kDepth][kTile + 1], tb[kDepth][kTile + 1];
  i64 a0 = blockIdx.z * stride_a, b0 = blockIdx.z * stride_b;
  c += blockIdx.z * stride_c;
  i64 i0 = (i64)blockIdx.y * kTile, j0 = (i64)blockIdx.x * kTile;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  bool inside = i0 + ty < m && j0 + tx < n;  // whether any of the thread's values are in C
  float sum[kPer][kPer];
  for (int y = 0; y < kPer; y++)
    for (int x = 0; x < kPer; x++) sum[y][x] = 0;
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    for (int e = threadIdx.x; e < kTile * kDepth; e += 256) {
      // Neighbouring threads read neighbouring memory.
      int kk = ac == 1 ? e % kDepth : e / kTile, i = ac == 1 ? e / kDepth : e % kTile;
      ta[kk][i] = i0 + i < m && k0 + kk < k ? operand_(a, a0 + (i0 + i) * ar + (k0 + kk) * ac, operands) : 0;
      int kb = bc == 1 ? e / kTile : e % kDepth, j = bc == 1 ? e % kTile : e / kDepth;
      tb[kb][j] = j0 + j < n && k0 + kb < k ? operand_(b, b0 + (k0 + kb) * br + (j0 + j) * bc, operands) : 0;
    }
    __syncthreads();
    int depth = k - k0 < kDepth ? k - k0 : kDepth;
    if (!inside) depth = 0;
    for (int kk = 0; kk < depth; kk++) {
      float x[kPer], y[kPer];
      for (int q = 0; q < kPer; q++) {
        y[q] = ta[kk][ty + 16 * q];
        x[q] = tb[kk][tx + 16 * q];
      }
      for (int p = 0; p < kPer; p++)
        for (int q = 0; q < kPer; q++) sum[p][q] += y[p] * x[q];
    }
    __syncthreads();
  }
  for (int p = 0; p < kPer; p++)
    for (int q = 0; q < kPer; q++) {
      i64 i = i0 + ty + 16 * p, j = j0 + tx + 16 * q;
      if (i >= m || j >= n) continue;
      float v = alpha * sum[p][q];
      if (operands == kAllHalf) {
        ((bf16*)c)[i * ldc + j] = bf16_of(v);
        continue;
      }
      if (beta != 0) v += beta * c[i * ldc + j];
      if (bias) v += bias[j];
      c[i * ldc + j] = v;
    }
}

// c [count, m, n] += bias [n] in every row; blockIdx.y counts the products, stride lies between them. With aligned n,
// ldc and stride are multiples of 4 and c and bias lie at multiples of 16 bytes.
KERNEL add_bias(float* c, const float* bias, int aligned, i64 m, int n, i64 ldc, i64 stride) {
  c += blockIdx.y * stride;
  EACH(i, aligned ? m * n / 4 : 0) {
    i64 row = 4 * i / n, col = 4 * i - row * n, at = row * ldc + col;
    put_four(c + at, four(c + at) + four(bias + col));
  }
  EACH(i, aligned ? 0 : m * n) {
    i64 row = i / n, col = i - row * n;
    c[row * ldc + col] += bias[col];
  }
}
