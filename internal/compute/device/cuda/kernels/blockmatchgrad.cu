// The gradient of block cosines (device/cpu/blockmatchgrad.go), for a group of images.
#include "items.cuh"
#include "vector.cuh"

enum {
  kTile = 16,
  kDepth = 32,
  kEight = 8,  // blocks of the vectors that a thread of match_pairs_grad works on at once
  kSome = 16   // those of match_gram_grad (Go: gramBlocks)
};

// For n nodes with block norms q, context norms and cosines m: the gradient of the numerator, of the squared norm of
// the context, and what the block is multiplied by in its own gradient. Norm i of an image of per nodes is q[image·step
// + i mod inner].
KERNEL match_slopes(float* dot, float* square, float* pull, const float* dmatch, const float* match,
                    const float* context, const float* q, i64 n, i64 per, i64 inner, i64 step) {
  EACH(i, n) {
    i64 image = i / per;
    float length = q[image * step + (i - image * per) % inner], norm = context[i], d = dmatch[i],
          lengths = length * norm;
    if (lengths >= 1e-8f) {
      float g = d * match[i];
      dot[i] = d / lengths;
      square[i] = -g / (2 * norm * norm);
      pull[i] = -g / (length * length);
    } else {
      dot[i] = d / 1e-8f;
      square[i] = 0;
      pull[i] = 0;
    }
  }
}

// dst [outer, inner] = Σ over the slices of x [outer, slices, inner], in turn; with add on top of what is there.
KERNEL sum_slices(float* dst, const float* x, i64 inner, int slices, i64 count, int add) {
  EACH(i, count) {
    i64 o = i / inner, at = o * slices * inner + (i - o * inner);
    float s = 0;
    for (int k = 0; k < slices; k++) s += x[at + k * inner];
    dst[i] = add ? dst[i] + s : s;
  }
}

// The gradients of both attentions for word blockIdx.x and the regions of a group. A becomes dA^b = α∘dn + β∘dn', Z
// becomes β∘ds': operands of products alone, which go to tile16 and z16 where those are not null. All are zero for a
// word of no caption. A thread makes Σ_l g_l α_l for kEight blocks of the vectors together, so that α is read once for
// them; the Gram matrices of the word are in shared memory.
KERNEL match_pairs_grad(float* dbeta, float* dalpha, float* tile, float* z, bf16* tile16, bf16* z16, const float* alpha,
                        const float* beta, const float* grams, const float* word_dot, const float* word_square,
                        const float* region_dot, const float* region_square, const int* of, const int* starts,
                        const i64* squares, int captions, int all, int image, int columns, int r, int blocks) {
  __shared__ __attribute__((aligned(16))) float tg[kDepth][kEight];
  int w = blockIdx.x, t = gridDim.x, c = of[w], col = blockIdx.y * blockDim.x + threadIdx.x, there = col < columns;
  int i = col / r, k = col - i * r;
  i64 at = (i64)w * all + (i64)image * r + col;
  if (c < 0) {
    if (!there) return;
    dalpha[at] = dbeta[at] = 0;
    for (int b = 0; b < blocks; b++) {
      i64 to = ((i64)b * t + w) * columns + col, tz = (((i64)i * t + w) * blocks + b) * r + k;
      if (tile16) tile16[to] = z16[tz] = 0;
      else tile[to] = z[tz] = 0;
    }
    return;
  }
  Item it = item_of(starts, squares, c, 0);
  int j = (int)(w - it.first), fours = blocks % 4 == 0 && (((u64)region_dot | (u64)region_square) & 15) == 0;
  const float *a = alpha + it.first * all + (i64)image * r + col, *grams_of = grams + blocks * it.square;
  float own = there ? alpha[at] : 0, other = there ? beta[at] : 0, da = 0, db = 0;
  for (int b0 = 0; b0 < blocks; b0 += kEight) {
    float s[kEight];
    UNROLL for (int b = 0; b < kEight; b++) s[b] = 0;
    for (int l0 = 0; l0 < it.n; l0 += kDepth) {
      __syncthreads();
      for (int p = threadIdx.x; p < kDepth * kEight; p += blockDim.x) {
        int l = p % kDepth, b = p / kDepth;
        tg[l][b] = l0 + l < it.n && b0 + b < blocks ? grams_of[((i64)(b0 + b) * it.n + j) * it.n + l0 + l] : 0;
      }
      __syncthreads();
      for (int l = 0; there && l < kDepth && l0 + l < it.n; l++) {
        float v = a[(i64)(l0 + l) * all];
        UNROLL for (int b = 0; b < kEight; b++) s[b] += tg[l][b] * v;
      }
    }
    UNROLL for (int q = 0; q < kEight; q += 4) {
      if (!there || b0 + q >= blocks) break;
      // Neighbouring threads read 64 bytes each.
      i64 x = ((i64)i * t + w) * blocks + b0 + q, y = (((i64)i * captions + c) * r + k) * blocks + b0 + q;
      i64 to = ((i64)(b0 + q) * t + w) * columns + col, tz = x * r + k;
      Four rd = {0, 0, 0, 0}, rs = rd;
      if (fours) rd = four(region_dot + y), rs = four(region_square + y);
      UNROLL for (int e = 0; e < 4; e++, to += (i64)t * columns, tz += r) {
        if (b0 + q + e >= blocks) break;
        if (!fours) rd[e] = region_dot[y + e], rs[e] = region_square[y + e];
        float product = tile[to], wd = word_dot[x + e], ws = word_square[x + e];
        da += rd[e] * product + 2 * rs[e] * s[q + e];
        db += wd * product + 2 * ws * z[tz];
        if (tile16) {
          tile16[to] = bf16_of(own * rd[e] + other * wd);
          z16[tz] = bf16_of(ws * other);
        } else {
          tile[to] = own * rd[e] + other * wd;
          z[tz] = ws * other;
        }
      }
    }
  }
  if (!there) return;
  dalpha[at] = da;
  dbeta[at] = db;
}

// dG^b_jl = Σ ds·α_j·α_l over one of the parts of the regions of a group, for the blocks of every caption: part [parts,
// as grams]. A block makes 16 × 16 sums for kSome blocks of nodes, so that α is read once for them; blockIdx.z says
// which of the sums, and of which part. What part is to be written begins size floats behind the one before.
KERNEL match_gram_grad(float* part, const float* alpha, const float* region_square, const int* starts,
                       const i64* squares, int all, int image, int columns, int r, int blocks, int tiles, int parts,
                       i64 size) {
  __shared__ float ta[kTile][kDepth + 1], tb[kTile][kDepth + 1], ts[kDepth][kSome];
  int c = blockIdx.x, captions = gridDim.x, b0 = blockIdx.y * kSome, square = tiles * tiles;
  Item it = item_of(starts, squares, c, 0);
  int which = blockIdx.z % square, slice = blockIdx.z / square, j0 = which / tiles * kTile, l0 = which % tiles * kTile;
  if (j0 >= it.n || l0 >= it.n) return;
  int y = threadIdx.x / 16, x = threadIdx.x % 16, per = (columns + parts - 1) / parts, lo = slice * per;
  int hi = lo + per < columns ? lo + per : columns;
  const float* a = alpha + it.first * all + (i64)image * r;
  float s[kSome];
  for (int b = 0; b < kSome; b++) s[b] = 0;
  for (int k0 = lo; k0 < hi; k0 += kDepth) {
    __syncthreads();
    for (int p = threadIdx.x; p < kTile * kDepth; p += 256) {
      int row = p / kDepth, k = p % kDepth, col = k0 + k;
      ta[row][k] = j0 + row < it.n && col < hi ? a[(i64)(j0 + row) * all + col] : 0;
      tb[row][k] = l0 + row < it.n && col < hi ? a[(i64)(l0 + row) * all + col] : 0;
      int b = p % kSome, at = k0 + p / kSome, i = at / r;
      ts[p / kSome][b] = at < hi && b0 + b < blocks
                             ? region_square[(((i64)i * captions + c) * r + (at - i * r)) * blocks + b0 + b]
                             : 0;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; k++) {
      float v = ta[y][k] * tb[x][k];
      for (int b = 0; b < kSome; b++) s[b] += ts[k][b] * v;
    }
  }
  if (j0 + y >= it.n || l0 + x >= it.n) return;
  float* to = part + slice * size + blocks * it.square + (j0 + y) * it.n + l0 + x;
  for (int b = 0; b < kSome; b++)
    if (b0 + b < blocks) to[(i64)(b0 + b) * it.n * it.n] = s[b];
}

// out_j += pull_j x_j + 2 Σ_l dG_jl x_l, block by block, for row blockIdx.x of all items (of: the item of a row, null
// for images of n rows). Rows of no item stay as they are.
KERNEL block_pull(float* out, const float* x, const float* pull, const float* dgrams, const int* of, const int* starts,
                  const i64* squares, int n, int e, int blocks) {
  int row = blockIdx.x, k = blockIdx.y * blockDim.x + threadIdx.x, b = k / (e / blocks);
  if (k >= e || (of && of[row] < 0)) return;
  Item it = item_of(starts, squares, of ? of[row] : row / n, n);
  i64 j = row - it.first;
  const float* g = dgrams + blocks * it.square + (of ? (i64)b * it.n + j : j * blocks + b) * it.n;
  float s = 0;
  for (int l = 0; l < it.n; l++) s += g[l] * x[(it.first + l) * e + k];
  out[(i64)row * e + k] += pull[(i64)row * blocks + b] * x[(i64)row * e + k] + 2 * s;
}
