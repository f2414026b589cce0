// The embeddings of BERT (device.Embed): out[row] = word + position + type 0, and the gradient of the positions.
// For the gradient of the words see sum_words. Rows without a caption are 0. blockIdx.y counts pieces of 256 columns.
#include "common.cuh"

KERNEL embed(float* out, const float* word, const float* position, const float* kind, const int* rows, const int* of,
             const int* starts, int d) {
  int p = blockIdx.x, c = of[p], k = blockIdx.y * blockDim.x + threadIdx.x;
  if (k >= d) return;
  if (c < 0) {
    out[(i64)p * d + k] = 0;
    return;
  }
  int t = p - starts[c];
  out[(i64)p * d + k] = word[(i64)rows[p] * d + k] + position[(i64)t * d + k] + kind[k];
}

// table[t] = Σ dout of word t of every caption, the captions in turn; 0 where no caption is so long.
KERNEL embed_positions(float* table, const float* dout, const int* lengths, const int* starts, int captions, int d) {
  int t = blockIdx.x, k = blockIdx.y * blockDim.x + threadIdx.x;
  if (k >= d) return;
  float s = 0;
  for (int c = 0; c < captions; c++)
    if (t < lengths[c]) s += dout[((i64)starts[c] + t) * d + k];
  table[(i64)t * d + k] = s;
}
