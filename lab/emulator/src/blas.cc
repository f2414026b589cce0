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
// settings: that many handles are refused; products of bfloat16 are; those that add a bias in the same kernel are
long emu_no_blas, emu_no_half, emu_no_bias;

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

// gemm adds the terms of each element in their order, the terms of 8 rows at a time as one vector of the host.
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
Status cublasGetVersion_v2(void*, int* v) { *v = 130102; return kSuccess; }
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

// cublasLt: products that add a bias to every column of the result, which is a row of a row-major one.
namespace {
struct Layout { int kind; uint64_t rows, columns; int64_t ld; };
struct Operation { int compute, scale, transposed[2] = {0, 0}, epilogue = 1; const float* bias = nullptr; };
struct Preference { uint64_t workspace = 0; uint32_t alignments[4] = {256, 256, 256, 256}; };
struct Found { uint64_t algorithm[8], workspace; int state; float waves; int reserved[4]; };
const uint64_t kFound = 0x1c0b1a5;

template <class T> Status put(T* to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return kInvalidValue;
  return memcpy(to, from, bytes), kSuccess;
}
}  // namespace

extern "C" {
Status cublasLtCreate(void** h) { return *h = new int, kSuccess; }
Status cublasLtDestroy(void* h) { return delete (int*)h, kSuccess; }
Status cublasLtMatmulDescCreate(Operation** o, int compute, int scale) {
  return *o = new Operation{compute, scale}, kSuccess;
}
Status cublasLtMatmulDescDestroy(Operation* o) { return delete o, kSuccess; }
Status cublasLtMatmulDescSetAttribute(Operation* o, int attribute, const void* value, size_t bytes) {
  return attribute == 3 || attribute == 4 ? put(&o->transposed[attribute - 3], value, bytes)
         : attribute == 7                 ? put(&o->epilogue, value, bytes)
         : attribute == 8                 ? put(&o->bias, value, bytes)
                                          : kInvalidValue;
}
Status cublasLtMatrixLayoutCreate(Layout** l, int kind, uint64_t rows, uint64_t columns, int64_t ld) {
  return *l = new Layout{kind, rows, columns, ld}, kSuccess;
}
Status cublasLtMatrixLayoutDestroy(Layout* l) { return delete l, kSuccess; }
Status cublasLtMatmulPreferenceCreate(Preference** p) { return *p = new Preference, kSuccess; }
Status cublasLtMatmulPreferenceDestroy(Preference* p) { return delete p, kSuccess; }
Status cublasLtMatmulPreferenceSetAttribute(Preference* p, int attribute, const void* value, size_t bytes) {
  return attribute == 1                     ? put(&p->workspace, value, bytes)
         : attribute >= 5 && attribute <= 8 ? put(&p->alignments[attribute - 5], value, bytes)
                                            : kInvalidValue;
}
Status cublasLtMatmulAlgoGetHeuristic(void*, Operation*, Layout*, Layout*, Layout*, Layout*, Preference* p, int,
                                      Found* found, int* count) {
  if (emu_no_bias == 1) return *count = 0, kNotSupported;
  *found = {{kFound, p->alignments[0], p->alignments[1], p->alignments[2], p->alignments[3]}, p->workspace / 2, 0};
  return *count = 1, kSuccess;
}
Status cublasLtMatmul(void*, Operation* o, const float* alpha, const void* A, Layout* la, const void* B, Layout* lb,
                      const float* beta, const void* C, Layout* lc, void* D, Layout* ld, const Found* algorithm,
                      void* workspace, size_t bytes, void* stream) {
  // What real kernels fail at without saying so before: stricter than they are.
  if (emu_no_bias == 2 || (uint64_t)o->bias % 16 || lc->rows == 1 || (o->transposed[0] ? la->rows : la->columns) == 1)
    return 13;
  Handle h{stream, true};
  const uint64_t at[4] = {(uint64_t)A, (uint64_t)B, (uint64_t)C, (uint64_t)D};
  if (algorithm->algorithm[0] != kFound || o->epilogue != 4 || o->scale != kSingle || C != D || lc != ld ||
      bytes != algorithm->workspace || (bytes && !emu::inside((uint64_t)workspace, bytes)))
    return kInvalidValue;
  for (int i = 0; i < 4; i++)
    if (at[i] % algorithm->algorithm[1 + i]) return kInvalidValue;
  int ta = o->transposed[0], tb = o->transposed[1], m = (int)lc->rows, n = (int)lc->columns,
      k = (int)(ta ? la->rows : la->columns);
  if ((ta ? la->columns : la->rows) != lc->rows || (tb ? lb->rows : lb->columns) != lc->columns ||
      (int)(tb ? lb->columns : lb->rows) != k || (uint64_t)o->bias % 4 ||
      !emu::inside((uint64_t)o->bias, 4 * (uint64_t)m))
    return kInvalidValue;
  Status s = cublasGemmStridedBatchedEx(&h, ta, tb, m, n, k, alpha, A, la->kind, (int)la->ld, 0, B, lb->kind,
                                        (int)lb->ld, 0, beta, D, ld->kind, (int)ld->ld, 0, 1, o->compute, -1);
  if (s) return s;
  float* c = (float*)D;
  const float* bias = o->bias;
  int64_t step = ld->ld;
  emu_enqueue(stream, [=] {
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) c[j * step + i] += bias[i];
  });
  return kSuccess;
}
}
