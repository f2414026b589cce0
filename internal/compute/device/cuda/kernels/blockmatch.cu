// Block cosines of nodes and their contexts (device.BlockMatch; the formulas of device/cpu/blockmatch.go), for a
// group of images: columns are its regions. The products A^b of words and regions [blocks, t, columns] and Z^b = β G^b
// [images, t, blocks, r] come from batched products.
#define VSE_BLOCKS 2
#include "blockmatch.cuh"
#include "items.cuh"
#include "warp.cuh"

enum { kRegions = 64, kTogether = 4, kWords = 32 };  // of match_regions (Go: matchRegions)

// What a cosine is made of for the n words of a caption, whose weights lie stride apart: Σ weight·product, the squared
// norm Σ weight·(G weight), and Σ weight·norm. Staged are weights and G in shared memory.
struct Terms { float dot, square, size; };
template <bool staged>
VSE_INLINE Terms terms_(const float* weights, i64 stride, const float* g, const float* products, i64 columns,
                        const float* norms, int blocks, int n) {
  Terms u = {0, 0, 0};
  for (int j0 = 0; j0 < n; j0 += 4) {
    float product[4], norm[4];  // of four words, on their way at a time
    UNROLL for (int q = 0; q < 4; q++) {
      product[q] = j0 + q < n ? products[(j0 + q) * columns] : 0;
      norm[q] = j0 + q < n ? norms[(j0 + q) * blocks] : 0;
    }
    UNROLL for (int q = 0; q < 4; q++) {
      int j = j0 + q;
      if (j < n) {
        float weight = weights[j * stride], s = 0;
        for (int l = 0; l < j; l++) s += weights[l * stride] * g[j * n + l];
        u.dot += weight * product[q];
        u.square += (2 * s + weight * g[j * n + j]) * weight;
        u.size += weight * norm[q];
      }
    }
  }
  return u;
}

// The matches of the regions of a group with caption blockIdx.y. A block takes kRegions regions, and kTogether blocks
// of nodes at a time; weights and Gram matrices of up to kWords words lie in shared memory.
KERNEL match_regions(float* match, float* context, const float* tile, const float* alpha, const float* words,
                     const float* regions, const float* grams, const float* word_norm, const float* region_norm,
                     const int* starts, const i64* squares, int t, int all, int image, int columns, int r, int e,
                     int blocks) {
  __shared__ float weights[kWords][kRegions], gram[kTogether][kWords * kWords];
  int c = blockIdx.y, x = threadIdx.x % kRegions, y = threadIdx.x / kRegions, col = blockIdx.x * kRegions + x;
  bool there = col < columns;
  Item it = item_of(starts, squares, c, 0);
  int i = col / r, k = col - i * r, width = e / blocks, n = it.n, staged = n <= kWords;
  i64 row = (i64)image * r + col, at = (((i64)(image + i) * gridDim.y + c) * r + k) * blocks;
  const float* a = alpha + it.first * all + row;
  if (staged)
    for (int j = y; j < n; j += kTogether) weights[j][x] = there ? a[(i64)j * all] : 0;
  for (int b0 = 0; b0 < blocks; b0 += kTogether) {
    int b = b0 + y;
    __syncthreads();
    if (staged)
      for (int p = threadIdx.x; p < kTogether * n * n; p += 256)
        if (b0 + p / (n * n) < blocks)
          gram[p / (n * n)][p % (n * n)] = grams[blocks * it.square + (i64)(b0 + p / (n * n)) * n * n + p % (n * n)];
    __syncthreads();
    if (!there || b >= blocks) continue;
    const float *g = grams + blocks * it.square + (i64)b * n * n, *norms = word_norm + it.first * blocks + b,
                *products = tile + ((i64)b * t + it.first) * columns + col;
    Terms u = staged ? terms_<true>(&weights[0][x], kRegions, gram[y], products, columns, norms, blocks, n)
                     : terms_<false>(a, all, g, products, columns, norms, blocks, n);
    Cosine v = cosine(u.dot, u.square, u.size, region_norm[row * blocks + b], regions + row * e + b * width,
                      words + it.first * e + b * width, a, all, n, e, width);
    match[at + b] = v.cos;
    context[at + b] = v.norm;
  }
}

// The matches of all words with the images of a group: eight lanes for each block of a word.
KERNEL match_words(float* match, float* context, const float* tile, const float* z, const float* beta,
                   const float* words, const float* regions, const float* word_norm, const float* region_norm, int t,
                   int all, int image, int images, int r, int e, int blocks) {
  i64 count = (i64)images * t * blocks;
  int lane = threadIdx.x % 8, width = e / blocks;
  for (i64 p0 = (i64)blockIdx.x * (blockDim.x / 8); p0 < count; p0 += (i64)gridDim.x * (blockDim.x / 8)) {
    i64 p = p0 + threadIdx.x / 8;
    bool there = p < count;
    i64 q = there ? p / blocks : 0;
    int b = there ? (int)(p - q * blocks) : 0, i = (int)(q / t), w = (int)(q - (i64)i * t);
    const float* weights = beta + (i64)w * all + (i64)(image + i) * r;
    i64 region = (i64)(image + i) * r;
    float dot = 0, square = 0, size = 0;
    for (int k = there ? lane : r; k < r; k += 8) {
      float v = weights[k];
      dot += v * tile[(((i64)b * t + w) * images + i) * r + k];
      square += v * z[(((i64)i * t + w) * blocks + b) * r + k];
      size += v * region_norm[(region + k) * blocks + b];
    }
    dot = eight_sum(dot);
    square = eight_sum(square);
    size = eight_sum(size);
    if (!there || lane) continue;
    Cosine x = cosine(dot, square, size, word_norm[(i64)w * blocks + b], words + (i64)w * e + b * width,
                      regions + region * e + b * width, weights, 1, r, e, width);
    i64 at = ((i64)(image + i) * t + w) * blocks + b;
    match[at] = x.cos;
    context[at] = x.norm;
  }
}
