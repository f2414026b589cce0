// The kernels of blockcontexts.cuh with operands in TF32.
#define VSE_THREADS 256
#include "blockcontexts.cuh"

// Cost: read 4*rows*e; write 4*rows*blocks; flop 2*rows*e; flight 32
KERNEL match_prepare_tf32(float* norm, const float* x, int rows, int e, int blocks) {
  prepare_<false>(0, norm, x, rows, e, blocks);
}

// The matches of all words with the images.
// Cost: read 4*rows*images*r+4*rows*e+4*images*r*e+4*rows*blocks; write 8*rows*images*blocks; flop 4*rows*images*e;
// tf32 2*32*ceil(rows/32)*2*gy*4*gx*72*8*ceil(r/8); turns ceil(gx*gy*gz*block*8/resident)*(3+per)
KERNEL match_word_contexts_tf32(float* match, float* context, const float* word_norm, const float* region_norm,
                                const float* words, const float* regions, const float* beta, int rows, int images,
                                int r, int e, int blocks, int per) {
  contexts_<false, TF32>(match, context, words, regions, word_norm, region_norm, words, regions, beta,
                         (i64)images * r, 0, 0, r, rows, images, e, blocks, per);
}

// The matches of all regions with the captions, whose words are 3.5 more where they come to a multiple of 8.
// Cost: read 4*rows*captions*words+4*rows*e+4*captions*words*e+4*rows*blocks; write 8*rows*captions*blocks; flop
// 4*rows*captions*e; tf32 2*32*ceil(rows/32)*2*gy*4*gx*72*(words+3.5); turns ceil(gx*gy*gz*block*8/resident)*(3+per)
KERNEL match_region_contexts_tf32(float* match, float* context, const float* region_norm, const float* word_norm,
                                  const float* regions, const float* words, const float* alpha, const int* starts,
                                  const i64* squares, int rows, int captions, int r, int e, int blocks, int per) {
  contexts_<true, TF32>(match, context, regions, words, region_norm, word_norm, regions, words, alpha, rows, starts,
                        squares, r, rows, captions, e, blocks, per);
}
