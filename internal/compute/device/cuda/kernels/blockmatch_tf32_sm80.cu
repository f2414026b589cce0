// The kernels of blockcontexts.cuh with operands in TF32.
#define VSE_THREADS 256
#include "blockcontexts.cuh"

KERNEL match_prepare_tf32(float* norm, const float* x, int rows, int e, int blocks) {
  prepare_<false>(0, norm, x, rows, e, blocks);
}

// The matches of all words with the images.
KERNEL match_word_contexts_tf32(float* match, float* context, const float* word_norm, const float* region_norm,
                                const float* words, const float* regions, const float* beta, int rows, int images,
                                int r, int e, int blocks, int per) {
  contexts_<false, TF32>(match, context, words, regions, word_norm, region_norm, words, regions, beta,
                         (i64)images * r, 0, 0, r, rows, images, e, blocks, per);
}

// The matches of all regions with the captions, whose words are 3.5 more where they come to a multiple of 8.
KERNEL match_region_contexts_tf32(float* match, float* context, const float* region_norm, const float* word_norm,
                                  const float* regions, const float* words, const float* alpha, const int* starts,
                                  const i64* squares, int rows, int captions, int r, int e, int blocks, int per) {
  contexts_<true, TF32>(match, context, regions, words, region_norm, word_norm, regions, words, alpha, rows, starts,
                        squares, r, rows, captions, e, blocks, per);
}
