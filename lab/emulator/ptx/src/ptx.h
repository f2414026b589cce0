// What the C++ of a translated kernel calls: registers, memory and arithmetic of PTX on the host.
#pragma once
#include <dlfcn.h>

#include <type_traits>

#include "run.h"

#define OP static inline __attribute__((always_inline))
#define OF(C) template <class T, std::enable_if_t<C<T>::value, int> = 0> OP

namespace ptx {
extern bool fused;  // fma.rn rounds once, as on a GPU; otherwise twice, as the sources do

// Known tells the driver of a kernel.
struct Known {
  Known(const emu::Kernel& k) { emu::add(k); }
};

template <class T, class U> OP T bits(U u) {
  static_assert(sizeof(T) == sizeof(U));
  T t;
  memcpy(&t, &u, sizeof t);
  return t;
}
template <class T> constexpr bool real = std::is_floating_point_v<T>;

// as is a register or a number as an operand of type T: its bits, or the lower ones of a wider integer.
template <class T, class R> OP T as(R r) {
  static_assert(sizeof(T) <= sizeof(R));
  if constexpr (std::is_same_v<T, R>) return r;
  else if constexpr (real<T> || real<R>) return bits<T>(r);
  else return (T)r;
}
// set writes a result to a register: its bits, extended by its sign where the register is wider.
template <class R, class T> OP void set(R& r, T v) {
  static_assert(sizeof(T) <= sizeof(R));
  if constexpr (std::is_same_v<T, R>) r = v;
  else if constexpr (real<T> || real<R>) r = bits<R>(v);
  else r = (R)v;
}
// unwritten is a register that nothing has written.
template <class T> OP T unwritten() {
  T t;
  memset(&t, sizeof t == 1 ? 1 : 0xa5, sizeof t);
  return t;
}
template <class T> OP T parameter(void** P, int i) {
  T t;
  memcpy(&t, P[i], sizeof t);
  return t;
}
OP void at_most(unsigned threads) {
  if (emu::now.block_dim.x > threads) emu::fail("has %u threads, .maxntid allows %u", emu::now.block_dim.x, threads);
}

// Memory: n values of a type at once. line is that in the PTX.
template <class T, int n, bool write> OP T* k_global(uint64_t p, int line) {
  emu::line = line;
  emu::check_device(p, n * sizeof(T), write);
  return (T*)p;
}
template <class T, int n, bool write> OP T* k_shared(uint64_t p, int line) {
  emu::line = line;
  emu::check_shared(p, n * sizeof(T), write);
  return (T*)p;
}

// number is a result: every NaN is the same one.
OP float number(float x) { return x == x ? x : bits<float>(0x7fffffffu); }
OP double number(double x) { return x == x ? x : bits<double>((uint64_t)0x7fffffffffffffffull); }
OF(std::is_integral) T number(T x) { return x; }

template <class T> struct Unsigned { typedef std::make_unsigned_t<T> type; };
template <> struct Unsigned<float> { typedef float type; };
template <> struct Unsigned<double> { typedef double type; };
template <> struct Unsigned<bool> { typedef bool type; };
template <class T> using U = typename Unsigned<T>::type;  // integers wrap around

template <class T> OP T op_add(T a, T b) { return number((T)((U<T>)a + (U<T>)b)); }
template <class T> OP T op_sub(T a, T b) { return number((T)((U<T>)a - (U<T>)b)); }
OF(std::is_floating_point) T op_mul(T a, T b) { return number(a * b); }
OF(std::is_floating_point) T op_add_rn(T a, T b) { return op_add(a, b); }
OF(std::is_floating_point) T op_sub_rn(T a, T b) { return op_sub(a, b); }
OF(std::is_floating_point) T op_mul_rn(T a, T b) { return op_mul(a, b); }
OF(std::is_integral) T op_mul_lo(T a, T b) { return (T)((uint64_t)a * (uint64_t)b); }
OF(std::is_integral) T op_mad_lo(T a, T b, T c) { return (T)((uint64_t)a * (uint64_t)b + (uint64_t)c); }
OP uint32_t op_mul_wide_(uint16_t a, uint16_t b) { return (uint32_t)a * b; }
OP uint64_t op_mul_wide_(uint32_t a, uint32_t b) { return (uint64_t)a * b; }
OP int32_t op_mul_wide_(int16_t a, int16_t b) { return (int32_t)a * b; }
OP int64_t op_mul_wide_(int32_t a, int32_t b) { return (int64_t)a * b; }
OF(std::is_integral) auto op_mul_wide(T a, T b) { return op_mul_wide_(a, b); }
OF(std::is_integral) T op_mul_hi(T a, T b) { return (T)(op_mul_wide_(a, b) >> 8 * sizeof(T)); }
OP float product_sum(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
OP double product_sum(double a, double b, double c) { return __builtin_fma(a, b, c); }
OF(std::is_floating_point) T op_fma_rn(T a, T b, T c) {
  if (fused) return number(product_sum(a, b, c));
  const T p = a * b;
  return number(p + c);
}
OF(std::is_floating_point) T op_div_rn(T a, T b) { return number(a / b); }
OF(std::is_floating_point) T op_rcp_rn(T a) { return number((T)1 / a); }
OP float op_sqrt_(float a) { return __builtin_sqrtf(a); }
OP double op_sqrt_(double a) { return __builtin_sqrt(a); }
OF(std::is_floating_point) T op_sqrt_rn(T a) { return number(op_sqrt_(a)); }
template <class T> OP T op_neg(T a) {
  if constexpr (real<T>) return number(-a);
  else return (T)(0 - (uint64_t)a);
}
// Of a number and no number the number; of two zeros minus zero is the lesser.
template <class T> OP T least(T a, T b, bool most) {
  if constexpr (real<T>) {
    if (a != a) return number(b);
    if (b != b) return a;
    if (a == b) return __builtin_signbit(a) == (most ? 0 : 1) ? a : b;
  }
  return (a < b) != most ? a : b;
}
template <class T> OP T op_min(T a, T b) { return least(a, b, false); }
template <class T> OP T op_max(T a, T b) { return least(a, b, true); }

// Division by zero is no fault on a GPU; what it gives is not defined, so a kernel that does it is wrong.
OF(std::is_integral) T op_div(T a, T b) {
  if (b == 0) emu::fail("divides an integer by zero");
  if (std::is_signed_v<T> && b == (T)-1) return op_neg(a);
  return a / b;
}
OF(std::is_integral) T op_rem(T a, T b) {
  if (b == 0) emu::fail("divides an integer by zero");
  if (std::is_signed_v<T> && b == (T)-1) return 0;
  return a % b;
}
OF(std::is_integral) T op_and(T a, T b) { return (T)(a & b); }
OF(std::is_integral) T op_or(T a, T b) { return (T)(a | b); }
OF(std::is_integral) T op_xor(T a, T b) { return (T)(a ^ b); }
OF(std::is_integral) T op_not(T a) {
  if constexpr (std::is_same_v<T, bool>) return !a;
  else return (T)~a;
}
OF(std::is_integral) T op_shl(T a, uint32_t n) { return n >= 8 * sizeof(T) ? 0 : (T)((U<T>)a << n); }
OF(std::is_integral) T op_shr(T a, uint32_t n) { return n >= 8 * sizeof(T) ? (T)(a < 0 ? -1 : 0) : (T)(a >> n); }
// The field of c bits from bit b on, with its sign where T has one.
OF(std::is_integral) T op_bfe(T a, uint32_t b, uint32_t c) {
  const uint32_t width = 8 * sizeof(T), at = b & 255, length = c & 255;
  if (length == 0) return 0;
  const uint32_t last = at + length - 1 < width - 1 ? at + length - 1 : width - 1;
  const bool negative = std::is_signed_v<T> && ((U<T>)a >> last & 1);
  U<T> d = 0;
  for (uint32_t i = 0; i < width; i++)
    d |= (U<T>)(i < length && at + i < width ? (U<T>)a >> (at + i) & 1 : negative) << i;
  return (T)d;
}
template <class T> OP T op_selp(T a, T b, bool p) { return p ? a : b; }
template <class T> OP T op_mov(T a) { return a; }
template <class T> OP T op_cvta_to_global(T a) { return a; }
template <class T> OP T op_cvta_global(T a) { return a; }

#define COMPARE(NAME, SIGN)                                                               \
  template <class T> OP bool op_setp_##NAME(T a, T b) { return a SIGN b && a == a && b == b; } \
  OF(std::is_floating_point) bool op_setp_##NAME##u(T a, T b) { return a SIGN b || a != a || b != b; }
COMPARE(eq, ==) COMPARE(ne, !=) COMPARE(lt, <) COMPARE(le, <=) COMPARE(gt, >) COMPARE(ge, >=)
OF(std::is_floating_point) bool op_setp_num(T a, T b) { return a == a && b == b; }
OF(std::is_floating_point) bool op_setp_nan(T a, T b) { return a != a || b != b; }

// A number that an integer does not hold becomes the nearest that it does.
template <class T, class F> OP T convert(F x) {
  if constexpr (real<F> && std::is_integral_v<T>) {
    typedef std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> W;
    static_assert(sizeof(T) == 4, "conversion of a number to 32 bits alone");
    if (x != x) return sizeof(F) == 4 ? 0 : (T)((T)1 << 31);
    const double most = std::is_signed_v<T> ? 2147483647.0 : 4294967295.0,
                 low = std::is_signed_v<T> ? -2147483648.0 : 0;
    return x >= most ? (T)(W)most : x <= low ? (T)(W)low : (T)(W)x;
  } else if constexpr (real<T>) {
    return number((T)x);
  } else {
    return (T)x;
  }
}

// Two values rounded to bfloat16, to nearest even; the first becomes the upper half.
OP uint32_t bf16_bits(float x) {
  const uint32_t u = bits<uint32_t>(x);
  return x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
OP uint32_t bf16x2(float high, float low) { return bf16_bits(high) << 16 | bf16_bits(low); }
}  // namespace ptx
