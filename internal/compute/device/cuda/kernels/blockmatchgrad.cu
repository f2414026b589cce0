// The gradient of block cosines (device/cpu/blockmatchgrad.go), for a group of images, and the Gram matrices that they
// need too where their contexts are not made on tensor cores.
#define VSE_BLOCKS 3
#include "items.cuh"
#include "vector.cuh"

enum {
  kTile = 16,
  kDepth = 32,
  kFour = 4,     // blocks of the vectors that a thread of match_pairs_grad works on at once
  kSome = 16,    // the blocks of match_gram_grad (Go: gramBlocks)
  kRows = 32,    // of an item, of a block of block_grams and block_pull (Go: itemRows)
  kWidth = 64    // columns of a block of block_pull (Go: pullWidth)
};

// G^b_jl = x_j^b·x_l^b of every item, item after item, and the norms √G_jj [rows, blocks]: [blocks, n, n] of a caption,
// [n, blocks, n] of an image, so that β G is one product for all blocks. A block makes 32 × 32 products, a thread four
// of them; G is symmetric, and what lies above the tiles of the diagonal is made below them.
KERNEL block_grams(float* grams, float* norm, const float* x, const int* starts, const i64* squares, int n, int e,
                   int tiles) {
  __shared__ __attribute__((aligned(16))) float ta[kDepth][kRows + 4];
  __shared__ float tb[kDepth][kRows + 1];
  Item it = item_of(starts, squares, blockIdx.x, n);
  int blocks = gridDim.y, b = blockIdx.y, width = e / blocks, j0 = (int)blockIdx.z / tiles * kRows,
      l0 = (int)blockIdx.z % tiles * kRows;
  if (j0 >= it.n || l0 > j0) return;
  int y = threadIdx.x / kRows * 4, l = l0 + threadIdx.x % kRows;
  float s[4] = {0, 0, 0, 0};
  for (int k0 = 0; k0 < width; k0 += kDepth) {
    __syncthreads();
    UNROLL for (int i = 0; i < kRows * kDepth / 256; i++) {
      int p = i * 256 + threadIdx.x, row = p / kDepth, k = p % kDepth;
      i64 at = it.first * e + b * width + k0 + k;
      ta[k][row] = j0 + row < it.n && k0 + k < width ? x[at + (i64)(j0 + row) * e] : 0;
      tb[k][row] = l0 + row < it.n && k0 + k < width ? x[at + (i64)(l0 + row) * e] : 0;
    }
    __syncthreads();
    int depth = width - k0 < kDepth ? width - k0 : kDepth;
    for (int k = 0; j0 + y < it.n && k < depth; k++) {
      Four v = four(ta[k] + y);
      UNROLL for (int q = 0; q < 4; q++) s[q] += v[q] * tb[k][l - l0];
    }
  }
  if (l >= it.n) return;
  float* to = grams + blocks * it.square;
  UNROLL for (int q = 0; q < 4; q++) {
    int j = j0 + y + q;
    if (j >= it.n) break;
    to[(starts ? (i64)b * it.n + j : (i64)j * blocks + b) * it.n + l] = s[q];
    if (l0 < j0) to[(starts ? (i64)b * it.n + l : (i64)l * blocks + b) * it.n + j] = s[q];
    if (j == l) norm[(it.first + j) * blocks + b] = sqrtf(s[q]);
  }
}

// For n nodes with block norms q, context norms and cosines m: the gradient of the numerator, of the squared norm of
// the context, and what the block is multiplied by in its own gradient. Norm i of an image of per nodes is q[image·step
// + i mod inner].
struct Slopes { float dot, square, pull; };
VSE_INLINE Slopes slopes_(float length, float norm, float match, float d) {
  Slopes s = {d / 1e-8f, 0, 0};
  float lengths = length * norm, g = d * match;
  if (lengths >= 1e-8f) {
    s.dot = d / lengths;
    s.square = -g / (2 * norm * norm);
    s.pull = -g / (length * length);
  }
  return s;
}
KERNEL match_slopes(float* dot, float* square, float* pull, const float* dmatch, const float* match,
                    const float* context, const float* q, i64 n, i64 per, i64 inner, i64 step, int fours) {
  if (!fours) {
    EACH(i, n) {
      i64 image = i / per;
      Slopes s = slopes_(q[image * step + (i - image * per) % inner], context[i], match[i], dmatch[i]);
      dot[i] = s.dot, square[i] = s.square, pull[i] = s.pull;
    }
    return;
  }
  EACH(p, n / 4) {
    u32 i = 4 * (u32)p, image = i / (u32)per;
    Four length = four(q + image * step + (i - image * (u32)per) % (u32)inner), norm = four(context + i),
         m = four(match + i), d = four(dmatch + i), of[3];
    UNROLL for (int e = 0; e < 4; e++) {
      Slopes s = slopes_(length[e], norm[e], m[e], d[e]);
      of[0][e] = s.dot, of[1][e] = s.square, of[2][e] = s.pull;
    }
    put_four(dot + i, of[0]);
    put_four(square + i, of[1]);
    put_four(pull + i, of[2]);
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
// word of no caption. A thread works on kFour blocks of the vectors at once: it reads A and Z of all of them, makes
// Σ_l g_l α_l meanwhile, with the Gram matrices of the word in shared memory, and only then writes A. Z is written when
// all of it is read, as rows of it share sectors: in place, a store soon in front of the read of its neighbours, or
// after a read that is on its way, holds up all accesses.
KERNEL match_pairs_grad(float* dbeta, float* dalpha, float* tile, float* z, bf16* tile16, bf16* z16, const float* alpha,
                        const float* beta, const float* grams, const float* word_dot, const float* word_square,
                        const float* region_dot, const float* region_square, const int* of, const int* starts,
                        const i64* squares, int captions, int all, int image, int columns, int r, int blocks) {
  __shared__ __attribute__((aligned(16))) float tg[kDepth][kFour];
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
  int j = (int)(w - it.first);
  bool fours = blocks % 4 == 0 &&
               (((u64)word_dot | (u64)word_square | (u64)region_dot | (u64)region_square) & 15) == 0;
  const float *a = alpha + it.first * all + (i64)image * r + col, *grams_of = grams + blocks * it.square;
  float own = there ? alpha[at] : 0, other = there ? beta[at] : 0, da = 0, db = 0;
  for (int b0 = 0; b0 < blocks; b0 += kFour) {
    i64 x = ((i64)i * t + w) * blocks + b0, y = (((i64)i * captions + c) * r + k) * blocks + b0;
    i64 to = ((i64)b0 * t + w) * columns + col, tz = x * r + k, next = (i64)t * columns;
    float s[kFour], product[kFour], squared[kFour];
    UNROLL for (int b = 0; b < kFour; b++) {
      bool reads = there && b0 + b < blocks;
      s[b] = 0;
      product[b] = reads ? tile[to + b * next] : 0;
      squared[b] = reads ? z[tz + b * r] : 0;
    }
    for (int l0 = 0; l0 < it.n; l0 += kDepth) {
      __syncthreads();
      for (int p = threadIdx.x; p < kDepth * kFour; p += blockDim.x) {
        int l = p % kDepth, b = p / kDepth;
        tg[l][b] = l0 + l < it.n && b0 + b < blocks ? grams_of[((i64)(b0 + b) * it.n + j) * it.n + l0 + l] : 0;
      }
      __syncthreads();
      int n = it.n - l0 < kDepth ? it.n - l0 : kDepth;
      for (int l = 0; there && l < n; l += 4) {
        float v[4];
        UNROLL for (int q = 0; q < 4; q++) v[q] = l + q < n ? a[(i64)(l0 + l + q) * all] : 0;
        UNROLL for (int q = 0; q < 4; q++) {
          UNROLL for (int b = 0; b < kFour; b++) s[b] += tg[l + q][b] * v[q];
        }
      }
    }
    if (!there) continue;
    Four rd = {0, 0, 0, 0}, rs = rd, wd = rd, ws = rd;
    if (fours) {
      // Neighbouring threads read 64 bytes each of regions.
      rd = four(region_dot + y), rs = four(region_square + y), wd = four(word_dot + x), ws = four(word_square + x);
    } else {
      UNROLL for (int b = 0; b < kFour; b++) {
        if (b0 + b >= blocks) break;
        rd[b] = region_dot[y + b], rs[b] = region_square[y + b], wd[b] = word_dot[x + b], ws[b] = word_square[x + b];
      }
    }
    UNROLL for (int b = 0; b < kFour; b++) {
      da += rd[b] * product[b] + 2 * rs[b] * s[b];
      db += wd[b] * product[b] + 2 * ws[b] * squared[b];
    }
    UNROLL for (int b = 0; b < kFour; b++) {
      if (b0 + b >= blocks) break;
      float dn = own * rd[b] + other * wd[b];
      if (tile16) tile16[to + b * next] = bf16_of(dn);
      else tile[to + b * next] = dn;
    }
  }
  __syncthreads();
  if (!there) return;
  i64 x = ((i64)i * t + w) * blocks;
  for (int b = 0; b < blocks; b++) {
    float ds = word_square[x + b] * other;
    if (z16) z16[(x + b) * r + k] = bf16_of(ds);
    else z[(x + b) * r + k] = ds;
  }
  dalpha[at] = da;
  dbeta[at] = db;
}

// dG^b_jl = Σ ds·α_j·α_l over one of the parts of the regions of a group, for the blocks of every caption: part [parts,
// as grams]. A block makes 16 × 16 sums for kSome blocks of nodes, so that α is read once for them; blockIdx.z says
// which of the sums, and of which part. What part is to be written begins size floats after the one before. dG is
// symmetric: what lies above the diagonal is made below it, in tiles of the diagonal by the first threads.
KERNEL match_gram_grad(float* part, const float* alpha, const float* region_square, const int* starts,
                       const i64* squares, int all, int image, int columns, int r, int blocks, int tiles, int parts,
                       i64 size) {
  __shared__ float ta[kTile][kDepth + 1], tb[kTile][kDepth + 1], ts[kDepth][kSome];
  int c = blockIdx.x, captions = gridDim.x, b0 = blockIdx.y * kSome, square = tiles * tiles;
  Item it = item_of(starts, squares, c, 0);
  int which = blockIdx.z % square, slice = blockIdx.z / square, j0 = which / tiles * kTile, l0 = which % tiles * kTile;
  if (j0 >= it.n || l0 > j0) return;
  int y = threadIdx.x / 16, x = threadIdx.x % 16, per = (columns + parts - 1) / parts, lo = slice * per;
  int hi = lo + per < columns ? lo + per : columns;
  if (l0 == j0) {
    for (y = 0; (y + 1) * (y + 2) / 2 <= (int)threadIdx.x;) y++;
    x = (int)threadIdx.x - y * (y + 1) / 2;
  }
  bool mine = y < kTile && j0 + y < it.n && l0 + x < it.n;
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
    if (!mine) continue;
    _Pragma("unroll 1") for (int k = 0; k < kDepth; k++) {  // more would take registers of a fourth block
      float v = ta[y][k] * tb[x][k];
      UNROLL for (int b = 0; b < kSome; b++) s[b] += ts[k][b] * v;
    }
  }
  if (!mine) return;
  float* to = part + slice * size + blocks * it.square;
  int below = (j0 + y) * it.n + l0 + x, above = (l0 + x) * it.n + j0 + y;
  for (int b = 0; b < kSome; b++) {
    if (b0 + b >= blocks) break;
    to[(i64)(b0 + b) * it.n * it.n + below] = s[b];
    if (above != below) to[(i64)(b0 + b) * it.n * it.n + above] = s[b];
  }
}

// out_j += pull_j x_j + 2 Σ_l dG_jl x_l for kRows rows of an item and kWidth columns of block blockIdx.y of vectors:
// blockIdx.x says which of the tiles of rows of which item. Rows of no item stay as they are. A thread makes eight rows
// of a column.
KERNEL block_pull(float* out, const float* x, const float* pull, const float* dgrams, const int* starts,
                  const i64* squares, int n, int e, int tiles) {
  __shared__ __attribute__((aligned(16))) float tg[kDepth][kRows + 4], tx[kDepth][kWidth];
  Item it = item_of(starts, squares, blockIdx.x / tiles, n);
  int b = blockIdx.y, blocks = gridDim.y, width = e / blocks, j0 = (int)blockIdx.x % tiles * kRows;
  if (j0 >= it.n) return;
  int column = blockIdx.z * kWidth + threadIdx.x % kWidth, there = column < width, y = threadIdx.x / kWidth * 8;
  const float *g = dgrams + blocks * it.square, *from = x + it.first * e + b * width + column;
  float s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int l0 = 0; l0 < it.n; l0 += kDepth) {
    __syncthreads();
    UNROLL for (int i = 0; i < kDepth * kRows / 256; i++) {
      int p = i * 256 + threadIdx.x, l = p % kDepth, j = p / kDepth;
      i64 row = starts ? (i64)b * it.n + j0 + j : (i64)(j0 + j) * blocks + b;
      tg[l][j] = j0 + j < it.n && l0 + l < it.n ? g[row * it.n + l0 + l] : 0;
    }
    UNROLL for (int i = 0; i < kDepth * kWidth / 256; i++) {
      int l = (i * 256 + threadIdx.x) / kWidth;
      tx[l][threadIdx.x % kWidth] = there && l0 + l < it.n ? from[(i64)(l0 + l) * e] : 0;
    }
    __syncthreads();
    int some = it.n - l0 < kDepth ? it.n - l0 : kDepth;
    for (int l = 0; j0 + y < it.n && l < some; l++) {
      float v = tx[l][threadIdx.x % kWidth];
      Four low = four(tg[l] + y), high = four(tg[l] + y + 4);
      UNROLL for (int q = 0; q < 4; q++) s[q] += low[q] * v, s[q + 4] += high[q] * v;
    }
  }
  UNROLL for (int q = 0; q < 8; q++) {
    int j = j0 + y + q;
    if (j >= it.n || !there) break;
    out[(it.first + j) * e + b * width + column] += pull[(it.first + j) * blocks + b] * from[(i64)j * e] + 2 * s[q];
  }
}
