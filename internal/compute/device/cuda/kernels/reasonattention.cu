// The attention within the graphs of a step of reasoning (device.GraphReason): A = softmax(Y Xᵀ), E = A X, and back
//
//   dS = A∘(dE Xᵀ - Σ A∘(dE Xᵀ))    dQ = dS X    dX = Aᵀ dE + dSᵀ Y
//
// The products with M and W are matrix products around these kernels. The nodes of the graph of a pair are neighbouring
// rows. Where all of them ask, a block has a graph: its nodes lie in shared memory, and a warp takes four rows of
// queries at a time into registers, each lane eight columns of them. So a value of a node that is read from shared
// memory is multiplied four times, eight times back, and rows that nobody shares go straight between registers and
// memory. Where node 0 alone asks (First), a warp has a graph and reads its nodes once. Rows are worked through in
// pieces of 256 columns, graphs in tiles of 32 nodes; one piece and one tile, as nearly all graphs are, stay in shared
// memory from the weights to what they are multiplied by. The weights of larger graphs lie in memory, in rows of
// row_width, a multiple of four that the longest caption fits into. A tile of images has fewer than 2³¹ values of each
// kind. Nodes of no caption are graphs of their own, which one block of an image walks through: there A is 1 and dS 0.
// What is an operand of products alone is written as bfloat16, to the place that is not null of the two there are; what
// is more than that too, to a copy. fours says that all rows are read and written by fours.
#define VSE_THREADS 128  // (Go: attentionThreads)
#define VSE_BLOCKS 4
#include "pairs.cuh"
#include "vector.cuh"

enum { kNodes = 32, kColumns = 256, kSome = 4, kRound = VSE_THREADS / 32 * kSome };

typedef float Piece[kNodes][kColumns];
typedef float Tile[kNodes][kNodes];

namespace {  // of every block
__shared__ __attribute__((aligned(16))) Piece piece;
__shared__ __attribute__((aligned(16))) Tile weights, slopes;
__shared__ __attribute__((aligned(16))) float part[VSE_THREADS / 32][kColumns];
}  // namespace

// What a lane has of a piece of a row: two times four neighbouring columns, 128 from each other.
typedef Four Row[2];
VSE_INLINE int lane_() { return threadIdx.x & 31; }
// Warps take turns from block to block: the first has most rows, and a scheduler may have that warp of all blocks.
VSE_INLINE int warp_() { return (threadIdx.x / 32 + blockIdx.x) % (VSE_THREADS / 32); }
VSE_INLINE int turn_() { return lane_() / 8; }
VSE_INLINE int column_(int h) { return 128 * h + 4 * lane_(); }
VSE_INLINE int upto(int n) { return n < kNodes ? n : kNodes; }

VSE_INLINE void clear_(Row* v, int n) {
  UNROLL for (int i = 0; i < n; i++) v[i][0] = v[i][1] = (Four){0, 0, 0, 0};
}

// A piece from column k on of the first n of some rows of x; 0 where there are none. v[i] is row i ^ turn.
VSE_INLINE void rows_(Row* v, const float* x, int n, int k, int s, int fours, int turn) {
  clear_(v, kSome);
  if (fours) {
    UNROLL for (int i = 0; i < kSome; i++)
      UNROLL for (int h = 0; h < 2; h++)
        if ((i ^ turn) < n && k + column_(h) < s) v[i][h] = four(x + (i ^ turn) * s + k + column_(h));
    return;
  }
  UNROLL for (int i = 0; i < kSome; i++)
    UNROLL for (int h = 0; h < 2; h++)
      UNROLL for (int j = 0; j < 4; j++)
        if ((i ^ turn) < n && k + column_(h) + j < s) v[i][h][j] = x[(i ^ turn) * s + k + column_(h) + j];
}

// The first n of some rows to to and to half, of which either may be null; they begin at value at, a piece at column k.
VSE_INLINE void write_(float* to, bf16* half, Row* v, int n, int at, int k, int s, int fours) {
  UNROLL for (int i = 0; i < kSome; i++)
    UNROLL for (int h = 0; h < 2; h++) {
      int column = k + column_(h), here = at + i * s + column;
      if (i >= n || column >= s) continue;
      if (fours && to) put_four(to + here, v[i][h]);
      if (fours && half) put_four(half + here, v[i][h]);
      if (fours) continue;
      UNROLL for (int j = 0; j < 4; j++) {
        if (column + j >= s) continue;
        if (to) to[here + j] = v[i][h][j];
        if (half) half[here + j] = bf16_of(v[i][h][j]);
      }
    }
}

// A piece of n rows of x, and of rows of 0 up to a multiple of four, to shared memory.
VSE_INLINE void load_(const float* x, int n, int k, int s, int fours) {
  for (int r = kSome * warp_(); r < n; r += kRound) {
    Row v[kSome];
    rows_(v, x + r * s, n - r, k, s, fours, 0);
    UNROLL for (int i = 0; i < kSome; i++)
      UNROLL for (int h = 0; h < 2; h++) put_four(piece[r + i] + column_(h), v[i][h]);
  }
}

VSE_INLINE float dot_(const Row a, const Row b) {
  float d = 0;
  UNROLL for (int h = 0; h < 2; h++)
    UNROLL for (int j = 0; j < 4; j++) d += a[h][j] * b[h][j];
  return d;
}

// sum += w x
VSE_INLINE void add_(Row sum, float w, const Row x) {
  UNROLL for (int h = 0; h < 2; h++)
    UNROLL for (int j = 0; j < 4; j++) sum[h][j] += w * x[h][j];
}

VSE_INLINE void get_row(Row v, int k) {
  UNROLL for (int h = 0; h < 2; h++) v[h] = four(piece[k] + column_(h));
}

VSE_INLINE float more_(float x, float y) { return y > x || y != y ? y : x; }

// The products of some queries q, and back the products of the rows d, with n nodes in shared memory: to the rows of a
// and ds, or with more to what they have. Four nodes at a time, back two, make sixteen sums over the lanes, of which
// each pair of lanes gets one. Rows lie in turns: the first of v is row t in the eight lanes of turn t, which get the
// sums of that row without a choice between values. With kOne there is room for all rows.
template <bool kBack, bool kOne>
VSE_INLINE void dots_(float* a, float* ds, int width, Row* q, Row* d, int rows, int n, bool more) {
  const int some = kBack ? 2 : 4;
  for (int k = 0; k < n; k += some) {
    float c[4];
    UNROLL for (int j = 0; j < 4; j++) {
      Row x;
      get_row(x, k + j % some);
      float v[kSome];
      UNROLL for (int i = 0; i < kSome; i++) v[i] = dot_(j < some ? q[i] : d[i], x);
      v[0] += __shfl_xor_sync(0xffffffffu, v[2], 16), v[1] += __shfl_xor_sync(0xffffffffu, v[3], 16);
      c[j] = v[0] + __shfl_xor_sync(0xffffffffu, v[1], 8);
    }
    c[0] = half_sum(c[0], c[2], 4), c[1] = half_sum(c[1], c[3], 4);
    float sum = half_sum(c[0], c[1], 2);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    int j = lane_() / 2 % 4, row = turn_();
    float* to = (j < some ? a : ds) + row * width + k + j % some;
    if (lane_() % 2 == 0 && (kOne || row < rows)) *to = more ? *to + sum : sum;
  }
}

// The sum, or with most the greatest, of eight neighbouring lanes.
VSE_INLINE float of_eight(float v, bool most) {
  for (int d = 4; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(0xffffffffu, v, d);
    v = most ? more_(v, o) : v + o;
  }
  return v;
}

// The weights of n rows of n nodes from their logits, and back the gradient of the logits from the gradient of the
// weights; 0 after a row, up to a multiple of four. Eight lanes have a row.
template <bool kBack, bool kOne>
VSE_INLINE void softmax_(float* a, float* ds, int width, int n) {
  const int step = kOne ? 1 << 30 : 32;
  for (int r = kSome * warp_(); r < n; r += kRound) {
    int row = r + lane_() / 8, size = row < n ? n : 0, first = lane_() % 8 * 4;
    float *to = a + row * width, *d = ds + row * width, most = -3.0e38f, sum = 0, mean = 0;
    for (int k = first; k < size; k += step) {
      Four v = four(to + k);
      UNROLL for (int j = 0; j < 4; j++)
        if (k + j < n) most = more_(most, v[j]);
    }
    most = of_eight(most, true);
    for (int k = first; k < size; k += step) {
      Four v = four(to + k);
      UNROLL for (int j = 0; j < 4; j++) v[j] = k + j < n ? exp_(v[j] - most) : 0, sum += v[j];
      put_four(to + k, v);
    }
    sum = 1.0f / of_eight(sum, false);
    for (int k = first; k < size; k += step) {
      Four v = four(to + k) * sum;
      put_four(to + k, v);
      if (!kBack) continue;
      Four g = four(d + k);
      UNROLL for (int j = 0; j < 4; j++)
        if (k + j < n) mean += v[j] * g[j];
    }
    if (!kBack) continue;
    mean = of_eight(mean, false);
    for (int k = first; k < size; k += step) {
      Four v = four(to + k), g = four(d + k);
      UNROLL for (int j = 0; j < 4; j++) g[j] = k + j < n ? v[j] * (g[j] - mean) : 0;
      put_four(d + k, g);
    }
  }
}

// e += the rows of a, and back g += the rows of ds, times n nodes in shared memory.
typedef float Pair __attribute__((vector_size(8)));
template <bool kBack, bool kOne>
VSE_INLINE void mix_(Row* e, Row* g, const float* a, const float* ds, int width, int rows, int n) {
  for (int k = 0; k < n; k += 2) {
    Pair w[kSome], d[kSome];
    UNROLL for (int i = 0; i < kSome; i++) {
      int at = (kOne || i < rows ? i : 0) * width + k;
      w[i] = *(const Pair*)(a + at);
      if (kBack) d[i] = *(const Pair*)(ds + at);
    }
    UNROLL for (int j = 0; j < 2; j++) {
      Row x;
      get_row(x, k + j);
      UNROLL for (int i = 0; i < kSome; i++) {
        add_(e[i], w[i][j], x);
        if (kBack) add_(g[i], d[i][j], x);
      }
    }
  }
}

// sum += the transpose of the weights from column 0 and with high from column 16 on, four of them each, times n rows in
// shared memory.
VSE_INLINE void spread_(Row* sum, const float* a, int width, int n, bool high) {
  for (int r = 0; r < n; r++) {
    Row x;
    get_row(x, r);
    Four w = four(a + r * width);
    UNROLL for (int i = 0; i < kSome; i++) add_(sum[i], w[i], x);
    if (!high) continue;
    w = four(a + r * width + kRound);
    UNROLL for (int i = 0; i < kSome; i++) add_(sum[kSome + i], w[i], x);
  }
}

// Where the results of a block begin, and what it reads.
struct Attention {
  float *e, *dy, *dx, *sums;
  bf16 *half, *copy;
  const float *y, *x, *de;
  int n, s, fours;
};

// The results of a graph, whose weights go through a and ds. With kOne it is one tile of one piece, read by fours.
template <bool kBack, bool kOne>
VSE_INLINE void attend_(const Attention& of, float* a, float* ds, int width) {
  int n = of.n, s = of.s, fours = kOne || of.fours, warp = kSome * warp_();
  int nodes = kOne ? 1 : n, columns = kOne ? 1 : s;  // that begin tiles and pieces
  for (int r = 0; r < n; r += kRound) {
    int row = r + warp, rows = n - row;
    for (int at = 0; at < nodes; at += kNodes)
      for (int k = 0; k < columns; k += kColumns) {
        Row q[kSome], d[kSome];
        rows_(q, of.y + row * s, rows, k, s, fours, turn_());
        if (kBack) rows_(d, of.de + row * s, rows, k, s, fours, turn_());
        if (!kOne || r == 0) {
          __syncthreads();  // what was there before has been read
          load_(of.x + at * s, upto(n - at), k, s, fours);
          __syncthreads();
        }
        if (rows > 0)
          dots_<kBack, kOne>(a + row * width + at, ds + row * width + at, width, q, d, rows, upto(n - at), k > 0);
      }
  }
  __syncthreads();
  softmax_<kBack, kOne>(a, ds, width, n);
  __syncthreads();
  for (int k = 0; k < columns; k += kColumns) {
    for (int r = 0; r < n; r += kRound) {
      int row = r + warp, rows = n - row;
      Row e[kSome], g[kSome];
      clear_(e, kSome), clear_(g, kSome);
      for (int at = 0; at < nodes; at += kNodes) {
        if (!kOne) {
          __syncthreads();
          load_(of.x + at * s, upto(n - at), k, s, fours);
          __syncthreads();
        }
        if (rows > 0)
          mix_<kBack, kOne>(e, g, a + row * width + at, ds + row * width + at, width, rows, upto(n - at));
      }
      write_(of.e, of.half, e, rows, row * s, k, s, fours);
      if (!kBack) continue;
      write_(of.dy, of.copy, g, rows, row * s, k, s, fours);
      UNROLL for (int h = 0; h < 2; h++) {
        Four v = {0, 0, 0, 0};
        float* to = part[warp_()] + column_(h);
        UNROLL for (int i = 0; i < kSome; i++)
          if (i < rows) v += g[i][h];
        put_four(to, r == 0 ? v : four(to) + v);
      }
    }
    if (!kBack) continue;
    __syncthreads();
    for (int c = threadIdx.x; c < kColumns && k + c < s; c += VSE_THREADS)
      of.sums[k + c] = (part[0][c] + part[1][c]) + (part[2][c] + part[3][c]);
    for (int base = 0; base < nodes; base += kNodes) {
      int node = base + warp;
      Row sum[2 * kSome];
      clear_(sum, 2 * kSome);
      for (int at = 0; at < nodes; at += kNodes)
        for (int back = 0; back < 2; back++) {
          __syncthreads();
          load_((back ? of.y : of.de) + at * s, upto(n - at), k, s, fours);
          __syncthreads();
          if (node < n)
            spread_(sum, (back ? ds : a) + at * width + node, width, upto(n - at), node + kRound < n);
        }
      write_(of.dx, 0, sum, n - node, node * s, k, s, fours);
      write_(of.dx, 0, sum + kSome, n - node - kRound, (node + kRound) * s, k, s, fours);
    }
  }
}

template <bool kBack>
VSE_INLINE void attend(const Attention& of, float* a, float* ds, int width) {
  if (of.n <= kNodes && of.s <= kColumns && of.fours) attend_<kBack, true>(of, weights[0], slopes[0], kNodes);
  else attend_<kBack, false>(of, a, ds, width);
}

// The nodes of an image that are of no caption.
struct Alone { i64 first, n; };
VSE_INLINE Alone alone_(const int* first, i64 image, int captions, int nodes) {
  Alone a;
  a.first = image * nodes + first[captions] + captions, a.n = nodes - first[captions] - captions;
  return a;
}

// e = A X; e or half may be null.
KERNEL reason_attend(float* e, bf16* half, float* a, const float* y, const float* x, const int* first, int captions,
                     int nodes, int row_width, int s, int fours) {
  int c = (int)(blockIdx.x % (captions + 1));
  i64 image = blockIdx.x / (captions + 1);
  if (c == captions) {
    Alone of = alone_(first, image, captions, nodes);
    for (i64 i = of.first * s + threadIdx.x; i < (of.first + of.n) * s; i += blockDim.x) {
      if (e) e[i] = x[i];
      if (half) half[i] = bf16_of(x[i]);
    }
    return;
  }
  Graph g = graph_(first, image, c, nodes);
  i64 at = g.base * s;
  Attention of = {e ? e + at : 0, 0, 0, 0, half ? half + at : 0, 0, y + at, x + at, 0, g.n, s, fours};
  attend<false>(of, a + g.base * row_width, 0, row_width);
}

// e = A X, dy = dS X, dx = Aᵀ dE + dSᵀ Y, and sums [gx, s], the sums of dy over the rows of each block. copy is dy
// rounded, half e; both are null or none.
KERNEL reason_attend_grad(float* e, bf16* half, float* dy, bf16* copy, float* dx, float* sums, float* a, float* ds,
                          const float* y, const float* x, const float* de, const int* first, int captions, int nodes,
                          int row_width, int s, int fours) {
  int c = (int)(blockIdx.x % (captions + 1));
  i64 image = blockIdx.x / (captions + 1);
  sums += (i64)blockIdx.x * s;
  if (c == captions) {
    for (int i = threadIdx.x; i < s; i += blockDim.x) sums[i] = 0;
    Alone of = alone_(first, image, captions, nodes);
    for (i64 i = of.first * s + threadIdx.x; i < (of.first + of.n) * s; i += blockDim.x) {
      if (half) half[i] = bf16_of(x[i]), copy[i] = 0;
      else e[i] = x[i];
      if (dy) dy[i] = 0;
      dx[i] = de[i];
    }
    return;
  }
  Graph g = graph_(first, image, c, nodes);
  i64 at = g.base * s;
  Attention of = {e ? e + at : 0, dy ? dy + at : 0, dx + at, sums, half ? half + at : 0, copy ? copy + at : 0, y + at,
                  x + at, de + at, g.n, s, fours};
  attend<true>(of, a + g.base * row_width, ds + g.base * row_width, row_width);
}

// What node 0 asks of the n nodes of its graph, by a warp that reads them once, four at a time: sums are of powers
// relative to the greatest logit so far, and what there was is scaled where a greater one comes. Back, a and ds get the
// logits and the gradient of their weights first, each from the lane that reads it in the end. A row of more than a
// piece is read as often as it has pieces, each time with another piece at the end, the piece of the results.
template <bool kBack>
VSE_INLINE void ask_(const Attention& of, float* a, float* ds) {
  int n = of.n, s = of.s, pieces = (s + kColumns - 1) / kColumns;
  float most, sum, mean;
  for (int c = 0; c < pieces; c++) {
    Row e[1], g[1];
    clear_(e, 1), clear_(g, 1);
    most = -3.0e38f, sum = mean = 0;
    for (int at = 0; at < n; at += kSome) {
      float p[kSome] = {0, 0, 0, 0}, d[kSome] = {0, 0, 0, 0};
      Row x[kSome];
      for (int j = 1; j <= pieces; j++) {
        int k = (c + j) % pieces * kColumns;
        Row q[kSome], r[kSome];  // one of each
        rows_(x, of.x + at * s, n - at, k, s, of.fours, 0);
        rows_(q, of.y, 1, k, s, of.fours, 0);
        if (kBack) rows_(r, of.de, 1, k, s, of.fours, 0);
        UNROLL for (int i = 0; i < kSome; i++) {
          p[i] += dot_(q[0], x[i]);
          if (kBack) d[i] += dot_(r[0], x[i]);
        }
      }
      float before = most;
      UNROLL for (int i = 0; i < kSome; i++) {
        p[i] = warp_sum(p[i]);
        if (kBack) d[i] = warp_sum(d[i]);
        if (at + i < n) most = more_(most, p[i]);
      }
      float keep = exp_(before - most);
      sum *= keep, mean *= keep;
      UNROLL for (int h = 0; h < 2; h++) e[0][h] *= keep, g[0][h] *= keep;
      UNROLL for (int i = 0; i < kSome; i++) {
        if (at + i >= n) continue;
        float w = exp_(p[i] - most);
        sum += w;
        add_(e[0], w, x[i]);
        if (!kBack) continue;
        mean += w * d[i];
        add_(g[0], w * d[i], x[i]);
        if ((at + i) % 32 == lane_()) a[at + i] = p[i], ds[at + i] = d[i];
      }
    }
    sum = 1.0f / sum, mean *= sum;
    UNROLL for (int h = 0; h < 2; h++) e[0][h] *= sum, g[0][h] = g[0][h] * sum - e[0][h] * mean;
    int k = c * kColumns;
    write_(of.e, of.half, e, 1, 0, k, s, of.fours);
    if (kBack) write_(of.dy, of.copy, g, 1, 0, k, s, of.fours);
  }
  if (!kBack) return;
  LANES(k, n) {
    float w = exp_(a[k] - most) * sum;
    a[k] = w, ds[k] = w * (ds[k] - mean);
  }
}

// With First: e = A X for the query y of every pair; e or half may be null.
KERNEL reason_ask(float* e, bf16* half, const float* y, const float* x, const int* first, int captions, int nodes,
                  int s, int fours, i64 pairs) {
  WARPS(r, pairs) {
    Graph g = graph_(first, r / captions, (int)(r % captions), nodes);
    i64 at = r * s;
    Attention of = {e ? e + at : 0, 0, 0, 0, half ? half + at : 0, 0, y + at, x + g.base * s, 0, g.n, s, fours};
    ask_<false>(of, 0, 0);
  }
}

// With First: e = A X, dy = dS X, a = A and ds = dS. copy is dy rounded, half e; both are null or none.
KERNEL reason_ask_grad(float* e, bf16* half, float* dy, bf16* copy, float* a, float* ds, const float* y,
                       const float* x, const float* de, const int* first, int captions, int nodes, int row_width,
                       int s, int fours, i64 pairs) {
  WARPS(r, pairs) {
    Graph g = graph_(first, r / captions, (int)(r % captions), nodes);
    i64 at = r * s;
    Attention of = {e ? e + at : 0, dy + at, 0, 0, half ? half + at : 0, copy ? copy + at : 0, y + at, x + g.base * s,
                    de + at, g.n, s, fours};
    ask_<true>(of, a + r * row_width, ds + r * row_width);
  }
}

// With First, dx of every node k of a pair: a_k de + ds_k q, and for node 0 back, what its own query gives. Of an image
// the warp after the warps of its pairs writes 0 for nodes of no caption.
KERNEL reason_spread(float* dx, const float* a, const float* ds, const float* de, const float* q, const float* back,
                     const int* first, int captions, int nodes, int row_width, int s, int fours, i64 units) {
  WARPS(t, units) {
    i64 image = t / (captions + 1);
    int c = (int)(t - image * (captions + 1));
    if (c == captions) {
      Alone of = alone_(first, image, captions, nodes);
      for (i64 i = of.first * s + lane_(); i < (of.first + of.n) * s; i += 32) dx[i] = 0;
      continue;
    }
    Graph g = graph_(first, image, c, nodes);
    i64 r = image * captions + c;
    for (int k = 0; k < s; k += kColumns) {
      Row e[kSome], y[kSome], more[kSome];  // one of each
      rows_(e, de + r * s, 1, k, s, fours, 0);
      rows_(y, q + r * s, 1, k, s, fours, 0);
      rows_(more, back + r * s, 1, k, s, fours, 0);
      for (int node = 0; node < g.n; node++) {
        float w = a[r * row_width + node], d = ds[r * row_width + node];
        Row v[kSome];
        UNROLL for (int h = 0; h < 2; h++) {
          v[0][h] = w * e[0][h] + d * y[0][h];
          if (node == 0) v[0][h] += more[0][h];
        }
        write_(dx, 0, v, 1, (int)((g.base + node) * s), k, s, fours);
      }
    }
  }
}
