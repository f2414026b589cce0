// The kernels of blockcontexts.cuh with operands in bfloat16.
#define VSE_THREADS 384
#include "blockcontexts.cuh"

KERNEL match_prepare(bf16* half, float* norm, const float* x, int rows, int e, int blocks) {
  prepare_<true>(half, norm, x, rows, e, blocks);
}

// The matches of all words with the images.
KERNEL match_word_contexts(float* match, float* context, const bf16* word16, const bf16* region16,
                           const float* word_norm, const float* region_norm, const float* words, const float* regions,
                           const float* beta, int rows, int images, int r, int e, int blocks, int per) {
  contexts_<false, BF16>(match, context, word16, region16, word_norm, region_norm, words, regions, beta,
                         (i64)images * r, 0, 0, r, rows, images, e, blocks, per);
}

// The matches of all regions with the captions, whose words are 7.5 more where they come to a multiple of 16.
KERNEL match_region_contexts(float* match, float* context, const bf16* region16, const bf16* word16,
                             const float* region_norm, const float* word_norm, const float* regions,
                             const float* words, const float* alpha, const int* starts, const i64* squares, int rows,
                             int captions, int r, int e, int blocks, int per) {
  contexts_<true, BF16>(match, context, region16, word16, region_norm, word_norm, regions, words, alpha, rows, starts,
                        squares, r, rows, captions, e, blocks, per);
}
