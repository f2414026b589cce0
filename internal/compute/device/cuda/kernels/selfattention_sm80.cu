// The kernels of selfheads.cuh with operands in bfloat16.
#include "selfheads.cuh"

// words may be null; factor is 1/√(columns of a head); context or copy may be null.
KERNEL self_attention_heads(float* context, bf16* copy, const float* query, const float* key, const float* value,
                            const int* words, const int* lengths, const int* starts, const int* step,
                            const int* numbers, u32 key0, u32 key1, u32 limit, float keep, float factor, int l, int d,
                            int ld, int rows, int aligned) {
  if (clears(rows)) return clear(context, copy, d, starts[blockIdx.x], rows, d / gridDim.y);
  Drop drop = {step, numbers, starts, key0, key1, limit, keep};
  attend_<BF16>(context, copy, query, key, value, words, lengths, starts, drop, factor, l, d, ld, aligned);
}

KERNEL self_attention_heads_grad(float* dquery, float* dkey, float* dvalue, bf16* dquery_copy, bf16* dkey_copy,
                                 bf16* dvalue_copy, float* part, const float* dcontext, const float* query,
                                 const float* key, const float* value, const int* words, const int* lengths,
                                 const int* starts, const int* step, const int* numbers, u32 key0, u32 key1, u32 limit,
                                 float keep, float factor, int l, int d, int ld, int rows, int aligned) {
  if (clears(rows)) {
    int from = starts[blockIdx.x], size = d / gridDim.y;
    clear(dquery, dquery_copy, ld, from, rows, size);
    clear(dkey, dkey_copy, ld, from, rows, size);
    return clear(dvalue, dvalue_copy, ld, from, rows, size);
  }
  Drop drop = {step, numbers, starts, key0, key1, limit, keep};
  attend_grad_<BF16>(dquery, dkey, dvalue, dquery_copy, dkey_copy, dvalue_copy, part, dcontext, query, key, value,
                     words, lengths, starts, drop, factor, l, d, ld, aligned);
}
