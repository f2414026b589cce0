// Steps of reasoning on tensor cores (device.GraphReason; without First): what reasoning.cu computes between products,
// and the products, with operands in bfloat16 and values that stay in a multiprocessor.
//
//   Q = X M + v    A = softmax(Q Xᵀ)    E = A X    Out = ReLU(E Wᵀ + bias)
//
// A block works on a tile of up to 64 rows of nodes, whole graphs of one image (reason_tiles). Warp w has the columns
// from 32w on, of all rows. In registers they lie as the results of the instruction (mma.cuh), in an order in which a
// lane has eight neighbouring values of a row: column 32w + 8t + 2j + i is column 2t + i of the warp's tile j. Where a
// product sums over columns, its operands have the same order: step i of the two steps over 32 columns takes the tiles
// 2i and 2i + 1. In shared memory rows are pairs of bfloat16, in an order that avoids conflicts of banks.
#define VSE_THREADS 256
#define VSE_BLOCKS 2
#include "mma.cuh"

enum {
  kRows = 64,    // of a tile (Go: graphRows)
  kWords = 128,  // pairs of columns of a row, at most
  kBand = 60,    // words of a row of weights, so that eight rows lie in different banks
  kWarps = 8,
  kPacked = 32768,  // words of a packed weight
  kCaptions = 4095  // at most (Go: graphCaptions)
};

namespace {  // of every block
__shared__ __attribute__((aligned(16))) u32 tile[kRows * kWords];
__shared__ float band[kRows * kBand];
}  // namespace

// packed: two weights [s, s] as operands B, the second transposed. Word q of a lane holds the rows 8t + 2q + 0, 1 of
// 32; rows and columns that are not there are 0.
// Cost: read 8*s*s; write 8*gx*block; flight 8
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
// Cost: read 8*captions; write 4*count; turns 4+count*0.1
KERNEL reason_tiles(int* tiles, const int* first, const int* node_caption, int captions, int nodes, int count) {
  int *start = (int*)tile, *next = start + kCaptions + 1;
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

// The tile gets the rows of x.
template <class T>
VSE_INLINE void load_tile(const Block& b, const T* x) {
  for (int row = b.warp; row < 16 * b.m; row += kWarps)
    if (b.lane < 4 * b.steps) *(Quad*)(tile + at_(row, 4 * b.lane)) = operand_(b, x, row, 8 * b.lane);
}

// The eight values that a lane has of a row.
VSE_INLINE void values_(float* v, Columns x, int i, int side) {
  UNROLL for (int k = 0; k < 8; k++) v[k] = x[i][k / 2][2 * side + k % 2];
}

// The tile gets x.
VSE_INLINE void store_tile(const Block& b, Columns x) {
  if (b.warp >= b.steps) return;
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int side = 0; side < 2; side++) {
      float v[8];
      values_(v, x, i, side);
      if (i < b.m) *(Quad*)(tile + at_(row_(b, i, side), 16 * b.warp + 4 * b.t)) = quad_(v);
    }
}

// x += the tile times a packed weight.
VSE_INLINE void product_(Columns x, const Block& b, const u32* packed) {
  if (b.warp >= b.steps) return;
  packed += 4 * (b.warp * 4 * 32 + b.lane);
  for (int step = 0; step < b.steps; step++, packed += 4096) {
    Quad w[4];
    UNROLL for (int j = 0; j < 4; j++) w[j] = *(const Quad*)(packed + 128 * j);
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

// band [rows, kBand] = a·x for the nodes x of the graph of each row, in the tile; a lane gives the operand of its rows,
// of the warp's columns. Warps take turns, each adds its columns to 16 rows and half the nodes at a time.
VSE_INLINE void dots_(const Block& b, const Quad (*a)[2]) {
  for (int turn = 0; turn < kWarps; turn++) {
    int i = (b.warp + turn) & 3, half = (b.warp / 4 + turn / 4) & 1;
    Quad low = a[0][0], high = a[0][1];
    UNROLL for (int k = 1; k < 4; k++)
      if (i == k) low = a[k][0], high = a[k][1];
    u32 a1[4] = {low[0], high[0], low[1], high[1]}, a2[4] = {low[2], high[2], low[3], high[3]};
    UNROLL for (int j = 0; j < 4; j++) {
      int node = 32 * half + 8 * j;
      if (!meets(b, i, node, 8)) continue;
      float c[4] = {0, 0, 0, 0};
      if (b.warp < b.steps) {
        Quad w = *(const Quad*)(tile + at_(node + b.g, 16 * b.warp + 4 * b.t));
        u32 w1[2] = {w[0], w[1]}, w2[2] = {w[2], w[3]};
        mma_(c, a1, w1);
        mma_(c, a2, w2);
      }
      UNROLL for (int e = 0; e < 4; e++) {
        int row = row_(b, i, e / 2), k = node + 2 * b.t + e % 2 - graphs.base[row];
        if (k < 0 || k >= graphs.size[row]) continue;
        float* to = band + row * kBand + k;
        *to = turn ? *to + c[e] : c[e];
      }
    }
    __syncthreads();
  }
}

// The weights of eight rows of a warp: a lane has the nodes 2·lane and 2·lane + 1 of the tile, 0 outside the graph.
typedef float Weights[8][2];

VSE_INLINE bool inside(const Block& b, int i, int side) {
  int row = 8 * b.warp + i, k = 2 * b.lane + side - graphs.base[row];
  return k >= 0 && k < graphs.size[row];
}

VSE_INLINE void take_weights(Weights p, const Block& b) {
  UNROLL for (int i = 0; i < 8; i++)
    UNROLL for (int side = 0; side < 2; side++) {
      int row = 8 * b.warp + i;
      p[i][side] = inside(b, i, side) ? band[row * kBand + 2 * b.lane + side - graphs.base[row]] : 0;
    }
}

VSE_INLINE void softmax_(Weights p, const Block& b) {
  UNROLL for (int i = 0; i < 8; i++) {
    bool low = inside(b, i, 0), high = inside(b, i, 1);
    float one = low ? p[i][0] : -3.0e38f, next = high ? p[i][1] : -3.0e38f;
    float most = warp_max(one > next || one != one ? one : next);
    one = low ? exp_(one - most) : 0, next = high ? exp_(next - most) : 0;
    float sum = warp_sum(one + next), f = sum == 0 ? 0 : 1.0f / sum;  // a row that is not there has no node
    p[i][0] = one * f, p[i][1] = next * f;
  }
}

// d = p∘(d - Σ p∘d), the gradient of what softmax_ takes, from the gradient d of the weights p.
VSE_INLINE void softmax_grad(Weights d, Weights p) {
  UNROLL for (int i = 0; i < 8; i++) {
    float mean = warp_sum(p[i][0] * d[i][0] + p[i][1] * d[i][1]);
    UNROLL for (int side = 0; side < 2; side++) d[i][side] = p[i][side] * (d[i][side] - mean);
  }
}

typedef u32 Rounded[8];  // weights in bfloat16

VSE_INLINE void round_(Rounded to, Weights p) {
  UNROLL for (int i = 0; i < 8; i++) to[i] = two_(p[i][0], p[i][1]);
}

// As an operand [kRows, kRows] of the nodes of the tile.
VSE_INLINE u32* weights_(const Block& b) { return (u32*)band + 8 * b.warp * kBand + b.lane; }
VSE_INLINE void put_weights(const Block& b, Rounded p) {
  UNROLL for (int i = 0; i < 8; i++) weights_(b)[i * kBand] = p[i];
}

// As its transpose.
VSE_INLINE void put_transposed(const Block& b, Rounded p) {
  u32* to = (u32*)band + 2 * b.lane * kBand + 4 * b.warp;
  UNROLL for (int i = 0; i < 4; i++) {
    to[i] = (p[2 * i] & 0xffffu) | p[2 * i + 1] << 16;
    to[kBand + i] = p[2 * i] >> 16 | (p[2 * i + 1] & 0xffff0000u);
  }
}

// Where a lane's weights of row i are kept behind the operand, null where they are none of the graph: there are
// 28 pairs of nodes, enough for 55 nodes from any on (Go: graphNodes).
VSE_INLINE u32* kept_(const Block& b, int i) {
  int row = 8 * b.warp + i, at = b.lane - graphs.base[row] / 2;
  return at < 0 || at >= kBand - kRows / 2 ? 0 : (u32*)band + row * kBand + kRows / 2 + at;
}

VSE_INLINE void keep_weights(const Block& b, Rounded p) {
  UNROLL for (int i = 0; i < 8; i++)
    if (u32* to = kept_(b, i)) *to = p[i];
}

// Exchanges the weights of the operand, which go to p, and those that are kept, which go to q.
VSE_INLINE void exchange_weights(Rounded p, Rounded q, const Block& b) {
  UNROLL for (int i = 0; i < 8; i++) {
    p[i] = weights_(b)[i * kBand];
    u32* at = kept_(b, i);
    q[i] = at ? *at : 0;
    if (at) *at = p[i];
  }
}

// x += the operand of put_weights times the rows of the tile.
VSE_INLINE void mix_(Columns x, const Block& b) {
  if (b.warp >= b.steps) return;
  const u32* weights = (const u32*)band;
  for (int k = 0; k < b.m; k++) {
    int row = 16 * k + 2 * b.t, word = 16 * b.warp + b.g / 2 * 4;
    u32 w[4][2];
    UNROLL for (int e = 0; e < 2; e++) {
      Quad one = *(const Quad*)(tile + at_(row + 8 * e, word));
      Quad next = *(const Quad*)(tile + at_(row + 8 * e + 1, word));
      UNROLL for (int j = 0; j < 4; j++)
        w[j][e] = b.g % 2 ? one[j] >> 16 | (next[j] & 0xffff0000u) : (one[j] & 0xffffu) | next[j] << 16;
    }
    UNROLL for (int i = 0; i < 4; i++) {
      if (!meets(b, i, 16 * k, 16)) continue;
      const u32 *low = weights + row_(b, i, 0) * kBand + 8 * k + b.t, *high = low + 8 * kBand;
      u32 a[4] = {low[0], high[0], low[4], high[4]};
      UNROLL for (int j = 0; j < 4; j++) mma_(x[i][j], a, w[j]);
    }
  }
}

// The operands of the rows of x, for dots_.
VSE_INLINE void operands_(Quad (*a)[2], Columns x) {
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int side = 0; side < 2; side++) {
      float v[8];
      values_(v, x, i, side);
      a[i][side] = quad_(v);
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
// Cost: read 4*units*s-2*units*s*half+8*s*s; write 4*units*s+2*units*s*copy+4*units*s*y; flop 40*units*s; mma
// units*64/(63-words/2)*(4*s*s+4*s*min(64,words+32)); turns ceil(units/(63-words/2)*block*4/resident)*(2+0.8*s/32)
KERNEL reason_graphs(float* out, bf16* copy, float* y, const float* x, const bf16* half, const u32* packed,
                     const float* v, const float* bias, const int* tiles, const int* first, const int* captions,
                     int nodes, int per, int s, i64 units) {
  i64 image = blockIdx.x / per;
  int begin = tiles[blockIdx.x % per], rows = tiles[blockIdx.x % per + 1] - begin;
  if (rows <= 0) return;
  Block b = block_(image * nodes + begin, rows, s);
  if (half) load_tile(b, half);
  else load_tile(b, x);
  graphs_(b, first, captions, begin);
  __syncthreads();
  Columns c;
  clear_(c);
  product_(c, b, packed);
  add_bias_(c, b, v);
  if (y) write_(y, 0, b, c);
  __syncthreads();  // fewer values at a time: there are registers for no more
  Quad a[4][2];
  operands_(a, c);
  dots_(b, a);
  Weights p;
  take_weights(p, b);
  softmax_(p, b);
  Rounded w;
  round_(w, p);
  __syncthreads();
  put_weights(b, w);
  __syncthreads();
  clear_(c);
  mix_(c, b);
  __syncthreads();
  store_tile(b, c);
  __syncthreads();
  clear_(c);
  product_(c, b, packed + kPacked);
  add_bias_(c, b, bias);
  UNROLL for (int i = 0; i < 4; i++)
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int k = 0; k < 4; k++) c[i][j][k] = c[i][j][k] < 0 ? 0 : c[i][j][k];
  write_(out, copy, b, c);
}

// dp = dout·(out > 0) and de = dp W, of 64 rows a block; sums [gx, s]: the sums of dp over the rows of a block.
// Cost: read 8*units*s+4*s*s; write 4*units*s+4*gx*s; flop 12*units*s; mma 2*gx*64*s*s; turns
// ceil(gx*block*4/resident)*(2+0.4*s/32)
KERNEL reason_out_back(bf16* de, bf16* dp, float* sums, const float* out, const float* dout, const u32* packed, int s,
                       i64 units) {
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
  UNROLL for (int j = 0; j < 8; j++) band[2 * kWords * b.warp + k + j] = sum[j];
  __syncthreads();
  if ((int)threadIdx.x < s) {
    float total = 0;
    for (int w = 0; w < kWarps; w++) total += band[2 * kWords * w + threadIdx.x];
    sums[(i64)blockIdx.x * s + threadIdx.x] = total;
  }
  Columns c;
  clear_(c);
  product_(c, b, packed);
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
//
// Cost: read 4*units*s-2*units*s*half+6*units*s+4*s*s; write 8*units*s+4*gx*s; flop 60*units*s; mma
// units*64/(63-words/2)*(2*s*s+12*s*min(64,words+32)); turns
// ceil(units/(63-words/2)*block*4/resident)*(4+0.4*s/32)
KERNEL reason_graphs_grad(float* dx, bf16* e, bf16* dq, float* sums, const float* x, const bf16* half, const float* y,
                          const bf16* de, const u32* packed, const int* tiles, const int* first, const int* captions,
                          int nodes, int per, int s, i64 units) {
  i64 image = blockIdx.x / per;
  int begin = tiles[blockIdx.x % per], rows = tiles[blockIdx.x % per + 1] - begin;
  if (rows <= 0) {
    if ((int)threadIdx.x < s) sums[(i64)blockIdx.x * s + threadIdx.x] = 0;
    return;
  }
  Block b = block_(image * nodes + begin, rows, s);
  Quad a[4][2];
  UNROLL for (int i = 0; i < 8; i++) a[i / 2][i % 2] = operand_(b, y, row_(b, i / 2, i % 2), b.column);
  if (half) load_tile(b, half);
  else load_tile(b, x);
  graphs_(b, first, captions, begin);
  __syncthreads();
  dots_(b, a);
  UNROLL for (int i = 0; i < 8; i++) a[i / 2][i % 2] = operand_(b, de, row_(b, i / 2, i % 2), b.column);
  Weights p, d;
  take_weights(p, b);
  softmax_(p, b);
  __syncthreads();
  dots_(b, a);
  take_weights(d, b);
  softmax_grad(d, p);
  Rounded wp, wd;
  round_(wp, p);
  round_(wd, d);
  __syncthreads();
  keep_weights(b, wd);
  put_weights(b, wp);
  __syncthreads();
  Columns c;
  clear_(c);
  mix_(c, b);
  write_(0, e, b, c);
  __syncthreads();
  exchange_weights(wp, wd, b);
  put_weights(b, wd);
  __syncthreads();
  clear_(c);
  mix_(c, b);
  write_(0, dq, b, c);
  column_sums(sums + (i64)blockIdx.x * s, b, c);
  __syncthreads();
  store_tile(b, c);
  exchange_weights(wd, wp, b);
  __syncthreads();
  put_transposed(b, wp);
  __syncthreads();
  clear_(c);
  product_(c, b, packed);
  __syncthreads();
  load_tile(b, de);
  __syncthreads();
  mix_(c, b);
  __syncthreads();
  load_tile(b, y);
  UNROLL for (int i = 0; i < 8; i++) {
    const u32* at = kept_(b, i);
    wd[i] = at ? *at : 0;
  }
  put_transposed(b, wd);
  __syncthreads();
  mix_(c, b);
  write_(dx, 0, b, c);
}
