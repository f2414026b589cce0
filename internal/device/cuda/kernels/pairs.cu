// The layout of words and nodes of captions one after the other (device.Pairs, device.Segments), and sums over very
// many rows.
#include "pairs.cuh"

// first [C + 1]: the first word of every caption, and their number. Of every word: its caption, and its node. Of every
// node: its caption. Of every caption: its own node. Words up to capacity that no caption has belong to caption -1,
// their nodes lie behind all others. A warp for each caption.
// Cost: read 4*captions; write 20*(captions*words+captions); flop captions*captions; turns captions/32+1
KERNEL pair_layout(int* first, int* word_caption, int* word_node, int* node_caption, int* caption_node,
                   const int* lengths, int captions, int capacity) {
  WARPS(i, captions) {
    int c = (int)i, at = 0, n = lengths[c], lane = threadIdx.x & 31;
    LANES(k, c) at += lengths[k];
    at = warp_count(at);
    if (lane == 0) {
      first[c] = at;
      caption_node[c] = at + c;
      node_caption[at + c] = c;
    }
    LANES(j, n) {
      word_caption[at + j] = c;
      word_node[at + j] = at + j + c + 1;
      node_caption[at + j + c + 1] = c;
    }
    if (c < captions - 1) continue;
    if (lane == 0) first[captions] = at + n;
    for (int j = at + n + lane; j < capacity; j += 32) {
      word_caption[j] = node_caption[j + captions] = -1;
      word_node[j] = j + captions;
    }
  }
}

enum { kChunk = 512 };  // rows of a chunk (Go: chunkRows)

// part [chunks, cols]: the sums of the chunks of x [rows, cols], weighted by w [rows] where it is not null. A block
// sums 32 columns of one chunk.
// Cost: read 4*rows*cols; write 4*gx*cols; flop 2*rows*cols; flight 32; turns 8*ceil(gx*gy*block/resident)
KERNEL chunk_sums(float* part, const float* x, const float* w, i64 rows, int cols) {
  __shared__ float sums[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, col = blockIdx.y * 32 + lane;
  i64 lo = (i64)blockIdx.x * kChunk, hi = lo + kChunk < rows ? lo + kChunk : rows;
  float s = 0;
  if (col < cols)
    for (i64 r = lo + warp; r < hi; r += 64) {
      float v[8];  // eight rows are on their way at a time
      for (int k = 0; k < 8; k++) {
        i64 at = r + 8 * k;
        v[k] = at < hi ? x[at * cols + col] : 0;
        if (w && at < hi) v[k] *= w[at];
      }
      for (int k = 0; k < 8; k++) s += v[k];
    }
  sums[warp][lane] = s;
  __syncthreads();
  if (warp || col >= cols) return;
  for (int k = 1; k < 8; k++) s += sums[k][lane];
  part[(i64)blockIdx.x * cols + col] = s;
}
