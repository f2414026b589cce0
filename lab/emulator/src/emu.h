// The CUDA execution model on the host: one fiber per CUDA thread, all on one OS thread, so that a run is
// deterministic.
//
// The kernel sources are compiled by g++ with -fsanitize=thread: every load and store of a kernel calls a function of
// check.cc, which knows the device's allocations and the shared memory of a block. This file is what those sources see
// in place of the CUDA language; everything here is theirs alone.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define __device__
#define __global__
#define __launch_bounds__(...)
// Shared memory lies in its own section: it is filled with NaN before each block, and its accesses are checked for
// races.
#define __shared__ static __attribute__((section("vse_shared")))
#define VSE_INLINE static inline __attribute__((always_inline))
// One place for all kernels: a launch says how much of it there is.
#define DYNAMIC_SHARED(type, name) static type* const name = (type*)emu::dynamic_shared

namespace emu {
extern char dynamic_shared[] __attribute__((aligned(16)));
struct Dim { unsigned x, y, z; };
struct Coordinates { Dim thread, block, block_dim, grid_dim; };
extern Coordinates now; // set before a fiber runs

void barrier(int line);
enum Shuffle { kXor, kMultiply };
uint64_t shuffle(uint32_t mask, uint64_t value, Shuffle kind, int argument);
// mma.sync.m16n8k16 of bfloat16 in a warp (kernels/mma.cuh): c += A B, the products added to c in the order of k.
void mma(float* c, const uint32_t* a, const uint32_t* b);
// mma.sync.m16n8k8 of TF32, likewise, which ignores the lower 13 bits of operands; cvt.rna.tf32.f32, which clears them.
void mma_tf32(float* c, const uint32_t* a, const uint32_t* b);
uint32_t tf32(float x);
// prmt.b32 of select without signs.
inline uint32_t bytes(uint32_t x, uint32_t y, uint32_t select) {
  const uint64_t all = x | (uint64_t)y << 32;
  uint32_t u = 0;
  for (int i = 0; i < 4; i++) u |= (uint32_t)(all >> 8 * (select >> 4 * i & 7) & 255) << 8 * i;
  return u;
}
// What blocks that run at once may do (kernels/grid.cuh).
void add_release(uint32_t* at, uint32_t value);
uint32_t load_acquire(const uint32_t* at);

// A kernel as the fake driver finds it: by name, called with the addresses of its parameters.
struct Kernel { const char* name; void (*call)(void** parameters); int count; const int* sizes; };
void add(const Kernel& kernel);
const Kernel* find(const char* name);

template <class... A, size_t... I>
inline void apply(void (*f)(A...), void** p, std::index_sequence<I...>) { f(*(A*)p[I]...); }

template <auto F> struct Adapter;
template <class... A, void (*F)(A...)> struct Adapter<F> {
  static constexpr int sizes[sizeof...(A) + 1] = {(int)sizeof(A)..., 0};
  static void call(void** p) { apply<A...>(F, p, std::index_sequence_for<A...>{}); }
  static void add(const char* name) { emu::add({name, call, (int)sizeof...(A), sizes}); }
};
}  // namespace emu

#define threadIdx (emu::now.thread)
#define blockIdx (emu::now.block)
#define blockDim (emu::now.block_dim)
#define gridDim (emu::now.grid_dim)
#define __syncthreads() emu::barrier(__LINE__)

VSE_INLINE float __shfl_xor_sync(unsigned mask, float v, int lane) {
  uint32_t u;
  __builtin_memcpy(&u, &v, 4);
  u = (uint32_t)emu::shuffle(mask, u, emu::kXor, lane);
  __builtin_memcpy(&v, &u, 4);
  return v;
}
VSE_INLINE double __shfl_xor_sync(unsigned mask, double v, int lane) {
  uint64_t u;
  __builtin_memcpy(&u, &v, 8);
  u = emu::shuffle(mask, u, emu::kXor, lane);
  __builtin_memcpy(&v, &u, 8);
  return v;
}
