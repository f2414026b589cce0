// The part of cuBLAS that vsetrain calls: products in column-major order through the emulated driver's streams.
#include <cstdint>
#include <cstring>
#include <functional>

#include "run.h"

typedef int Status;
enum { kSuccess = 0, kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15 };
enum { kFloat32 = 68, kFast16F = 74, kFast16BF = 75, kFastTF32 = 77 };
struct Handle { void* stream = nullptr; bool lent = false; };  // lent: has memory of the caller's
void emu_enqueue(void* stream, std::function<void()> work);
bool emu_ready(), emu_records(void* stream);

// rounded is an operand as the tensor cores take it: 7 bits of mantissa for bf16, 10 for TF32.
static float rounded(float x, int compute) {
  uint32_t u;
  memcpy(&u, &x, 4);
  int drop = compute == kFast16BF ? 16 : compute == kFastTF32 ? 13 : 0;
  if (drop) u = (u + ((1u << (drop - 1)) - 1) + (u >> drop & 1)) & ~((1u << drop) - 1);
  memcpy(&x, &u, 4);
  return x;
}

static void gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc, int compute) {
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      float s = 0;
      for (int p = 0; p < k; p++) s += rounded(ta ? a[i * lda + p] : a[p * lda + i], compute) * rounded(tb ? b[p * ldb + j] : b[j * ldb + p], compute);
      float& out = c[j * ldc + i];
      out = beta == 0 ? alpha * s : alpha * s + beta * out;
    }
}

extern "C" {
Status cublasCreate_v2(void** h) { return emu_ready() ? (*h = new Handle, kSuccess) : kNotInitialized; }
Status cublasDestroy_v2(void* h) { delete (Handle*)h; return kSuccess; }
Status cublasSetStream_v2(void* h, void* stream) { *(Handle*)h = {stream}; return kSuccess; }
// Setting the stream takes the workspace back, as in cuBLAS.
Status cublasSetWorkspace_v2(void* h, void* p, size_t bytes) {
  if ((uint64_t)p % 256 || !emu::inside((uint64_t)p, bytes)) return kInvalidValue;
  return ((Handle*)h)->lent = true, kSuccess;
}
Status cublasGetVersion_v2(void*, int* v) { *v = 130000; return kSuccess; }
Status cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* A, int at, int lda, long long sa, const void* B, int bt, int ldb, long long sb,
                                  const void* beta, void* C, int ct, int ldc, long long sc, int count, int compute, int) {
  if (!emu_ready()) return kNotInitialized;
  if (m < 0 || n < 0 || k < 0 || count < 0 || sa < 0 || sb < 0 || sc < 0 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || lda < 1 || ldb < 1) return kInvalidValue;
  if (at || bt || ct || (compute != kFloat32 && compute != kFast16BF && compute != kFastTF32)) return kNotSupported;
  size_t as = (size_t)(ta ? m : k), bs = (size_t)(tb ? k : n);
  auto reaches = [&](const void* p, size_t columns, int rows, int ld, long long stride) {
    for (long long i = 0; i < count; i++)
      if (columns && rows && !emu::inside((uint64_t)p + 4 * stride * i, 4 * ((columns - 1) * ld + rows))) return false;
    return true;
  };
  if (!reaches(A, as, ta ? k : m, lda, sa) || !reaches(B, bs, tb ? n : k, ldb, sb) || !reaches(C, n, m, ldc, sc)) return kInvalidValue;
  if (!((Handle*)h)->lent && emu_records(((Handle*)h)->stream)) return kNotSupported;  // cuBLAS would allocate: stricter than it is
  float x = *(const float*)alpha, y = *(const float*)beta;
  emu_enqueue(((Handle*)h)->stream, [=] {
    for (long long i = 0; i < count; i++)
      gemm(ta, tb, m, n, k, x, (const float*)A + i * sa, lda, (const float*)B + i * sb, ldb, y, (float*)C + i * sc, ldc, compute);
  });
  return kSuccess;
}
}
