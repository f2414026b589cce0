// The kernels of selfheads.cuh with operands in bfloat16.
#include "selfheads.cuh"

// The last blocks are those that clear. words may be null; factor is 1/√(columns of a head); context or copy may be
// null.
KERNEL self_attention_heads(float* context, bf16* copy, const float* query, const float* key, const float* value,
                            const int* words, const int* order, const int* lengths, const int* starts, const int* step,
                            const int* numbers, u32 key0, u32 key1, u32 limit, float keep, float factor, int l, int d,
                            int ld, int rows, int aligned) {
  if (rows && blockIdx.y == gridDim.y - 1)
    return clear(context, copy, d, starts[blockIdx.y], rows, blockIdx.x, d / gridDim.x);
  Head h = head_(order, lengths, starts, d, ld);
  Drop drop = {step, numbers, key0, key1, limit, keep};
  if (words) words += (i64)h.caption * l;
  if (aligned) attend_<BF16, true>(h, context, copy, query, key, value, words, drop, factor, d, ld);
  else attend_<BF16, false>(h, context, copy, query, key, value, words, drop, factor, d, ld);
}

KERNEL self_attention_heads_grad(float* dquery, float* dkey, float* dvalue, bf16* dquery_copy, bf16* dkey_copy,
                                 bf16* dvalue_copy, float* part, const float* dcontext, const float* query,
                                 const float* key, const float* value, const int* words, const int* order,
                                 const int* lengths, const int* starts, const int* step, const int* numbers, u32 key0,
                                 u32 key1, u32 limit, float keep, float factor, int l, int d, int ld, int rows,
                                 int aligned) {
  if (rows && blockIdx.y == gridDim.y - 1) {
    int from = starts[blockIdx.y], size = d / gridDim.x;
    clear(dquery, dquery_copy, ld, from, rows, blockIdx.x, size);
    clear(dkey, dkey_copy, ld, from, rows, blockIdx.x, size);
    return clear(dvalue, dvalue_copy, ld, from, rows, blockIdx.x, size);
  }
  Head h = head_(order, lengths, starts, d, ld);
  Drop drop = {step, numbers, key0, key1, limit, keep};
  if (words) words += (i64)h.caption * l;
  if (aligned)
    attend_grad_<BF16, true>(h, dquery, dkey, dvalue, dquery_copy, dkey_copy, dvalue_copy, part, dcontext, query, key,
                             value, words, drop, factor, d, ld);
  else
    attend_grad_<BF16, false>(h, dquery, dkey, dvalue, dquery_copy, dkey_copy, dvalue_copy, part, dcontext, query, key,
                              value, words, drop, factor, d, ld);
}
