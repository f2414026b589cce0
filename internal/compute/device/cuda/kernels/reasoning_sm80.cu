// Steps of reasoning on tensor cores (device.GraphReason; without First): what reasoning.cu computes between products,
// and the products, with operands in bfloat16 and values that stay in a multiprocessor.
//
//   Q = X M + v    A = softmax(Q Xᵀ)    E = A X    Out = ReLU(E Wᵀ + bias)
//
// A block works on a tile of up to 64 rows of nodes, whole graphs of one image (reason_tiles). Warp w has the columns
// from 32w on, of all rows. In registers they lie as the results of the instruction (mma.cuh), in an order in which a
// lane has eight neighbouring values of a row: column 32w + 8t + 2j + i is column 2t + i of the warp's tile j. Where a
// product sums over columns, its operands have the same order: step i of the two steps over 32 columns takes the tiles
// 2i and 2i + 1. In shared memory rows are pairs of bfloat16, in an order that avoids conflicts of banks. Of logits and
// weights a warp has 16 rows and half of the nodes, over all columns.
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

// Tiles of rows, and behind them weights of their nodes (Go: graphShared, graphGradShared).
DYNAMIC_SHARED(Quad, shared_tiles);
enum { kTile = kRows * kWords, kWeights = kRows * kRows / 2 };  // words

// packed: two weights [s, s] as operands B, the second transposed. Word q of a lane holds the rows 8t + 2q + 0, 1 of
// 32; rows and columns that are not there are 0.
KERNEL reason_pack(u32* packed, const float* first, const float* second, int s) {
  EACH(i, 2 * kPacked) {
    const float* w = i < kPacked ? first : second;
    int q = (int)(i % 4), lane = (int)(i / 4 % 32), tile = (int)(i / 128 % 32), step = (int)(i % kPacked / 4096);
    int g = lane / 4, n = tile / 4 * 32 + g / 2 * 8 + tile % 4 * 2 + g % 2, k = 32 * step + lane % 4 * 8 + 2 * q;
    float v[2];
    for (int e = 0; e < 2; e++)
      v[e] = k + e < s && n < s ? w[i < kPacked ? (k + e) * s + n : n * s + k + e] : 0;
    packed[i] = two_(v[0], v[1]);
  }
}

// tiles [count + 1]: where the tiles of the nodes of an image begin. Each takes as many graphs as fit, nodes of no
// caption follow in tiles of their own; tiles behind the last are empty. No graph has more nodes than a tile.
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

// at_ is where 16 bytes of a row lie that begin at a word, a multiple of 4.
VSE_INLINE int at_(int row, int word) { return row * kWords + (word ^ ((row & 1) << 4 | (row & 6) << 1)); }

typedef float Columns[4][4][4];  // of a warp: 16 rows, tiles of 8 columns, the values of a lane

VSE_INLINE void clear_(Columns x) {
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int k = 0; k < 4; k++) x[i][j][k] = 0;
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
  b.column = 32 * b.warp + 8 * b.t;
  b.from = from * s, b.rows = rows, b.m = (rows + 15) / 16, b.steps = (s + 31) / 32, b.s = s;
  return b;
}

// The row of the tile that a lane has as its lower (side 0) or upper one of 16.
VSE_INLINE int row_(const Block& b, int i, int side) { return 16 * i + b.g + 8 * side; }

// Eight values as an operand.
VSE_INLINE Quad quad_(const float* v) {
  Quad w = {two_(v[0], v[1]), two_(v[2], v[3]), two_(v[4], v[5]), two_(v[6], v[7])};
  return w;
}

// Eight values from memory as an operand.
VSE_INLINE Quad eight_(const bf16* x) { return *(const Quad*)x; }
VSE_INLINE Quad eight_(const float* x) {
  float v[8];
  read_eight(v, x, 0, 8);
  return quad_(v);
}

// Eight values of a row of x; 0 where there are none.
template <class T>
VSE_INLINE Quad operand_(const Block& b, const T* x, int row, int k) {
  Quad none = {0, 0, 0, 0};
  return row >= b.rows || k >= b.s ? none : eight_(x + b.from + row * b.s + k);
}

// The tile gets the rows of x, some of a warp at a time.
template <int kSome, class T>
VSE_INLINE void load_tile(u32* tile, const Block& b, const T* x) {
  for (int first = b.warp; first < 16 * b.m; first += kWarps * kSome) {
    Quad v[kSome];
    UNROLL for (int i = 0; i < kSome; i++) v[i] = operand_(b, x, first + kWarps * i, 8 * b.lane);
    UNROLL for (int i = 0; i < kSome; i++) {
      int row = first + kWarps * i;
      if (row < 16 * b.m && b.lane < 4 * b.steps) *(Quad*)(tile + at_(row, 4 * b.lane)) = v[i];
    }
  }
}

// The eight values that a lane has of a row.
VSE_INLINE void values_(float* v, Columns x, int i, int side) {
  UNROLL for (int k = 0; k < 8; k++) v[k] = x[i][k / 2][2 * side + k % 2];
}

// The tile gets x.
VSE_INLINE void store_tile(u32* tile, const Block& b, Columns x) {
  if (b.warp >= b.steps) return;
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int side = 0; side < 2; side++) {
      float v[8];
      values_(v, x, i, side);
      if (i < b.m) *(Quad*)(tile + at_(row_(b, i, side), 16 * b.warp + 4 * b.t)) = quad_(v);
    }
}

// x += the tile times a packed weight, whose next step is on its way while the last one is multiplied.
VSE_INLINE void product_(Columns x, const Block& b, const u32* tile, const u32* packed) {
  if (b.warp >= b.steps) return;
  packed += 4 * (b.warp * 4 * 32 + b.lane);
  Quad next[4];
  UNROLL for (int j = 0; j < 4; j++) next[j] = *(const Quad*)(packed + 128 * j);
  for (int step = 0; step < b.steps; step++) {
    Quad w[4];
    UNROLL for (int j = 0; j < 4; j++) w[j] = next[j];
    packed += 4096;
    if (step + 1 < b.steps)
      UNROLL for (int j = 0; j < 4; j++) next[j] = *(const Quad*)(packed + 128 * j);
    UNROLL for (int i = 0; i < 4; i++) {
      if (i >= b.m) continue;
      int word = 16 * step + 4 * b.t;
      Quad low = *(const Quad*)(tile + at_(row_(b, i, 0), word));
      Quad high = *(const Quad*)(tile + at_(row_(b, i, 1), word));
      UNROLL for (int k = 0; k < 2; k++) {
        u32 a[4] = {low[2 * k], high[2 * k], low[2 * k + 1], high[2 * k + 1]};
        UNROLL for (int j = 0; j < 4; j++) {
          u32 of[2] = {w[j][2 * k], w[j][2 * k + 1]};
          mma_(x[i][j], a, of);
        }
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
VSE_INLINE int row_of(const Block& b, int side) { return row_(b, b.warp & 3, side); }
VSE_INLINE int node_of(const Block& b, int j) { return b.warp / 4 * 32 + 8 * j + 2 * b.t; }

// c = a·x for the rows of a tile a and the nodes of a tile x that they have in their graphs.
VSE_INLINE void dots_(Scores c, const Block& b, const u32* a, const u32* x) {
  int i = b.warp & 3, first = b.warp / 4 * 32;
  bool has[4];
  UNROLL for (int j = 0; j < 4; j++) {
    UNROLL for (int k = 0; k < 4; k++) c[j][k] = 0;
    has[j] = i < b.m && meets(b, i, first + 8 * j, 8);
  }
  if (!(has[0] || has[1] || has[2] || has[3])) return;
  for (int step = 0; step < b.steps; step++) {
    int word = 16 * step + 4 * b.t;
    Quad low = *(const Quad*)(a + at_(row_(b, i, 0), word)), high = *(const Quad*)(a + at_(row_(b, i, 1), word));
    u32 a1[4] = {low[0], high[0], low[1], high[1]}, a2[4] = {low[2], high[2], low[3], high[3]};
    UNROLL for (int j = 0; j < 4; j++) {
      if (!has[j]) continue;
      Quad w = *(const Quad*)(x + at_(first + 8 * j + b.g, word));
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
  float most[2] = {-3.0e38f, -3.0e38f}, sum[2] = {0, 0};
  bool in[4][4];
  UNROLL for (int k = 0; k < 4; k++) {
    int base = graphs.base[row_of(b, k / 2)], size = graphs.size[row_of(b, k / 2)];
    UNROLL for (int j = 0; j < 4; j++) {
      int node = node_of(b, j) + k % 2 - base;
      in[j][k] = node >= 0 && node < size;
      if (in[j][k]) most[k / 2] = more_(most[k / 2], c[j][k]);
    }
  }
  over_nodes(most, b, parts[0], true);
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int k = 0; k < 4; k++) {
      c[j][k] = in[j][k] ? exp_(c[j][k] - most[k / 2]) : 0;
      sum[k / 2] += c[j][k];
    }
  over_nodes(sum, b, parts[1], false);
  UNROLL for (int side = 0; side < 2; side++) sum[side] = sum[side] == 0 ? 0 : 1.0f / sum[side];
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

// Where a pair of nodes of a row of weights lies.
VSE_INLINE int pair_(int row, int pair) { return row * (kRows / 2) + (pair ^ (row & 7) << 2); }

VSE_INLINE void put_weights(u32* weights, const Block& b, Scores p) {
  if ((b.warp & 3) >= b.m) return;
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int side = 0; side < 2; side++)
      weights[pair_(row_of(b, side), node_of(b, j) / 2)] = two_(p[j][2 * side], p[j][2 * side + 1]);
}

// Of two pairs the lower or the upper values, as a pair.
VSE_INLINE u32 halves_(u32 one, u32 next, bool upper) {
  return upper ? one >> 16 | (next & 0xffff0000u) : (one & 0xffffu) | next << 16;
}

// x += the weights, or with turned their transpose, times the rows of the tile.
VSE_INLINE void mix_(Columns x, const Block& b, const u32* weights, const u32* tile, bool turned) {
  if (b.warp >= b.steps) return;
  for (int k = 0; k < b.m; k++) {
    int row = 16 * k + 2 * b.t, word = 16 * b.warp + b.g / 2 * 4;
    u32 w[4][2];
    UNROLL for (int e = 0; e < 2; e++) {
      Quad one = *(const Quad*)(tile + at_(row + 8 * e, word));
      Quad next = *(const Quad*)(tile + at_(row + 8 * e + 1, word));
      UNROLL for (int j = 0; j < 4; j++) w[j][e] = halves_(one[j], next[j], b.g % 2);
    }
    UNROLL for (int i = 0; i < 4; i++) {
      if (i >= b.m || !meets(b, i, 16 * k, 16)) continue;
      u32 a[4];
      UNROLL for (int e = 0; e < 4; e++) {
        int of = row_(b, i, e % 2), at = row + e / 2 * 8;
        if (turned) a[e] = halves_(weights[pair_(at, of / 2)], weights[pair_(at + 1, of / 2)], b.g % 2);
        else a[e] = weights[pair_(of, at / 2)];
      }
      UNROLL for (int j = 0; j < 4; j++) mma_(x[i][j], a, w[j]);
    }
  }
}

// x goes to to and to half, of which either may be null.
VSE_INLINE void write_(float* to, bf16* half, const Block& b, Columns x) {
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int side = 0; side < 2; side++) {
      int row = row_(b, i, side);
      if (row >= b.rows || b.column >= b.s) continue;
      float v[8];
      values_(v, x, i, side);
      i64 at = b.from;
      if (to) write_eight(to + at + row * b.s + b.column, v, 0, 8);
      if (half) write_eight_halves(half + at + row * b.s + b.column, v, 0, 8);
    }
}

// Adds a bias to the columns of x.
VSE_INLINE void add_bias_(Columns x, const Block& b, const float* bias) {
  UNROLL for (int k = 0; k < 8; k++) {
    float v = b.column + k < b.s ? bias[b.column + k] : 0;
    UNROLL for (int i = 0; i < 4; i++) x[i][k / 2][k % 2] += v, x[i][k / 2][2 + k % 2] += v;
  }
}

// out, and its copy where there is one, from x or its copy half, for the tiles of all images; y = Q where it is there.
// packed: M, and W transposed. per is the number of tiles of an image.
KERNEL reason_graphs(float* out, bf16* copy, float* y, const float* x, const bf16* half, const u32* packed,
                     const float* v, const float* bias, const int* tiles, const int* first, const int* captions,
                     int nodes, int per, int s, i64 units) {
  i64 image = blockIdx.x / per;
  int begin = tiles[blockIdx.x % per], rows = tiles[blockIdx.x % per + 1] - begin;
  if (rows <= 0) return;
  u32 *at_x = (u32*)shared_tiles, *at_q = at_x + kTile, *weights = at_q + kTile;
  Block b = block_(image * nodes + begin, rows, s);
  if (half) load_tile<4>(at_x, b, half);
  else load_tile<4>(at_x, b, x);
  graphs_(b, first, captions, begin);
  __syncthreads();
  Columns c;
  clear_(c);
  product_(c, b, at_x, packed);
  add_bias_(c, b, v);
  if (y) write_(y, 0, b, c);
  store_tile(at_q, b, c);
  __syncthreads();
  Scores p;
  dots_(p, b, at_q, at_x);
  softmax_(p, b, (Halves*)(weights + kWeights));
  put_weights(weights, b, p);
  __syncthreads();
  clear_(c);
  mix_(c, b, weights, at_x, false);
  store_tile(at_q, b, c);
  __syncthreads();
  clear_(c);
  product_(c, b, at_q, packed + kPacked);
  add_bias_(c, b, bias);
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int k = 0; k < 4; k++) c[i][j][k] = c[i][j][k] < 0 ? 0 : c[i][j][k];
  write_(out, copy, b, c);
}

// dp = dout·(out > 0) and de = dp W, of 64 rows a block; sums [gx, s]: the sums of dp over the rows of a block.
KERNEL reason_out_back(bf16* de, bf16* dp, float* sums, const float* out, const float* dout, const u32* packed, int s,
                       i64 units) {
  __shared__ __attribute__((aligned(16))) u32 tile[kTile];
  __shared__ float parts[2 * kWords * kWarps];
  i64 from = (i64)blockIdx.x * kRows;
  Block b = block_(from, units - from < kRows ? (int)(units - from) : kRows, s);
  float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  int k = 8 * b.lane;
  for (int row = b.warp; row < 16 * b.m; row += kWarps) {
    float v[8], o[8];
    int n = row < b.rows ? s : 0;
    read_eight(v, dout + (from + row) * s, k, n);
    read_eight(o, out + (from + row) * s, k, n);
    UNROLL for (int j = 0; j < 8; j++) v[j] = v[j] * (o[j] > 0), sum[j] += v[j];
    if (b.lane < 4 * b.steps) *(Quad*)(tile + at_(row, 4 * b.lane)) = quad_(v);
    write_eight_halves(dp + (from + row) * s, v, k, n);
  }
  UNROLL for (int j = 0; j < 8; j++) parts[2 * kWords * b.warp + k + j] = sum[j];
  __syncthreads();
  if ((int)threadIdx.x < s) {
    float total = 0;
    for (int w = 0; w < kWarps; w++) total += parts[2 * kWords * w + threadIdx.x];
    sums[(i64)blockIdx.x * s + threadIdx.x] = total;
  }
  Columns c;
  clear_(c);
  product_(c, b, tile, packed);
  write_(0, de, b, c);
}

// The sums of the columns of x over all rows of the tile.
VSE_INLINE void column_sums(float* sums, const Block& b, Columns x) {
  UNROLL for (int k = 0; k < 8; k++) {
    float v = 0;
    UNROLL for (int i = 0; i < 4; i++) v += x[i][k / 2][k % 2] + x[i][k / 2][2 + k % 2];
    for (int d = 4; d < 32; d <<= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (b.g == 0 && b.column + k < b.s) sums[b.column + k] = v;
  }
}

// From de, y = Q and x or its copy half: e = A X and dQ for the products with the weights, dx, and the sums [gx, s] of
// dQ over the rows of each tile. packed: M transposed.
//
//   dS = A∘(dE Xᵀ - Σ A∘(dE Xᵀ))    dQ = dS X    dX = Aᵀ dE + dSᵀ Q + dQ Mᵀ
KERNEL reason_graphs_grad(float* dx, bf16* e, bf16* dq, float* sums, const float* x, const bf16* half, const float* y,
                          const bf16* de, const u32* packed, const int* tiles, const int* first, const int* captions,
                          int nodes, int per, int s, i64 units) {
  i64 image = blockIdx.x / per;
  int begin = tiles[blockIdx.x % per], rows = tiles[blockIdx.x % per + 1] - begin;
  if (rows <= 0) {
    if ((int)threadIdx.x < s) sums[(i64)blockIdx.x * s + threadIdx.x] = 0;
    return;
  }
  u32 *at_x = (u32*)shared_tiles, *at_y = at_x + kTile, *weights = at_y + kTile, *slopes = weights + kWeights;
  __shared__ Halves part;
  Block b = block_(image * nodes + begin, rows, s);
  if ((int)threadIdx.x * 64 < rows * s) prefetch_(de + b.from + threadIdx.x * 64);
  load_tile<4>(at_y, b, y);
  if (half) load_tile<4>(at_x, b, half);
  else load_tile<4>(at_x, b, x);
  graphs_(b, first, captions, begin);
  __syncthreads();
  Scores p, d;
  dots_(p, b, at_y, at_x);
  softmax_(p, b, (Halves*)slopes);
  put_weights(weights, b, p);  // all have read what lies in the place of y
  load_tile<4>(at_y, b, de);
  __syncthreads();
  dots_(d, b, at_y, at_x);
  softmax_grad(d, p, b, part);
  put_weights(slopes, b, d);
  __syncthreads();
  Columns c;
  clear_(c);
  mix_(c, b, weights, at_x, false);
  write_(0, e, b, c);
  clear_(c);
  mix_(c, b, slopes, at_x, false);
  write_(0, dq, b, c);
  column_sums(sums + (i64)blockIdx.x * s, b, c);
  __syncthreads();
  store_tile(at_x, b, c);
  __syncthreads();
  clear_(c);
  product_(c, b, at_x, packed);
  mix_(c, b, weights, at_y, true);
  __syncthreads();
  load_tile<2>(at_y, b, y);
  __syncthreads();
  mix_(c, b, slopes, at_y, true);
  write_(dx, 0, b, c);
}
