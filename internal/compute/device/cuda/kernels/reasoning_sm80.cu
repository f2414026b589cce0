// Steps of reasoning on tensor cores (device.GraphReason; without First): what reasoning.cu computes between products,
// and the products, with operands in bfloat16 and values that stay in a multiprocessor.
//
//   Q = X M + v    A = softmax(Q Xᵀ)    E = A X    Out = ReLU(E Wᵀ + bias)
//
// A block works on a tile of up to 64 rows of nodes, whole graphs of one image (reason_tiles). Warp w has the columns
// from 32w on, of all rows. The products are the products of the transposed matrices: a column of the result is a row
// of the instruction's (mma.cuh), a row one of its columns, so that what a lane reads of a row of shared memory and of
// a packed weight are operands as they lie. Lane 4g + t has the columns 4g + 2j + 0, 1 of the warp, which are the rows
// g and g + 8 of the tile j, and the rows 8n + 2t + 0, 1. Where a product sums over columns, the two steps i over 32 of
// them take 8t + 4i + 0, 1 and 8t + 4i + 2, 3. In shared memory rows are pairs of bfloat16, in an order that avoids
// conflicts of banks. Of logits and weights a warp has 16 rows and half of the nodes, over all columns.
#define VSE_THREADS 256
#define VSE_BLOCKS 2
#include "mma.cuh"

enum {
  kRows = 64,    // of a tile (Go: graphRows)
  kWords = 128,  // pairs of columns of a row, at most
  kWarps = 8,
  kPacked = 32768,  // words of a packed weight
  kCaptions = 4095  // at most (Go: graphCaptions)
};

// Tiles of rows, and after them weights of their nodes (Go: graphShared, graphGradShared).
DYNAMIC_SHARED(Quad, shared_tiles);
enum { kTile = kRows * kWords, kWeights = kRows * kRows / 2 };  // words

// packed: two weights [s, s] as operands A, the second transposed. Word q of a lane holds, of 32 rows and of the column
// 4g + 2j + q % 2, the rows 8t + 4i + 2·(q / 2) + 0, 1; rows and columns that are not there are 0.
KERNEL reason_pack(u32* packed, const float* first, const float* second, int s) {
  EACH(i, 2 * kPacked) {
    const float* w = i < kPacked ? first : second;
    int q = (int)(i % 4), lane = (int)(i / 4 % 32), tile = (int)(i / 128 % 32), step = (int)(i % kPacked / 4096);
    int n = tile / 4 * 32 + lane / 4 * 4 + tile % 4 / 2 * 2 + q % 2;
    int k = 32 * step + lane % 4 * 8 + tile % 2 * 4 + q / 2 * 2;
    float v[2];
    for (int e = 0; e < 2; e++)
      v[e] = k + e < s && n < s ? w[i < kPacked ? (k + e) * s + n : n * s + k + e] : 0;
    packed[i] = two_(v[0], v[1]);
  }
}

// tiles [count + 1]: where the tiles of the nodes of an image begin. Each takes as many graphs as fit, nodes of no
// caption follow in tiles of their own; tiles after the last are empty. No graph has more nodes than a tile.
KERNEL reason_tiles(int* tiles, const int* first, const int* node_caption, int captions, int nodes, int count) {
  __shared__ int start[kCaptions + 1], next[kCaptions];
  for (int c = threadIdx.x; c <= captions; c += blockDim.x) start[c] = first[c] + c;
  for (int c = threadIdx.x; c < captions; c += blockDim.x) {
    int behind = first[c] + c + kRows;
    next[c] = behind < nodes ? node_caption[behind] : -1;
  }
  __syncthreads();
  if (threadIdx.x) return;
  int t = 0, at = start[captions];
  for (int c = 0; c >= 0 && c < captions && t < count; c = next[c]) tiles[t++] = start[c];
  for (; t <= count; t++, at += kRows) tiles[t] = at < nodes ? at : nodes;
}

// at_ is where two words of a row lie, the first of an even number: of one of eight rows, from a multiple of 8 on. The
// eight have 16 bytes in different banks, the four even or odd ones 32 bytes.
VSE_INLINE int at_(int row, int word) {
  return row * kWords + (word ^ (((row ^ row >> 2) & 1) << 4 | (row & 2) << 2));
}
enum { kEight = 8 * kWords };  // words of eight rows

typedef float Columns[8][2][4];  // of a lane: eight rows, two tiles of 16 columns, the values of the result

VSE_INLINE void clear_(Columns x) {
  UNROLL for (int n = 0; n < 8; n++)
    UNROLL for (int j = 0; j < 2; j++)
      UNROLL for (int k = 0; k < 4; k++) x[n][j][k] = 0;
}

// Block is what the lanes of a block know of their tile: rows of s values, from value `from` on, in m steps of 16 rows
// and steps of 32 columns.
struct Block {
  int lane, g, t, warp, column, rows, m, steps, s;
  i64 from;
};

VSE_INLINE Block block_(i64 from, int rows, int s) {
  Block b;
  b.lane = threadIdx.x & 31, b.g = b.lane / 4, b.t = b.lane % 4, b.warp = threadIdx.x / 32;
  b.column = 32 * b.warp + 4 * b.g;
  b.from = from * s, b.rows = rows, b.m = (rows + 15) / 16, b.steps = (s + 31) / 32, b.s = s;
  return b;
}

// The tile gets the rows of x, of which a warp loads every eighth.
VSE_INLINE void load_tile(u32* tile, const Block& b, const bf16* x) {
  Quad v[kRows / kWarps], none = {0, 0, 0, 0};
  x += b.from + b.warp * b.s + 8 * b.lane;
  UNROLL for (int i = 0; i < kRows / kWarps; i++, x += kWarps * b.s)
    v[i] = b.warp < b.rows - kWarps * i && 8 * b.lane < b.s ? *(const Quad*)x : none;
  if (b.lane >= 4 * b.steps) return;
  UNROLL for (int i = 0; i < kRows / kWarps; i++)
    if (i < 2 * b.m) *(Quad*)(tile + at_(b.warp, 4 * b.lane) + kEight * i) = v[i];
}

VSE_INLINE Four four(const bf16* x) {
  Two w = *(const Two*)x;
  return (Four){as_float(w[0] << 16), as_float(w[0] & 0xffff0000u), as_float(w[1] << 16), as_float(w[1] & 0xffff0000u)};
}

// The tile gets the rows of x, or with out x·(out > 0), and copy too where it is there. A lane reads four values of a
// row and the four that lie 128 columns further on; sum gets the sums of its columns over the rows of the warp.
template <class T>
VSE_INLINE void load_tile(u32* tile, const Block& b, const float* x, const T* out, bf16* copy, Four* sum) {
  enum { kSome = 4 };
  Four zero = {0, 0, 0, 0};
  sum[0] = sum[1] = zero;
  for (int from = 0; from < 2 * b.m; from += kSome) {
    Four v[kSome][2], o[kSome][2];
    UNROLL for (int i = 0; i < kSome; i++)
      UNROLL for (int h = 0; h < 2; h++) {
        int k = 4 * b.lane + kWords * h, row = b.warp + kWarps * (from + i);
        v[i][h] = o[i][h] = zero;
        if (row >= b.rows || k >= b.s) continue;
        v[i][h] = four(x + b.from + row * b.s + k);
        if (out) o[i][h] = four(out + b.from + row * b.s + k);
      }
    UNROLL for (int i = 0; i < kSome; i++)
      UNROLL for (int h = 0; h < 2; h++) {
        int k = 4 * b.lane + kWords * h, row = b.warp + kWarps * (from + i);
        if (out)
          UNROLL for (int e = 0; e < 4; e++) v[i][h][e] *= o[i][h][e] > 0;
        sum[h] += v[i][h];
        Two w = {two_(v[i][h][0], v[i][h][1]), two_(v[i][h][2], v[i][h][3])};
        if (from + i < 2 * b.m && k < 32 * b.steps) *(Two*)(tile + at_(b.warp, k / 2) + kEight * (from + i)) = w;
        if (copy && row < b.rows && k < b.s) *(Two*)(copy + b.from + row * b.s + k) = w;
      }
  }
}
VSE_INLINE void load_tile(u32* tile, const Block& b, const float* x, bf16* copy) {
  Four sum[2];
  load_tile(tile, b, x, (const float*)0, copy, sum);
}

// What a lane has of rows, as operands: four values of the rows 8n + 2t + 0, 1.
typedef Two Words[8][2];
VSE_INLINE int row_(const Block& b, int n, int r) { return 8 * n + 2 * b.t + r; }

VSE_INLINE void pack_(Words w, Columns x) {
  UNROLL for (int n = 0; n < 8; n++)
    UNROLL for (int r = 0; r < 2; r++)
      UNROLL for (int j = 0; j < 2; j++) w[n][r][j] = two_(x[n][j][r], x[n][j][2 + r]);
}

// The tile gets w.
VSE_INLINE void store_tile(u32* tile, const Block& b, const Words w) {
  if (b.warp >= b.steps) return;
  UNROLL for (int n = 0; n < 8; n++)
    UNROLL for (int r = 0; r < 2; r++)
      if (n < 2 * b.m) *(Two*)(tile + at_(row_(b, 0, r), b.column / 2) + kEight * n) = w[n][r];
}

VSE_INLINE void product_(float* c, Quad a, u32 b0, u32 b1) {
  u32 of[4] = {a[0], a[1], a[2], a[3]}, by[2] = {b0, b1};
  mma_(c, of, by);
}

// x += the tile times a packed weight, whose next step is on its way while the last one is multiplied.
VSE_INLINE void product_(Columns x, const Block& b, const u32* tile, const u32* packed) {
  if (b.warp >= b.steps) return;
  packed += 4 * (b.warp * 4 * 32 + b.lane);
  Quad w[2][4];
  UNROLL for (int j = 0; j < 4; j++) w[0][j] = *(const Quad*)(packed + 128 * j);
  for (int two = 0; two < b.steps; two += 2)
    UNROLL for (int h = 0; h < 2; h++) {
      int step = two + h;
      if (step >= b.steps) break;
      packed += 4096;
      if (step + 1 < b.steps)
        UNROLL for (int j = 0; j < 4; j++) w[1 - h][j] = *(const Quad*)(packed + 128 * j);
      UNROLL for (int i = 0; i < 4; i++) {
        if (i >= b.m) continue;
        UNROLL for (int n = 2 * i; n < 2 * i + 2; n++) {
          Quad v = *(const Quad*)(tile + at_(b.g, 16 * step + 4 * b.t) + kEight * n);
          UNROLL for (int j = 0; j < 2; j++) product_(x[n][j], w[h][2 * j], v[0], v[1]);
          UNROLL for (int j = 0; j < 2; j++) product_(x[n][j], w[h][2 * j + 1], v[2], v[3]);
        }
      }
    }
}

// Graphs lists for each row of a tile where its graph begins in the tile, and its nodes; 0 nodes for rows that are not
// there.
struct Graphs { int base[kRows], size[kRows]; };
namespace { __shared__ Graphs graphs; }

VSE_INLINE void graphs_(const Block& b, const int* first, const int* captions, int begin) {
  int row = threadIdx.x;
  if (row >= kRows) return;
  int c = row < b.rows ? captions[begin + row] : -1;
  graphs.base[row] = c < 0 ? row : first[c] + c - begin;
  graphs.size[row] = c < 0 ? row < b.rows : first[c + 1] - first[c] + 1;
}

// Whether 16 rows have a node among n of the tile from node k on.
VSE_INLINE bool meets(const Block& b, int i, int k, int n) {
  int last = 16 * i + 15 < b.rows ? 16 * i + 15 : b.rows - 1;
  return k < graphs.base[last] + graphs.size[last] && k + n > graphs.base[16 * i];
}

// What a lane has of logits or weights: tiles of 16 rows and 8 nodes, as results of the instruction. Of a warp they are
// the rows from 16·(warp % 4) on and the nodes from 32·(warp / 4) on.
typedef float Scores[4][4];
VSE_INLINE int row_of(const Block& b, int side) { return 16 * (b.warp & 3) + b.g + 8 * side; }
VSE_INLINE int node_of(const Block& b, int j) { return b.warp / 4 * 32 + 8 * j + 2 * b.t; }

// c = a·x for the rows of a tile a and the nodes of a tile x; 0 where no row has one of a warp's nodes in its graph.
VSE_INLINE void dots_(Scores c, const Block& b, const u32* a, const u32* x) {
  int i = b.warp & 3, first = b.warp / 4 * 32;
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int k = 0; k < 4; k++) c[j][k] = 0;
  if (i >= b.m || !meets(b, i, first, 32)) return;
  int node[4];  // those that are not in the tile are others
  UNROLL for (int j = 0; j < 4; j++) node[j] = kEight * (first / 8 + j < 2 * b.m ? first / 8 + j : 2 * b.m - 1);
  for (int step = 0; step < b.steps; step++) {
    int at = at_(b.g, 16 * step + 4 * b.t);
    Quad low = *(const Quad*)(a + at + kEight * 2 * i), high = *(const Quad*)(a + at + kEight * (2 * i + 1));
    u32 a1[4] = {low[0], high[0], low[1], high[1]}, a2[4] = {low[2], high[2], low[3], high[3]};
    UNROLL for (int j = 0; j < 4; j++) {
      Quad w = *(const Quad*)(x + at + node[j]);
      u32 w1[2] = {w[0], w[1]}, w2[2] = {w[2], w[3]};
      mma_(c[j], a1, w1);
      mma_(c[j], a2, w2);
    }
  }
}

VSE_INLINE float more_(float x, float y) { return y > x || y != y ? y : x; }

// The sums, or with most the greatest, of v over the nodes of the two rows of a lane, which two warps have.
typedef float Halves[2][kRows];
VSE_INLINE void over_nodes(float* v, const Block& b, Halves part, bool most) {
  UNROLL for (int side = 0; side < 2; side++) {
    for (int d = 1; d < 4; d <<= 1) {
      float o = __shfl_xor_sync(0xffffffffu, v[side], d);
      v[side] = most ? more_(v[side], o) : v[side] + o;
    }
    if (b.t == 0) part[b.warp / 4][row_of(b, side)] = v[side];
  }
  __syncthreads();
  UNROLL for (int side = 0; side < 2; side++) {
    float x = part[0][row_of(b, side)], y = part[1][row_of(b, side)];
    v[side] = most ? more_(x, y) : x + y;
  }
}

// Logits become weights; 0 outside the graph. A row that is not there has no node. Two sums go through parts.
VSE_INLINE void softmax_(Scores c, const Block& b, Halves* parts) {
  const float none = -3.4e38f, far = -1.0e37f;  // the logit of a node outside; no other lies so far below the most
  float most[2] = {-3.0e38f, -3.0e38f}, sum[2] = {0, 0};
  UNROLL for (int k = 0; k < 4; k++) {
    int base = graphs.base[row_of(b, k / 2)], size = graphs.size[row_of(b, k / 2)];
    UNROLL for (int j = 0; j < 4; j++) {
      int node = node_of(b, j) + k % 2 - base;
      if (node < 0 || node >= size) c[j][k] = none;
      most[k / 2] = more_(most[k / 2], c[j][k]);
    }
  }
  over_nodes(most, b, parts[0], true);
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int k = 0; k < 4; k++) {
      float x = c[j][k] - most[k / 2], e = fall_(x);
      c[j][k] = x < far ? 0 : e;
      sum[k / 2] += c[j][k];
    }
  over_nodes(sum, b, parts[1], false);
  UNROLL for (int side = 0; side < 2; side++) {
    sum[side] += most[side] - most[side];  // NaN is not a weight of fall_
    sum[side] = sum[side] == 0 ? 0 : 1.0f / sum[side];
  }
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int k = 0; k < 4; k++) c[j][k] *= sum[k / 2];
}

// d = p∘(d - Σ p∘d), the gradient of what softmax_ takes, from the gradient d of the weights p.
VSE_INLINE void softmax_grad(Scores d, Scores p, const Block& b, Halves part) {
  float mean[2] = {0, 0};
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int k = 0; k < 4; k++) mean[k / 2] += p[j][k] * d[j][k];
  over_nodes(mean, b, part, false);
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int k = 0; k < 4; k++) d[j][k] = p[j][k] * (d[j][k] - mean[k / 2]);
}

// Where a pair of nodes of a row of weights lies: in 16 nodes the pairs t and t + 4 are neighbours.
VSE_INLINE int pair_(int row, int pair) {
  return row * (kRows / 2) + ((pair & ~7) + pair % 4 * 2 + pair / 4 % 2 ^ (row & 3) << 3);
}

// The weights, and where turned is there their transpose: two lanes of neighbouring rows make pairs of them.
VSE_INLINE void put_weights(u32* weights, u32* turned, const Block& b, Scores p) {
  if ((b.warp & 3) >= b.m) return;
  UNROLL for (int side = 0; side < 2; side++)
    UNROLL for (int j = 0; j < 4; j += 2) {
      Two w = {two_(p[j][2 * side], p[j][2 * side + 1]), two_(p[j + 1][2 * side], p[j + 1][2 * side + 1])};
      *(Two*)(weights + pair_(row_of(b, side), node_of(b, j) / 2)) = w;
    }
  if (!turned) return;
  bool odd = b.g % 2;
  UNROLL for (int j = 0; j < 4; j++) {
    Two w;
    UNROLL for (int side = 0; side < 2; side++) {
      float low = p[j][2 * side], high = p[j][2 * side + 1];
      float other = __shfl_xor_sync(0xffffffffu, odd ? low : high, 4);
      w[side] = two_(odd ? other : low, odd ? high : other);
    }
    *(Two*)(turned + pair_(node_of(b, j) + odd, row_of(b, 0) / 2)) = w;
  }
}

// x += the weights times the rows of the tile.
VSE_INLINE void mix_(Columns x, const Block& b, const u32* weights, const u32* tile) {
  if (b.warp >= b.steps) return;
  for (int k = 0; k < b.m; k++) {
    u32 a[2][4];
    UNROLL for (int e = 0; e < 2; e++) {
      const u32* rows = tile + kEight * (2 * k + e);
      Two one = *(const Two*)(rows + at_(row_(b, 0, 0), b.column / 2));
      Two next = *(const Two*)(rows + at_(row_(b, 0, 1), b.column / 2));
      UNROLL for (int j = 0; j < 2; j++)  // of two pairs the lower and the upper values
        a[j][2 * e] = bytes_(one[j], next[j], 0x5410), a[j][2 * e + 1] = bytes_(one[j], next[j], 0x7632);
    }
    UNROLL for (int i = 0; i < 4; i++) {
      if (i >= b.m) continue;
      UNROLL for (int n = 2 * i; n < 2 * i + 2; n++) {
        Two w = *(const Two*)(weights + pair_(8 * n + b.g, 8 * k + b.t));
        u32 by[2] = {w[0], w[1]};
        UNROLL for (int j = 0; j < 2; j++) mma_(x[n][j], a[j], by);
      }
    }
  }
}

// w goes to to.
VSE_INLINE void write_(bf16* to, const Block& b, const Words w) {
  to += b.from + row_(b, 0, 0) * b.s + b.column;
  UNROLL for (int n = 0; n < 8; n++, to += 8 * b.s)
    UNROLL for (int r = 0; r < 2; r++)
      if (row_(b, n, r) < b.rows && b.column < b.s) *(Two*)(to + r * b.s) = w[n][r];
}

// x goes to to.
VSE_INLINE void write_(float* to, const Block& b, Columns x) {
  to += b.from + row_(b, 0, 0) * b.s + b.column;
  UNROLL for (int n = 0; n < 8; n++, to += 8 * b.s)
    UNROLL for (int r = 0; r < 2; r++) {
      Four v = {x[n][0][r], x[n][0][2 + r], x[n][1][r], x[n][1][2 + r]};
      if (row_(b, n, r) < b.rows && b.column < b.s) put_four(to + r * b.s, v);
    }
}

// Adds a bias to the columns of x.
VSE_INLINE void add_bias_(Columns x, const Block& b, const float* bias) {
  Four v = {0, 0, 0, 0};
  if (b.column < b.s)
    UNROLL for (int e = 0; e < 4; e++) v[e] = bias[b.column + e];
  UNROLL for (int n = 0; n < 8; n++)
    UNROLL for (int j = 0; j < 2; j++)
      UNROLL for (int k = 0; k < 4; k++) x[n][j][k] += v[2 * j + k / 2];
}

// out, and its copy where there is one, from x or its copy half, for the tiles of all images; Q goes to y and y_half, x
// to x_half, where they are there. packed: M, and W transposed. per is the number of tiles of an image.
KERNEL reason_graphs(float* out, bf16* copy, float* y, bf16* y_half, bf16* x_half, const float* x, const bf16* half,
                     const u32* packed, const float* v, const float* bias, const int* tiles, const int* first,
                     const int* captions, int nodes, int per, int s, i64 units) {
  i64 image = blockIdx.x / per;
  int begin = tiles[blockIdx.x % per], rows = tiles[blockIdx.x % per + 1] - begin;
  if (rows <= 0) return;
  u32 *at_x = (u32*)shared_tiles, *at_q = at_x + kTile, *weights = at_q + kTile;
  Block b = block_(image * nodes + begin, rows, s);
  if (half) load_tile(at_x, b, half);
  else load_tile(at_x, b, x, x_half);
  graphs_(b, first, captions, begin);
  __syncthreads();
  Columns c;
  Words w;
  clear_(c);
  product_(c, b, at_x, packed);
  add_bias_(c, b, v);
  if (y) write_(y, b, c);
  pack_(w, c);
  if (y_half) write_(y_half, b, w);
  store_tile(at_q, b, w);
  __syncthreads();
  Scores p;
  dots_(p, b, at_q, at_x);
  softmax_(p, b, (Halves*)(weights + kWeights));
  put_weights(weights, 0, b, p);
  __syncthreads();
  clear_(c);
  mix_(c, b, weights, at_x);
  pack_(w, c);
  store_tile(at_q, b, w);
  __syncthreads();
  clear_(c);
  product_(c, b, at_q, packed + kPacked);
  add_bias_(c, b, bias);
  UNROLL for (int n = 0; n < 8; n++)
    UNROLL for (int j = 0; j < 2; j++)
      UNROLL for (int k = 0; k < 4; k++) c[n][j][k] = c[n][j][k] < 0 ? 0 : c[n][j][k];
  write_(out, b, c);
  if (!copy) return;
  pack_(w, c);
  write_(copy, b, w);
}

// The sums of the columns of x over all rows of the tile.
VSE_INLINE void column_sums(float* sums, const Block& b, Columns x) {
  UNROLL for (int e = 0; e < 4; e++) {
    float v = 0;
    UNROLL for (int n = 0; n < 8; n++) v += x[n][e / 2][e % 2 * 2] + x[n][e / 2][e % 2 * 2 + 1];
    for (int d = 1; d < 4; d <<= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (b.t == 0 && b.column < b.s) sums[b.column + e] = v;
  }
}

// From dout, and x, y = Q and out or their copies: dp = dout·(out > 0), e = A X and dQ for the products with the
// weights, dx, and the sums [gx, 2, s] of dQ and dp over the rows of each tile. packed: W, and M transposed.
//
//   dE = dp W    dS = A∘(dE Xᵀ - Σ A∘(dE Xᵀ))    dQ = dS X    dX = Aᵀ dE + dSᵀ Q + dQ Mᵀ
KERNEL reason_graphs_grad(float* dx, bf16* dp, bf16* e, bf16* dq, float* sums, const float* x, const bf16* half,
                          const float* y, const bf16* y_half, const float* out, const bf16* out_half, const float* dout,
                          const u32* packed, const int* tiles, const int* first, const int* captions, int nodes,
                          int per, int s, i64 units) {
  i64 image = blockIdx.x / per;
  int begin = tiles[blockIdx.x % per], rows = tiles[blockIdx.x % per + 1] - begin;
  sums += (i64)blockIdx.x * 2 * s;
  if (rows <= 0) {
    for (int k = threadIdx.x; k < 2 * s; k += VSE_THREADS) sums[k] = 0;
    return;
  }
  // After x lies dp and then dE, and in the end Q. Before weights and slopes, each with its transpose after it, the
  // sums of dp and then Q are in their place.
  u32 *at_x = (u32*)shared_tiles, *at_y = at_x + kTile, *weights = at_y + kTile, *slopes = weights + 2 * kWeights;
  float* sums_of_dp = (float*)weights;
  __shared__ Halves parts[2];
  Block b = block_(image * nodes + begin, rows, s);
  if (y_half && (int)threadIdx.x * 64 < rows * s) prefetch_(y_half + b.from + threadIdx.x * 64);
  if (half) load_tile(at_x, b, half);
  else load_tile(at_x, b, x, 0);
  Four sum[2];
  if (out_half) load_tile(at_y, b, dout, out_half, dp, sum);
  else load_tile(at_y, b, dout, out, dp, sum);
  UNROLL for (int h = 0; h < 2; h++) put_four(sums_of_dp + 2 * kWords * b.warp + kWords * h + 4 * b.lane, sum[h]);
  graphs_(b, first, captions, begin);
  __syncthreads();
  if ((int)threadIdx.x < s) {
    float total = 0;
    for (int i = 0; i < kWarps; i++) total += sums_of_dp[2 * kWords * i + threadIdx.x];
    sums[s + threadIdx.x] = total;
  }
  Columns c;
  Words w;
  clear_(c);
  product_(c, b, at_y, packed);
  pack_(w, c);
  __syncthreads();
  store_tile(at_y, b, w);
  if (y_half) load_tile(weights, b, y_half);
  else load_tile(weights, b, y, 0);
  __syncthreads();
  Scores p, d;
  dots_(p, b, weights, at_x);
  softmax_(p, b, parts);
  put_weights(weights, weights + kWeights, b, p);  // all have read Q
  dots_(d, b, at_y, at_x);
  softmax_grad(d, p, b, parts[0]);
  put_weights(slopes, slopes + kWeights, b, d);
  __syncthreads();
  clear_(c);
  mix_(c, b, weights, at_x);
  pack_(w, c);
  write_(e, b, w);
  clear_(c);
  mix_(c, b, slopes, at_x);
  column_sums(sums, b, c);
  pack_(w, c);
  write_(dq, b, w);
  __syncthreads();
  store_tile(at_x, b, w);
  __syncthreads();
  clear_(c);
  product_(c, b, at_x, packed + kPacked);
  mix_(c, b, weights + kWeights, at_y);
  __syncthreads();
  if (y_half) load_tile(at_y, b, y_half);
  else load_tile(at_y, b, y, 0);
  __syncthreads();
  mix_(c, b, slopes + kWeights, at_y);
  write_(dx, b, c);
}
