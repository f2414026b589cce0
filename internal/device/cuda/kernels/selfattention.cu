// Self-attention of captions (device.SelfAttentionArgs; the formulas of device/cpu/selfattention.go). A block works on
// 16 rows (blockIdx.z) of one head (blockIdx.y) of one caption (first + blockIdx.x); the weights [n, n] of its rows lie
// in scratch memory, the heads of a caption one behind the other. The rows of queries, keys, values and their gradients
// lie ld apart.
#include "philox.cuh"
#include "warp.cuh"

enum { kRows = 16, kDepth = 32, kWide = 64 };

// Tile is the block's part of the work.
struct Tile {
  int n, row, rows;  // rows of the caption; the first of the tile and their number
  int size;          // columns of the head
  i64 at;            // first element of the head in a matrix [T, D]
  i64 in;            // and in queries, keys and values
  i64 dropout_start;         // of the tile's first weight in the dropout
  i64 scratch;       // and in the scratch memory
};

VSE_INLINE Tile tile_of(const int* lengths, const int* starts, const i64* squares, int first, int d, int ld) {
  Tile t;
  int c = first + blockIdx.x, h = blockIdx.y, heads = gridDim.y;
  t.size = d / heads;
  t.n = lengths[c];
  t.row = blockIdx.z * kRows;
  t.rows = t.n - t.row < kRows ? t.n - t.row : kRows;
  t.at = (i64)starts[c] * d + h * t.size;
  t.in = (i64)starts[c] * ld + h * t.size;
  t.dropout_start = heads * squares[c] + ((i64)h * t.n + t.row) * t.n;
  t.scratch = t.dropout_start - heads * squares[first];
  return t;
}

// products sets out[i, j] = a_i·b_j for the rows of a tile and all n rows of b; vectors have size values, their rows
// lie lda and ldb apart.
VSE_INLINE void products(float* out, const float* a, i64 lda, const float* b, i64 ldb, int rows, int n, int size) {
  __shared__ float ta[kRows][kDepth + 1], tb[kRows][kDepth + 1];
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  for (int j0 = 0; j0 < n; j0 += kRows) {
    float s = 0;
    for (int k0 = 0; k0 < size; k0 += kDepth) {
      __syncthreads();
      for (int e = threadIdx.x; e < kRows * kDepth; e += 256) {
        int r = e / kDepth, k = e % kDepth;
        ta[r][k] = r < rows && k0 + k < size ? a[r * lda + k0 + k] : 0;
        tb[r][k] = j0 + r < n && k0 + k < size ? b[(j0 + r) * ldb + k0 + k] : 0;
      }
      __syncthreads();
      int depth = size - k0 < kDepth ? size - k0 : kDepth;
      if (y < rows && j0 + x < n)
        for (int k = 0; k < depth; k++) s += ta[y][k] * tb[x][k];
    }
    if (y < rows && j0 + x < n) out[(i64)y * n + j0 + x] = s;
  }
  __syncthreads();
}

// mix sets out_i = Σ_j w_ij v_j for the rows of a tile, and copy_i rounded where it is not null; w_ij lies at i·down +
// j·across. Rows of out lie ldo apart, those of v ld.
VSE_INLINE void mix(float* out, bf16* copy, i64 ldo, const float* w, i64 down, i64 across, const float* v, int rows,
                    int n, int size, i64 ld) {
  __shared__ float tw[kRows][kRows + 1], tv[kRows][kWide + 1];
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  for (int c0 = 0; c0 < size; c0 += kWide) {
    float sum[4] = {0, 0, 0, 0};
    for (int j0 = 0; j0 < n; j0 += kRows) {
      __syncthreads();
      // Neighbouring threads read neighbouring weights.
      int i = across == 1 ? y : x, j = across == 1 ? x : y;
      tw[i][j] = i < rows && j0 + j < n ? w[i * down + (j0 + j) * across] : 0;
      for (int e = threadIdx.x; e < kRows * kWide; e += 256) {
        int r = e / kWide, k = e % kWide;
        tv[r][k] = j0 + r < n && c0 + k < size ? v[(j0 + r) * ld + c0 + k] : 0;
      }
      __syncthreads();
      int many = n - j0 < kRows ? n - j0 : kRows;
      if (y < rows && c0 + x < size)
        for (int k = 0; k < many; k++)
          for (int q = 0; q < 4; q++) sum[q] += tw[y][k] * tv[k][x + 16 * q];
    }
    if (y < rows)
      for (int q = 0; q < 4; q++)
        if (c0 + x + 16 * q < size) {
          out[y * ldo + c0 + x + 16 * q] = sum[q];
          if (copy) copy[y * ldo + c0 + x + 16 * q] = bf16_of(sum[q]);
        }
  }
}

// softmax turns the scores p [n] of a row into weights, over the rows whose word is not 0; by one warp.
VSE_INLINE void softmax(float* p, const int* words, int n, float factor) {
  int lane = threadIdx.x % 32;
  float any = 0;
  if (words)
    for (int j = lane; j < n; j += 32)
      if (words[j]) any = 1;
  bool all = warp_max(any) == 0;
  float top = -as_float(0x7f800000u);
  for (int j = lane; j < n; j += 32)
    if (all || words[j])
      if (p[j] > top || p[j] != p[j]) top = p[j];
  top = warp_max(top);
  float sum = 0;
  for (int j = lane; j < n; j += 32) {
    float e = all || words[j] ? exp_((p[j] - top) * factor) : 0;
    p[j] = e;
    sum += e;
  }
  float scale = 1 / warp_sum(sum);
  for (int j = lane; j < n; j += 32) p[j] *= scale;
}

// words may be null; factor is 1/√(columns of a head).
// Cost: read 4*gx*words*d*3*ceil(words/16); write 4*gx*words*d+2*gx*words*d*copy; flop 4*gx*words*words*d; turns
// 2*d/gy/32*ceil(words/16)*2+words
KERNEL self_attention(float* context, bf16* copy, float* weights, const float* query, const float* key,
                      const float* value, const int* words, const int* lengths, const int* starts, const i64* squares,
                      const int* step, u32 key0, u32 key1, u32 limit, float keep, float factor, int first, int l, int d,
                      int ld) {
  Tile t = tile_of(lengths, starts, squares, first, d, ld);
  if (t.rows <= 0) return;
  float* p = weights + t.scratch;
  products(p, query + t.in + (i64)t.row * ld, ld, key + t.in, ld, t.rows, t.n, t.size);
  for (int i = threadIdx.x / 32; i < t.rows; i += 8) {
    float* row = p + (i64)i * t.n;
    softmax(row, words ? words + (i64)(first + blockIdx.x) * l : 0, t.n, factor);
    if (keep != 0)
      for (int j = threadIdx.x % 32; j < t.n; j += 32)
        row[j] *= dropout_factor(t.dropout_start + (i64)i * t.n + j, step, key0, key1, limit, keep);
  }
  mix(context + t.at + (i64)t.row * d, copy ? copy + t.at + (i64)t.row * d : 0, d, p, t.n, 1, value + t.in, t.rows, t.n,
      t.size, ld);
}

// The first half of the gradient: the weights with dropout, dS, and dQ = dS K.
// Cost: read 4*gx*words*d*4*ceil(words/16); write 4*gx*words*d+2*gx*words*d*copy; flop 6*gx*words*words*d; turns
// 3*d/gy/32*ceil(words/16)*2+words
KERNEL self_attention_rows(float* dquery, bf16* copy, float* weights, float* slopes, const float* dcontext,
                           const float* query, const float* key, const float* value, const int* words,
                           const int* lengths, const int* starts, const i64* squares, const int* step, u32 key0,
                           u32 key1, u32 limit, float keep, float factor, int first, int l, int d, int ld) {
  Tile t = tile_of(lengths, starts, squares, first, d, ld);
  if (t.rows <= 0) return;
  float *p = weights + t.scratch, *s = slopes + t.scratch;
  i64 from = t.in + (i64)t.row * ld;
  products(p, query + from, ld, key + t.in, ld, t.rows, t.n, t.size);
  products(s, dcontext + t.at + (i64)t.row * d, d, value + t.in, ld, t.rows, t.n, t.size);
  for (int i = threadIdx.x / 32; i < t.rows; i += 8) {
    float *row = p + (i64)i * t.n, *ds = s + (i64)i * t.n, mean = 0;
    softmax(row, words ? words + (i64)(first + blockIdx.x) * l : 0, t.n, factor);
    for (int j = threadIdx.x % 32; j < t.n; j += 32) {
      float m = dropout_factor(t.dropout_start + (i64)i * t.n + j, step, key0, key1, limit, keep), g = ds[j] * m;
      mean += row[j] * g;
      ds[j] = g;
    }
    mean = warp_sum(mean);
    for (int j = threadIdx.x % 32; j < t.n; j += 32) {
      ds[j] = row[j] * (ds[j] - mean) * factor;
      if (keep != 0) row[j] *= dropout_factor(t.dropout_start + (i64)i * t.n + j, step, key0, key1, limit, keep);
    }
  }
  mix(dquery + from, copy ? copy + from : 0, ld, s, t.n, 1, key + t.in, t.rows, t.n, t.size, ld);
}

// The other half, for 16 keys: dV = (M∘P)ᵀ dC, dK = dSᵀ Q.
// Cost: read 4*gx*words*d*2*ceil(words/16); write 8*gx*words*d; flop 4*gx*words*words*d; turns
// 2*d/gy/32*ceil(words/16)*2+8
KERNEL self_attention_columns(float* dkey, float* dvalue, bf16* dkey_copy, bf16* dvalue_copy, const float* weights,
                              const float* slopes, const float* dcontext, const float* query, const int* lengths,
                              const int* starts, const i64* squares, int first, int d, int ld) {
  Tile t = tile_of(lengths, starts, squares, first, d, ld);
  if (t.rows <= 0) return;
  i64 head = t.scratch - (i64)t.row * t.n + t.row, to = t.in + (i64)t.row * ld;
  mix(dvalue + to, dvalue_copy ? dvalue_copy + to : 0, ld, weights + head, 1, t.n, dcontext + t.at, t.rows, t.n, t.size,
      d);
  mix(dkey + to, dkey_copy ? dkey_copy + to : 0, ld, slopes + head, 1, t.n, query + t.in, t.rows, t.n, t.size, ld);
}
