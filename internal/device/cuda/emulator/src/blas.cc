// The part of cuBLAS that vsetrain calls: products in column-major order through the emulated driver's streams.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "run.h"

typedef int Status;
enum { kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15 };
enum { kSingle = 0, kHalf = 14 };  // cudaDataType: float32, bfloat16
enum { kFloat32 = 68, kFast16F = 74, kFast16BF = 75, kFastTF32 = 77 };
struct Handle { void* stream = nullptr; bool lent = false; };  // lent: has memory of the caller's
void emu_enqueue(void* stream, std::function<void()> work);
bool emu_ready(), emu_records(void* stream);
long emu_no_blas, emu_no_half;  // settings: so many handles are refused; products of bfloat16 are

// rounded is an operand as the tensor cores take it: 7 bits of mantissa for bf16, 10 for TF32.
static float rounded(float x, int compute) {
  uint32_t u;
  memcpy(&u, &x, 4);
  int drop = compute == kFast16BF ? 16 : compute == kFastTF32 ? 13 : 0;
  if (drop) u = (u + ((1u << (drop - 1)) - 1) + (u >> drop & 1)) & ~((1u << drop) - 1);
  memcpy(&x, &u, 4);
  return x;
}

// Matrix is an operand or the result: one of the two kinds of numbers.
struct Matrix {
  const void* p;
  int kind;
  size_t size() const { return kind == kHalf ? 2 : 4; }
  float get(int64_t i) const {
    if (kind == kSingle) return ((const float*)p)[i];
    uint32_t u = (uint32_t)((const uint16_t*)p)[i] << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
  }
  void set(int64_t i, float x) {
    if (kind == kSingle) {
      ((float*)p)[i] = x;
      return;
    }
    uint32_t u;
    x = x != x ? x : rounded(x, kFast16BF);
    memcpy(&u, &x, 4);
    ((uint16_t*)p)[i] = (uint16_t)(u >> 16 | (x != x ? 0x40 : 0));
  }
};

// gemm adds the terms of each element in their order, those of 8 rows at a time as one vector of the host.
static void gemm(bool ta, bool tb, int m, int n, int k, float alpha, Matrix a, int64_t a0, int64_t lda, Matrix b,
                 int64_t b0, int64_t ldb, float beta, Matrix c, int64_t c0, int64_t ldc, int compute) {
  typedef float Rows __attribute__((vector_size(32)));
  const int groups = (m + 7) / 8;
  std::vector<Rows> left((size_t)groups * k, Rows{}), sums(groups);
  for (int p = 0; p < k; p++)
    for (int i = 0; i < m; i++)
      left[(size_t)p * groups + i / 8][i % 8] = rounded(a.get(a0 + (ta ? i * lda + p : p * lda + i)), compute);
  for (int j = 0; j < n; j++) {
    std::fill(sums.begin(), sums.end(), Rows{});
    for (int p = 0; p < k; p++) {
      const float right = rounded(b.get(b0 + (tb ? p * ldb + j : j * ldb + p)), compute);
      const Rows* row = &left[(size_t)p * groups];
      for (int g = 0; g < groups; g++) sums[g] += row[g] * right;
    }
    for (int i = 0; i < m; i++) {
      int64_t at = c0 + j * ldc + i;
      float s = sums[i / 8][i % 8];
      c.set(at, beta == 0 ? alpha * s : alpha * s + beta * c.get(at));
    }
  }
}

extern "C" {
Status cublasCreate_v2(void** h) {
  return emu_no_blas > 0 && emu_no_blas-- ? kNotInitialized
         : emu_ready()                    ? (*h = new Handle, kSuccess)
                                          : kNotInitialized;
}
Status cublasDestroy_v2(void* h) { delete (Handle*)h; return kSuccess; }
Status cublasSetStream_v2(void* h, void* stream) { *(Handle*)h = {stream}; return kSuccess; }
// Setting the stream takes the workspace back, as in cuBLAS.
Status cublasSetWorkspace_v2(void* h, void* p, size_t bytes) {
  if ((uint64_t)p % 256 || !emu::inside((uint64_t)p, bytes)) return kInvalidValue;
  return ((Handle*)h)->lent = true, kSuccess;
}
Status cublasGetVersion_v2(void*, int* v) { *v = 130000; return kSuccess; }
Status cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* A,
                                  int at, int lda, long long sa, const void* B, int bt, int ldb, long long sb,
                                  const void* beta, void* C, int ct, int ldc, long long sc, int count, int compute,
                                  int) {
  if (!emu_ready()) return kNotInitialized;
  if (m < 0 || n < 0 || k < 0 || count < 0 || sa < 0 || sb < 0 || sc < 0 || lda < (ta ? k : m) || ldb < (tb ? n : k) ||
      ldc < m || lda < 1 || ldb < 1)
    return kInvalidValue;
  // The combinations of types that the reference of cublasGemmStridedBatchedEx lists for these kinds of compute.
  bool single = at == kSingle && bt == kSingle && ct == kSingle,
       half = at == kHalf && bt == kHalf && (ct == kSingle || ct == kHalf);
  if (!(single && (compute == kFloat32 || compute == kFast16BF || compute == kFastTF32)) &&
      !(half && compute == kFloat32))
    return kNotSupported;
  if (emu_no_half && (half || compute == kFast16BF)) return kNotSupported;
  Matrix a{A, at}, b{B, bt}, c{C, ct};
  if ((uint64_t)A % a.size() || (uint64_t)B % b.size() || (uint64_t)C % c.size()) return kInvalidValue;
  size_t as = (size_t)(ta ? m : k), bs = (size_t)(tb ? k : n);
  auto reaches = [&](const Matrix& x, size_t columns, int rows, int ld, long long stride) {
    for (long long i = 0; i < count; i++)
      if (columns && rows &&
          !emu::inside((uint64_t)x.p + x.size() * stride * i, x.size() * ((columns - 1) * ld + rows)))
        return false;
    return true;
  };
  if (!reaches(a, as, ta ? k : m, lda, sa) || !reaches(b, bs, tb ? n : k, ldb, sb) || !reaches(c, n, m, ldc, sc))
    return kInvalidValue;
  if (!((Handle*)h)->lent && emu_records(((Handle*)h)->stream))
    return kNotSupported;  // cuBLAS would allocate: stricter than it is
  float x = *(const float*)alpha, y = *(const float*)beta;
  emu_enqueue(((Handle*)h)->stream, [=] {
    for (long long i = 0; i < count; i++)
      gemm(ta, tb, m, n, k, x, a, i * sa, lda, b, i * sb, ldb, y, c, i * sc, ldc, compute);
  });
  return kSuccess;
}
}
