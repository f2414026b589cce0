// What all kernels share: the CUDA language for clang without NVIDIA's headers, mathematics without libdevice,
// reductions.
//
// The sources are compiled twice, by clang to PTX and by g++ for the emulated driver (emulator/src/emu.h), and use what
// both know: one dimension of threads, __syncthreads, __shfl_xor_sync. Arithmetic is float32; the few long sums are
// double.
#pragma once

#if defined(VSE_EMULATOR)
#include "emu.h"
#else
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
// Shared memory of a size that the launch says.
#define DYNAMIC_SHARED(type, name) extern __attribute__((shared)) type name[]
#define VSE_INLINE static __device__ inline __attribute__((always_inline))
struct vse_thread {
  __declspec(property(get = gx)) unsigned x;
  static __device__ unsigned gx() { return __nvvm_read_ptx_sreg_tid_x(); }
};
struct vse_width {
  __declspec(property(get = gx)) unsigned x;
  static __device__ unsigned gx() { return __nvvm_read_ptx_sreg_ntid_x(); }
};
struct vse_block {
  __declspec(property(get = gx)) unsigned x;
  __declspec(property(get = gy)) unsigned y;
  __declspec(property(get = gz)) unsigned z;
  static __device__ unsigned gx() { return __nvvm_read_ptx_sreg_ctaid_x(); }
  static __device__ unsigned gy() { return __nvvm_read_ptx_sreg_ctaid_y(); }
  static __device__ unsigned gz() { return __nvvm_read_ptx_sreg_ctaid_z(); }
};
struct vse_grid {
  __declspec(property(get = gx)) unsigned x;
  __declspec(property(get = gy)) unsigned y;
  __declspec(property(get = gz)) unsigned z;
  static __device__ unsigned gx() { return __nvvm_read_ptx_sreg_nctaid_x(); }
  static __device__ unsigned gy() { return __nvvm_read_ptx_sreg_nctaid_y(); }
  static __device__ unsigned gz() { return __nvvm_read_ptx_sreg_nctaid_z(); }
};
extern const __device__ __attribute__((weak)) vse_thread threadIdx;
extern const __device__ __attribute__((weak)) vse_width blockDim;
extern const __device__ __attribute__((weak)) vse_block blockIdx;
extern const __device__ __attribute__((weak)) vse_grid gridDim;
VSE_INLINE float __shfl_xor_sync(unsigned mask, float v, int lane) {
  int i;
  __builtin_memcpy(&i, &v, 4);
  i = __nvvm_shfl_sync_bfly_i32(mask, i, lane, 31);
  __builtin_memcpy(&v, &i, 4);
  return v;
}
VSE_INLINE double __shfl_xor_sync(unsigned mask, double v, int lane) {
  long long i;
  __builtin_memcpy(&i, &v, 8);
  int lo = __nvvm_shfl_sync_bfly_i32(mask, (int)i, lane, 31),
      hi = __nvvm_shfl_sync_bfly_i32(mask, (int)(i >> 32), lane, 31);
  i = (long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo);
  __builtin_memcpy(&v, &i, 8);
  return v;
}
VSE_INLINE float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
VSE_INLINE double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
#endif

#ifndef VSE_THREADS
#define VSE_THREADS 256  // of a block, at most; a file of kernels may ask for more
#endif
#ifdef VSE_BLOCKS  // of a multiprocessor that the compiler aims at; more of them would spill registers
#define KERNEL extern "C" __global__ void __launch_bounds__(VSE_THREADS, VSE_BLOCKS)
#else
#define KERNEL extern "C" __global__ void __launch_bounds__(VSE_THREADS)
#endif

typedef long long i64;
typedef unsigned u32;
typedef unsigned long long u64;

#define UNROLL _Pragma("unroll")  // arrays of a thread lie in registers where all indices are known

// Elementwise kernels: i runs over n elements in steps of the whole grid.
#define EACH(i, n) for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

VSE_INLINE float as_float(u32 u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
VSE_INLINE u32 as_bits(float f) { u32 u; __builtin_memcpy(&u, &f, 4); return u; }

// to_bf16 rounds to bfloat16, to nearest even.
VSE_INLINE float to_bf16(float x) {
  u32 u = as_bits(x);
  return x != x ? x : as_float((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u);
}

// bfloat16 in memory: the upper half of a float32.
typedef unsigned short bf16;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// two_ is two values rounded to bfloat16, the first in the lower half: one instruction from Ampere on.
VSE_INLINE u32 two_(float x, float y) {
  u32 u;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(y), "f"(x));
  return u;
}
VSE_INLINE bf16 bf16_of(float x) { return (bf16)two_(x, 0); }
#else
VSE_INLINE bf16 bf16_of(float x) { return (bf16)(x != x ? 0x7fffu : as_bits(to_bf16(x)) >> 16); }
VSE_INLINE u32 two_(float x, float y) { return (u32)bf16_of(x) | (u32)bf16_of(y) << 16; }
#endif
VSE_INLINE float bf16_value(bf16 h) { return as_float((u32)h << 16); }

// e^x as internal/compute/vec computes it (Cephes, S. L. Moshier): x = k·ln 2 + r, a polynomial of degree 7 for e^r.
// Beyond the float32 range the argument is clamped; NaN stays. power_ is the power of an x within, with its k; fall_ is
// e^x for x <= 0 alone, which takes half the instructions, and takes NaN for the least.
VSE_INLINE float power_(float x, float k) {
  float r = x - k * 0.693359375f;
  r -= k * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * (r * r) + r + 1.0f) * as_float((u32)((int)k + 127) << 23);
}
VSE_INLINE float exp_(float x) {
  if (x != x) return x;
  x = x < -87.3f ? -87.3f : x > 88.3f ? 88.3f : x;
  float t = x * 1.44269504088896341f;
  return power_(x, (float)(int)(t + (t < 0 ? -0.5f : 0.5f)));
}
VSE_INLINE float fall_(float x) {
  x = x > -87.3f ? x : -87.3f;
  return power_(x, (float)(int)(x * 1.44269504088896341f - 0.5f));
}

// ln x for normal x > 0 (Cephes logf): x = 2^e·m with m in [√½, √2).
VSE_INLINE float log_(float x) {
  u32 u = as_bits(x);
  int e = (int)(u >> 23) - 126;
  float m = as_float((u & 0x7fffffu) | 0x3f000000u);
  if (m < 0.70710678f) {
    e--;
    m = m + m;
  }
  m -= 1.0f;
  float z = m * m, p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = m * z * p + -2.12194440e-4f * (float)e - 0.5f * z;
  return m + y + 0.693359375f * (float)e;
}

// Φ(-t), t >= 0: the polynomial of internal/compute/vec/gelu.go for its logarithm, which stays as it is beyond 9.
VSE_INLINE float tail_(float t) {
  t = t < 9 ? t : 9;
  float p = -1.515536319e-08f;
  p = p * t + 4.976760692e-07f;
  p = p * t - 6.798317827e-06f;
  p = p * t + 4.939537394e-05f;
  p = p * t - 0.0001839578617f;
  p = p * t - 1.748203431e-05f;
  p = p * t + 0.004834793042f;
  p = p * t - 0.03636233136f;
  p = p * t - 0.3183034062f;
  p = p * t - 0.7978851199f;
  p = p * t - 0.6931471825f;
  return fall_(p);
}

// The GELU and its slope from Φ(-|x|), which lanes of both signs compute together.
VSE_INLINE float tail_of(float x) { return tail_(x < 0 ? -x : x); }
VSE_INLINE float gelu_(float x, float tail) { return x < 0 ? x * tail : x - x * tail; }
VSE_INLINE float gelu_slope_(float x, float tail) {
  return (x < 0 ? tail : 1.0f - tail) + x * fall_(-0.5f * x * x) * 0.39894228f;
}

VSE_INLINE float sigmoid_(float x) { return 1.0f / (1.0f + exp_(-x)); }

// tanh x: an odd polynomial below 0.625, from the exponential above.
VSE_INLINE float tanh_(float x) {
  float a = x < 0 ? -x : x;
  if (a < 0.625f) {
    float s = x * x, p = -5.70498872745e-3f;
    p = p * s + 2.06390887954e-2f;
    p = p * s - 5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    return p * s * x + x;
  }
  float y = 1.0f - 2.0f / (exp_(2.0f * a) + 1.0f);
  return x < 0 ? -y : y;
}

// inverse_ is 1/x, and 0 at 0.
VSE_INLINE float inverse_(float x) { return x == 0 ? 0 : 1.0f / x; }

// block_sum returns the sum of v over the block to every thread, in a fixed order: lanes by halves, then the warps in
// turn. The block is a multiple of 32 and at most 1024 threads wide.
VSE_INLINE float block_sum(float v) {
  __shared__ float part[32];
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();  // what an earlier call left has been read
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  float s = part[0];
  for (u32 w = 1; w < blockDim.x >> 5; w++) s += part[w];
  return s;
}

// block_max is the greatest v of the block; NaN wins.
VSE_INLINE float block_max(float v) {
  __shared__ float most[32];
  for (int d = 16; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(0xffffffffu, v, d);
    if (o > v || o != o) v = o;
  }
  __syncthreads();
  if ((threadIdx.x & 31) == 0) most[threadIdx.x >> 5] = v;
  __syncthreads();
  float m = most[0];
  for (u32 w = 1; w < blockDim.x >> 5; w++)
    if (most[w] > m || most[w] != most[w]) m = most[w];
  return m;
}

// block_total is block_sum in double.
VSE_INLINE double block_total(double v) {
  __shared__ double total[32];
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) total[threadIdx.x >> 5] = v;
  __syncthreads();
  double s = total[0];
  for (u32 w = 1; w < blockDim.x >> 5; w++) s += total[w];
  return s;
}
