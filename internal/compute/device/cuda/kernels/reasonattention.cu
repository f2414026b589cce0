// The attention within the graphs of a step of reasoning (device.GraphReason): A = softmax(Y Xᵀ), E = A X, and back
//
//   dS = A∘(dE Xᵀ - Σ A∘(dE Xᵀ))    dQ = dS X    dX = Aᵀ dE + dSᵀ Y
//
// The products with M and W are matrix products around these kernels. A block has the graph of a pair, whose nodes are
// neighbouring rows, and takes 32 of them at a time in pieces of 64 columns, which lie in shared memory: first all
// pieces for the weights, then each again for what the weights are multiplied by, which the L2 cache still has. There
// is a query for each node, or with per > 0 one for node 0 of each pair, query b·per + c. Rows of A and dS have
// row_width for the longest caption; a tile of images has fewer than 2³¹ values of each kind. Nodes of no caption are
// graphs of their own, which one block of an image walks through: there A is 1 and dS 0. What is an operand of products
// alone is written as bfloat16, to the place that is not null of the two there are; what is more than that too, to a
// copy. fours says that all rows are read by fours.
#define VSE_THREADS 128  // (Go: attentionThreads)
#define VSE_BLOCKS 4
#include "pairs.cuh"
#include "vector.cuh"

enum { kTile = 32, kPiece = 64 };  // nodes, columns

// Rows of a tile, of which four neighbouring values of eight lie in different banks.
typedef float Piece[kTile][kPiece + 4];
// Weights of a tile, by what is summed over, so that a warp reads those of its eight rows together.
typedef float Tile[kTile][kTile + 4];

namespace {  // of every block
__shared__ __attribute__((aligned(16))) Piece queries, keys, slopes;
__shared__ __attribute__((aligned(16))) Tile weights, gradients, weights_back, gradients_back;
}  // namespace

// Four values from column k on of a row of s; 0 behind the row.
VSE_INLINE Four some_(const float* x, int k, int s, int fours) {
  Four v = {0, 0, 0, 0};
  if (fours) return k < s ? four(x + k) : v;
  UNROLL for (int j = 0; j < 4; j++) v[j] = k + j < s ? x[k + j] : 0;
  return v;
}

// A piece from column k on of n rows of x; 0 where there are none.
VSE_INLINE void load_(Piece to, const float* x, int n, int k, int s, int fours) {
  int row = threadIdx.x / 16, column = threadIdx.x % 16 * 4;
  Four v[4], none = {0, 0, 0, 0};
  x += row * s;
  UNROLL for (int i = 0; i < 4; i++, x += 8 * s)
    v[i] = row + 8 * i < n ? some_(x, k + column, s, fours) : none;
  UNROLL for (int i = 0; i < 4; i++) put_four(to[row + 8 * i] + column, v[i]);
}

// What a lane has of the weights of a tile: those of four rows for two nodes, 16 from each other. The 16 lanes that
// have the same rows reduce over all nodes.
typedef float Values[4][2];
VSE_INLINE int row_() { return threadIdx.x / 16 * 4; }
VSE_INLINE int node_() { return threadIdx.x & 15; }

VSE_INLINE float most_of_16(float v) {
  for (int d = 8; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(0xffffffffu, v, d);
    if (o > v || o != o) v = o;
  }
  return v;
}

VSE_INLINE float sum_of_16(float v) {
  for (int d = 8; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// c += the products of the rows of a with the n keys, in a piece.
VSE_INLINE void dots_(Values c, const Piece a, int n) {
  const float *w = a[row_()], *x = keys[node_()];
  for (int k = 0; k < kPiece; k += 4) {
    Four p = four(x + k), q = four(x + 16 * (kPiece + 4) + k);
    UNROLL for (int i = 0; i < 4; i++) {
      Four v = four(w + i * (kPiece + 4) + k);
      UNROLL for (int j = 0; j < 4; j++) c[i][0] += v[j] * p[j];
      if (n > 16) UNROLL for (int j = 0; j < 4; j++) c[i][1] += v[j] * q[j];
    }
  }
}

// Values to memory, where the rows of their tile begin.
VSE_INLINE void put_(float* to, const Values c, int rows, int n, int width) {
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 2; j++)
      if (row_() + i < rows && node_() + 16 * j < n) to[(row_() + i) * width + node_() + 16 * j] = c[i][j];
}

// Values to tiles, turned by nodes and natural by rows.
VSE_INLINE void put_tiles(Tile turned, Tile natural, const Values c) {
  UNROLL for (int j = 0; j < 2; j++) {
    Four v = {c[0][j], c[1][j], c[2][j], c[3][j]};
    put_four(turned[node_() + 16 * j] + row_(), v);
    UNROLL for (int i = 0; i < 4; i++) natural[row_() + i][node_() + 16 * j] = c[i][j];
  }
}

// The weights of n nodes from their logits, c, and with back, in the place of d, the gradient of the logits from that
// of the weights.
VSE_INLINE void softmax_values(Values c, Values d, int n, bool back) {
  UNROLL for (int i = 0; i < 4; i++) {
    bool low = node_() < n, high = node_() + 16 < n;
    float one = low ? c[i][0] : -3.0e38f, next = high ? c[i][1] : -3.0e38f;
    float most = most_of_16(one > next || one != one ? one : next);
    one = low ? exp_(one - most) : 0, next = high ? exp_(next - most) : 0;
    float f = 1.0f / sum_of_16(one + next);
    c[i][0] = one * f, c[i][1] = next * f;
    if (!back) continue;
    float mean = sum_of_16((low ? c[i][0] * d[i][0] : 0) + (high ? c[i][1] * d[i][1] : 0));
    UNROLL for (int j = 0; j < 2; j++) d[i][j] = c[i][j] * (d[i][j] - mean);
  }
}

// The same for rows in memory, by a warp each.
VSE_INLINE void softmax_rows(float* a, float* ds, int rows, int n, int width, bool back) {
  for (int r = threadIdx.x / 32; r < rows; r += VSE_THREADS / 32) {
    float *to = a + r * width, *d = ds + r * width, most = -3.0e38f, sum = 0, mean = 0;
    LANES(k, n) if (to[k] > most || to[k] != to[k]) most = to[k];
    most = warp_max(most);
    LANES(k, n) sum += to[k] = exp_(to[k] - most);
    sum = 1.0f / warp_sum(sum);
    LANES(k, n) to[k] *= sum;
    if (!back) continue;
    LANES(k, n) mean += to[k] * d[k];
    mean = warp_sum(mean);
    LANES(k, n) d[k] = to[k] * (d[k] - mean);
  }
}

// The weights of up to kTile queries y for the n nodes x and, with back, the gradient of their logits from de, that of
// what they are multiplied by: of a graph of one tile to the tiles, and with store or of others to a and ds.
VSE_INLINE void weights_(float* a, float* ds, const float* y, const float* x, const float* de, int rows, int n,
                         int width, int s, int fours, bool store, bool back) {
  for (int at = 0; at < n; at += kTile) {
    int some = n - at < kTile ? n - at : kTile;
    Values c, d;
    UNROLL for (int i = 0; i < 4; i++) c[i][0] = c[i][1] = d[i][0] = d[i][1] = 0;
    for (int k = 0; k < s; k += kPiece) {
      __syncthreads();  // what was there before has been read
      load_(queries, y, rows, k, s, fours);
      load_(keys, x + at * s, some, k, s, fours);
      if (back) load_(slopes, de, rows, k, s, fours);
      __syncthreads();
      if ((int)threadIdx.x / 32 * 8 >= rows) continue;
      dots_(c, queries, some);
      if (back) dots_(d, slopes, some);
    }
    if (n <= kTile) {
      softmax_values(c, d, n, back);
      put_tiles(weights, weights_back, c);
      if (back) put_tiles(gradients, gradients_back, d);
      if (!store) return;
    }
    put_(a + at, c, rows, some, width);
    if (back) put_(ds + at, d, rows, some, width);
  }
  if (n <= kTile) return;
  __syncthreads();
  softmax_rows(a, ds, rows, n, width, back);
}

// The weights of n rows and m columns in memory, or with turned their transpose, as a tile.
VSE_INLINE void tile_(Tile to, const float* a, int n, int m, int width, bool turned) {
  int lane = threadIdx.x & 31;
  for (int row = threadIdx.x / 32; row < kTile; row += VSE_THREADS / 32) {
    float v = row < n && lane < m ? a[row * width + lane] : 0;
    if (turned) to[lane][row] = v;
    else to[row][lane] = v;
  }
}

// What a lane has of a piece of the results: eight rows of the warp, two columns, 32 from each other.
typedef float Sums[8][2];

VSE_INLINE void clear_(Sums e) {
  UNROLL for (int i = 0; i < 8; i++) e[i][0] = e[i][1] = 0;
}

// e += w x, a sum over n rows of x.
VSE_INLINE void mix_(Sums e, const Tile w, const Piece x, int n) {
  int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 8;
  for (int k = 0; k < n; k++) {
    float low = x[k][lane], high = x[k][32 + lane];
    UNROLL for (int j = 0; j < 8; j += 4) {
      Four v = four(w[k] + row + j);
      UNROLL for (int i = 0; i < 4; i++) e[j + i][0] += v[i] * low, e[j + i][1] += v[i] * high;
    }
  }
}

// Columns from k on of e to to and to half, of which either may be null, where its rows begin at `at`.
VSE_INLINE void write_(float* to, bf16* half, const Sums e, int at, int rows, int k, int s) {
  int row = threadIdx.x / 32 * 8, column = k + (threadIdx.x & 31);
  at += row * s + column;
  UNROLL for (int i = 0; i < 8; i++, at += s) {
    if (row + i >= rows) break;
    UNROLL for (int j = 0; j < 2; j++) {
      if (column + 32 * j >= s) continue;
      if (to) to[at + 32 * j] = e[i][j];
      if (half) half[at + 32 * j] = bf16_of(e[i][j]);
    }
  }
}

// The nodes of an image that are of no caption.
struct Alone { i64 first, n; };
VSE_INLINE Alone alone_(const int* first, i64 image, int captions, int nodes) {
  Alone a;
  a.first = image * nodes + first[captions] + captions, a.n = nodes - first[captions] - captions;
  return a;
}

VSE_INLINE int upto(int n) { return n < kTile ? n : kTile; }

// e = A X and, with per, a = A; e or half may be null.
KERNEL reason_attend(float* e, bf16* half, float* a, const float* y, const float* x, const int* first, int captions,
                     int nodes, int per, int row_width, int s, int fours) {
  int graphs = captions + !per, c = (int)(blockIdx.x % graphs);
  i64 image = blockIdx.x / graphs;
  if (c == captions) {
    Alone of = alone_(first, image, captions, nodes);
    for (i64 i = of.first * s + threadIdx.x; i < (of.first + of.n) * s; i += blockDim.x) {
      if (e) e[i] = x[i];
      if (half) half[i] = bf16_of(x[i]);
    }
    return;
  }
  Graph g = graph_(first, image, c, nodes);
  i64 from = per ? image * per + c : g.base;
  int asked = per ? 1 : g.n;
  int at_y = (int)from * s;
  x += g.base * s, y += at_y, a += from * row_width;
  for (int r = 0; r < asked; r += kTile) {
    int rows = upto(asked - r);
    weights_(a + r * row_width, 0, y + r * s, x, 0, rows, g.n, row_width, s, fours, per, false);
    for (int k = 0; k < s; k += kPiece) {
      Sums sum;
      clear_(sum);
      for (int at = 0; at < g.n; at += kTile) {
        __syncthreads();
        if (g.n > kTile) tile_(weights, a + r * row_width + at, rows, upto(g.n - at), row_width, true);
        load_(keys, x + at * s, upto(g.n - at), k, s, fours);
        __syncthreads();
        if ((int)threadIdx.x / 32 * 8 < rows) mix_(sum, weights, keys, upto(g.n - at));
      }
      write_(e, half, sum, at_y + r * s, rows, k, s);
    }
  }
}

// e = A X, dy = dS X and, without per, dx = Aᵀ dE + dSᵀ Y; with per a = A and ds = dS. copy is dy rounded, half e; both
// are null or none.
KERNEL reason_attend_grad(float* e, bf16* half, float* dy, bf16* copy, float* dx, float* a, float* ds,
                          const float* y, const float* x, const float* de, const int* first, int captions, int nodes,
                          int per, int row_width, int s, int fours) {
  int graphs = captions + !per, c = (int)(blockIdx.x % graphs);
  i64 image = blockIdx.x / graphs;
  if (c == captions) {
    Alone of = alone_(first, image, captions, nodes);
    for (i64 i = of.first * s + threadIdx.x; i < (of.first + of.n) * s; i += blockDim.x) {
      if (half) half[i] = bf16_of(x[i]), copy[i] = 0;
      else e[i] = x[i];
      dy[i] = 0;
      dx[i] = de[i];
    }
    return;
  }
  Graph g = graph_(first, image, c, nodes);
  i64 from = per ? image * per + c : g.base;
  int asked = per ? 1 : g.n;
  int at_x = (int)g.base * s, at_y = (int)from * s, at_a = (int)from * row_width;
  for (int r = 0; r < asked; r += kTile)
    weights_(a + at_a + r * row_width, ds + at_a + r * row_width, y + at_y + r * s, x + at_x, de + at_y + r * s,
             upto(asked - r), g.n, row_width, s, fours, per, true);
  for (int r = 0; r < asked; r += kTile) {
    int rows = upto(asked - r), here = (int)threadIdx.x / 32 * 8 < rows, to = at_y + r * s;
    for (int k = 0; k < s; k += kPiece) {
      Sums sum, of;
      clear_(sum), clear_(of);
      for (int at = 0; at < g.n; at += kTile) {
        __syncthreads();
        if (g.n > kTile) {
          tile_(weights, a + at_a + r * row_width + at, rows, upto(g.n - at), row_width, true);
          tile_(gradients, ds + at_a + r * row_width + at, rows, upto(g.n - at), row_width, true);
        }
        load_(keys, x + at_x + at * s, upto(g.n - at), k, s, fours);
        __syncthreads();
        if (!here) continue;
        mix_(sum, weights, keys, upto(g.n - at));
        mix_(of, gradients, keys, upto(g.n - at));
      }
      write_(e, half, sum, to, rows, k, s);
      write_(dy, copy, of, to, rows, k, s);
      if (per) continue;
      clear_(sum);
      for (int at = 0; at < g.n; at += kTile) {
        __syncthreads();
        if (g.n > kTile) {
          tile_(weights_back, a + at_a + at * row_width + r, upto(g.n - at), rows, row_width, false);
          tile_(gradients_back, ds + at_a + at * row_width + r, upto(g.n - at), rows, row_width, false);
        }
        load_(queries, y + at_y + at * s, upto(g.n - at), k, s, fours);
        load_(slopes, de + at_y + at * s, upto(g.n - at), k, s, fours);
        __syncthreads();
        if (!here) continue;
        mix_(sum, weights_back, slopes, upto(g.n - at));
        mix_(sum, gradients_back, queries, upto(g.n - at));
      }
      write_(dx, 0, sum, to, rows, k, s);
    }
  }
}
