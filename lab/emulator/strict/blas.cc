// cuBLAS and cublasLt. Every matrix is checked against its allocation.
#include <cstring>
#include <set>

#include "strict.h"

typedef Result Status;
enum { kInvalid = 7, kNotSupported = 15 };
enum { kSingle = 0, kHalf = 14, kFloat32 = 68, kFast16BF = 75, kFastTF32 = 77 };

struct Handle { Stream* stream = nullptr; Address space = 0; size_t bytes = 0; };
struct Layout { int kind; uint64_t rows, columns; int64_t ld; };
struct Operation { int compute, scale, transposed[2] = {0, 0}, epilogue = 1; Address bias = 0; };
struct Preference { uint64_t workspace = 0; uint32_t alignments[4] = {256, 256, 256, 256}; };
struct Found { uint64_t algorithm[8], workspace; int state; float waves; int reserved[4]; };

namespace {
Handle* lent;  // cublasLt is given the workspace with every product: it must be the workspace of cuBLAS
std::set<void*> described;  // what cublasLt must be told to forget

// matrix checks count column-major matrices, the first at p.
void matrix(const char* what, Address p, int kind, int64_t rows, int64_t columns, int64_t ld, int64_t stride,
            int64_t count) {
  const int size = kind == kHalf ? 2 : 4;
  if (rows < 1 || columns < 1 || count < 1 || stride < 0 || ld < rows)
    return wrong("%s: %ld matrices of %ld x %ld, leading dimension %ld", what, (long)count, (long)rows, (long)columns,
                 (long)ld);
  if (p % size) wrong("%s: an address that is no multiple of %d", what, size);
  range(what, p, (size_t)((count - 1) * stride + (columns - 1) * ld + rows) * size);
}

// kinds checks the types of a product: those that cuBLAS lists.
bool kinds(int a, int b, int c, int compute) {
  const bool single = a == kSingle && b == kSingle &&
                      (compute == kFloat32 || compute == kFastTF32 || compute == kFast16BF);
  if (c == kSingle && single) return true;
  if ((c == kSingle || c == kHalf) && a == kHalf && b == kHalf && compute == kFloat32) return true;
  wrong("a product of types %d, %d and %d, computed as %d", a, b, c, compute);
  return false;
}

template <class T> Status put(T* to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return wrong("an attribute of %zu bytes, expected %zu", bytes, sizeof(T)), kInvalid;
  return memcpy(to, from, bytes), kOK;
}
template <class T> Status made(T** to, T* made) { return described.insert(*to = made), kOK; }
template <class T> Status forget(T* x) {
  if (!described.erase(x)) return wrong("cublasLt forgets what was never described"), kInvalid;
  return delete x, kOK;
}
}  // namespace

API Status cublasCreate_v2(Handle** h) {
  CALL("cublasCreate");
  return *h = new Handle, kOK;
}
API Status cublasDestroy_v2(Handle* h) {
  CALL("cublasDestroy");
  if (lent == h) lent = nullptr;
  return delete h, kOK;
}
// Setting the stream takes the workspace back.
API Status cublasSetStream_v2(Handle* h, Stream* s) { return *h = {s}, kOK; }
API Status cublasSetWorkspace_v2(Handle* h, Address p, size_t bytes) {
  CALL("cublasSetWorkspace");
  range("cublasSetWorkspace", p, bytes);
  if (p % 256) wrong("cublasSetWorkspace with an address that is no multiple of 256");
  h->space = p, h->bytes = bytes, lent = h;
  return kOK;
}
API Status cublasGetVersion_v2(Handle*, int* v) { return *v = 120903, kOK; }

API Status cublasGemmStridedBatchedEx(Handle* h, int ta, int tb, int m, int n, int k, const float*, Address a, int at,
                                      int lda, int64_t sa, Address b, int bt, int ldb, int64_t sb, const float*,
                                      Address c, int ct, int ldc, int64_t sc, int batch, int compute, int) {
  CALL("cublasGemmStridedBatchedEx");
  if (!kinds(at, bt, ct, compute)) return kNotSupported;
  if (recording && !h->space) wrong("a product in a recording without memory for cuBLAS");
  matrix("a product's A", a, at, ta ? k : m, ta ? m : k, lda, sa, batch);
  matrix("a product's B", b, bt, tb ? n : k, tb ? k : n, ldb, sb, batch);
  matrix("a product's C", c, ct, m, n, ldc, sc, batch);
  if (batch > 1 && sc < 1) wrong("products that share their result");
  return work(h->stream, "a product", {a, b, c, h->space});
}

API Status cublasLtCreate(int** h) { return made(h, new int); }
API Status cublasLtDestroy(int* h) { return forget(h); }
API Status cublasLtMatmulDescCreate(Operation** o, int compute, int scale) {
  return made(o, new Operation{compute, scale});
}
API Status cublasLtMatmulDescDestroy(Operation* o) { return forget(o); }
API Status cublasLtMatmulDescSetAttribute(Operation* o, int attribute, const void* value, size_t bytes) {
  switch (attribute) {
    case 3: case 4: return put(&o->transposed[attribute - 3], value, bytes);
    case 7: return put(&o->epilogue, value, bytes);
    case 8: return put(&o->bias, value, bytes);
  }
  return wrong("attribute %d of a product", attribute), kInvalid;
}
API Status cublasLtMatrixLayoutCreate(Layout** l, int kind, uint64_t rows, uint64_t columns, int64_t ld) {
  return made(l, new Layout{kind, rows, columns, ld});
}
API Status cublasLtMatrixLayoutDestroy(Layout* l) { return forget(l); }
API Status cublasLtMatmulPreferenceCreate(Preference** p) { return made(p, new Preference); }
API Status cublasLtMatmulPreferenceDestroy(Preference* p) { return forget(p); }
API Status cublasLtMatmulPreferenceSetAttribute(Preference* p, int attribute, const void* value, size_t bytes) {
  if (attribute == 1) return put(&p->workspace, value, bytes);
  if (attribute >= 5 && attribute <= 8) return put(&p->alignments[attribute - 5], value, bytes);
  return wrong("attribute %d of a preference", attribute), kInvalid;
}
API Status cublasLtMatmulAlgoGetHeuristic(int*, Operation* o, Layout* a, Layout* b, Layout* c, Layout* d, Preference* p,
                                          int most, Found* found, int* count) {
  CALL("cublasLtMatmulAlgoGetHeuristic");
  const auto inner = o->transposed[0] ? a->rows : a->columns;
  if (c != d || most != 1 || o->scale != kSingle || o->epilogue != 4 || !o->bias ||
      (o->transposed[0] ? a->columns : a->rows) != c->rows || (o->transposed[1] ? b->rows : b->columns) != c->columns ||
      (o->transposed[1] ? b->columns : b->rows) != inner)
    wrong("a product with a bias whose parts do not belong together");
  if (!kinds(a->kind, b->kind, c->kind, o->compute)) return *count = 0, kNotSupported;
  if (!lent || p->workspace > lent->bytes) wrong("a product with a bias and more memory than cuBLAS has");
  *found = {{(uint64_t)o, p->alignments[0], p->alignments[1], p->alignments[2], p->alignments[3]}, p->workspace};
  return *count = 1, kOK;
}
// Real kernels fail where a bias is not a multiple of 16 bytes, or the result a single row or of single products.
API Status cublasLtMatmul(int*, Operation* o, const float*, Address a, Layout* la, Address b, Layout* lb, const float*,
                          Address c, Layout* lc, Address d, Layout* ld, const Found* found, Address space, size_t bytes,
                          Stream* s) {
  CALL("cublasLtMatmul");
  const Address at[] = {a, b, c, d};
  if (found->algorithm[0] != (uint64_t)o || c != d || lc != ld || bytes != found->workspace)
    wrong("a product with a bias by the algorithm of another");
  for (int i = 0; i < 4; i++)
    if (at[i] % found->algorithm[1 + i]) wrong("a product with a bias whose matrices are not aligned as was said");
  if (!lent || s != lent->stream || space != lent->space || bytes > lent->bytes)
    wrong("a product with a bias in other memory than that of cuBLAS, or in another stream");
  if (o->bias % 16 || lc->rows == 1 || (o->transposed[0] ? la->rows : la->columns) == 1)
    wrong("a product with a bias of a size that real kernels fail at");
  matrix("A of a product with a bias", a, la->kind, la->rows, la->columns, la->ld, 0, 1);
  matrix("B of a product with a bias", b, lb->kind, lb->rows, lb->columns, lb->ld, 0, 1);
  matrix("C of a product with a bias", c, lc->kind, lc->rows, lc->columns, lc->ld, 0, 1);
  range("the bias of a product", o->bias, 4 * lc->rows);
  return work(s, "a product with a bias", {a, b, c, o->bias, space});
}
