// The layout of words and nodes of captions one after the other (device/pairs.go, device/segments.go).
#include "pairs.cuh"

// first [C + 1]: the first word of every caption, and their number. Of every word: its caption, and its node. Of every
// node: its caption. Of every caption: its own node. Words up to capacity that no caption has belong to caption -1,
// their nodes lie after all others. A warp for each caption.
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
