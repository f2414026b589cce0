// The layout of words and nodes of captions one after the other (device.Pairs, device.Segments), and sums over very
// many rows.
#include "pairs.cuh"

// first [C + 1]: the first word of every caption, and their number. Of every word: its caption, and its node. Of every
// node: its caption. Of every caption: its own node. Words up to capacity that no caption has belong to caption -1,
// their nodes lie behind all others. One thread for each caption.
// Cost: read 4*captions; write 20*(captions*words+captions); flop captions*captions; turns captions/2+words
KERNEL pair_layout(int* first, int* word_caption, int* word_node, int* node_caption, int* caption_node,
                   const int* lengths, int captions, int capacity) {
  EACH(i, captions) {
    int c = (int)i, at = 0, n = lengths[c];
    for (int k = 0; k < c; k++) at += lengths[k];
    first[c] = at;
    if (c == captions - 1) {
      first[captions] = at + n;
      for (int j = at + n; j < capacity; j++) {
        word_caption[j] = node_caption[j + captions] = -1;
        word_node[j] = j + captions;
      }
    }
    caption_node[c] = at + c;
    node_caption[at + c] = c;
    for (int j = 0; j < n; j++) {
      word_caption[at + j] = c;
      word_node[at + j] = at + j + c + 1;
      node_caption[at + j + c + 1] = c;
    }
  }
}

enum { kChunk = 512 };  // rows of a chunk (Go: chunkRows)

// part [chunks, cols]: the sums of the chunks of x [rows, cols], weighted by w [rows] where it is not null. A block
// sums 32 columns of one chunk.
// Cost: read 4*rows*cols; write 4*gx*cols; flop 2*rows*cols; turns 64
KERNEL chunk_sums(float* part, const float* x, const float* w, i64 rows, int cols) {
  __shared__ float sums[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, col = blockIdx.y * 32 + lane;
  i64 lo = (i64)blockIdx.x * kChunk, hi = lo + kChunk < rows ? lo + kChunk : rows;
  float s = 0;
  if (col < cols)
    for (i64 r = lo + warp; r < hi; r += 8) s += w ? w[r] * x[r * cols + col] : x[r * cols + col];
  sums[warp][lane] = s;
  __syncthreads();
  if (warp || col >= cols) return;
  for (int k = 1; k < 8; k++) s += sums[k][lane];
  part[(i64)blockIdx.x * cols + col] = s;
}
