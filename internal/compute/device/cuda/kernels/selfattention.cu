// Self-attention of captions (device.SelfAttention; the formulas of device/cpu/selfattention.go). A block works on
// 16 rows (blockIdx.z) of one head (blockIdx.y) of one caption (first + blockIdx.x). The weights [n, n] of a head lie
// in scratch memory, the heads of a caption one after the other. The rows of queries, keys, values and their gradients
// lie ld apart. Where lengths are bounds, memory has rows rows, otherwise 0, and the blocks of one more caption clear
// those that belong to none.
#include "selfattention.cuh"

enum { kRows = 16, kWide = 64 };

// clears reports whether the block is one of those that clear.
VSE_INLINE bool clears(int rows) { return rows && blockIdx.x == gridDim.x - 1; }

// Tile is the block's part of the work.
struct Tile {
  int n, row, rows;  // rows of the caption; the first of the tile and their number
  int size;          // columns of the head
  i64 at;            // first element of the head in a matrix [T, D]
  i64 in;            // and in queries, keys and values
  i64 column;        // of the tile's first weight in the dropout of its caption
  i64 scratch;       // the place of that weight in the scratch memory
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
  t.column = ((i64)h * t.n + t.row) * t.n;
  t.scratch = heads * (squares[c] - squares[first]) + t.column;
  return t;
}

// load reads 16 rows of at most 64 columns, which lie ld apart, to shared memory; all of a thread's values are on their
// way at once. What is not there is 0.
VSE_INLINE void load(float (*to)[kWide + 1], const float* x, i64 ld, int rows, int columns) {
  float v[kRows * kWide / 256];
  UNROLL for (int i = 0; i < kRows * kWide / 256; i++) {
    int r = (threadIdx.x + 256 * i) / kWide, k = threadIdx.x % kWide;
    v[i] = r < rows && k < columns ? x[r * ld + k] : 0;
  }
  UNROLL for (int i = 0; i < kRows * kWide / 256; i++) to[(threadIdx.x + 256 * i) / kWide][threadIdx.x % kWide] = v[i];
}

// products sets out[i, j] = a_i·b_j for the rows of a tile and all n rows of b; vectors have size values, their rows
// lie lda and ldb apart.
VSE_INLINE void products(float* out, const float* a, i64 lda, const float* b, i64 ldb, int rows, int n, int size) {
  __shared__ float ta[kRows][kWide + 1], tb[kRows][kWide + 1];
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  for (int j0 = 0; j0 < n; j0 += kRows) {
    float s = 0;
    for (int k0 = 0; k0 < size; k0 += kWide) {
      __syncthreads();
      load(ta, a + k0, lda, rows, size - k0);
      load(tb, b + j0 * ldb + k0, ldb, n - j0, size - k0);
      __syncthreads();
      int depth = size - k0 < kWide ? size - k0 : kWide;
      if (y < rows && j0 + x < n)
        for (int k = 0; k < depth; k++) s += ta[y][k] * tb[x][k];
    }
    if (y < rows && j0 + x < n) out[(i64)y * n + j0 + x] = s;
  }
  __syncthreads();
}

// mix sets out_i = Σ_j w_ij v_j for the rows of a tile, copy_i rounded, and total = Σ_i out_i, each where it is not
// null; w_ij lies at i·down + j·across. The first of out and copy is element to, the first of total element sum_to.
// Rows of out lie ldo apart, the rows of v ld.
VSE_INLINE void mix(float* out, bf16* copy, i64 to, i64 ldo, float* total, i64 sum_to, const float* w, i64 down,
                    i64 across, const float* v, int rows, int n, int size, i64 ld) {
  __shared__ float tw[kRows][kRows + 1], tv[kRows][kWide + 1];
  int y = threadIdx.x / 16, x = threadIdx.x % 16;
  for (int c0 = 0; c0 < size; c0 += kWide) {
    float sum[4] = {0, 0, 0, 0};
    for (int j0 = 0; j0 < n; j0 += kRows) {
      __syncthreads();
      // Neighbouring threads read neighbouring weights.
      int i = across == 1 ? y : x, j = across == 1 ? x : y;
      float weight = i < rows && j0 + j < n ? w[i * down + (j0 + j) * across] : 0;
      load(tv, v + j0 * ld + c0, ld, n - j0, size - c0);
      tw[i][j] = weight;
      __syncthreads();
      int many = n - j0 < kRows ? n - j0 : kRows;
      if (y < rows && c0 + x < size)
        for (int k = 0; k < many; k++)
          for (int q = 0; q < 4; q++) sum[q] += tw[y][k] * tv[k][x + 16 * q];
    }
    if (y < rows)
      for (int q = 0; q < 4; q++)
        if (c0 + x + 16 * q < size) {
          i64 at = to + y * ldo + c0 + x + 16 * q;
          if (out) out[at] = sum[q];
          if (copy) copy[at] = bf16_of(sum[q]);
        }
    if (!total) continue;
    __syncthreads();
    for (int q = 0; q < 4; q++) tv[y][x + 16 * q] = sum[q];
    __syncthreads();
    if (threadIdx.x < kWide && c0 + threadIdx.x < size) {
      float s = 0;
      for (int i = 0; i < rows; i++) s += tv[i][threadIdx.x];
      total[sum_to + c0 + threadIdx.x] = s;
    }
  }
}

// sum_of is the place of the sums of a tile and head in the sums of all, [captions·tiles, 3d].
VSE_INLINE i64 sum_of(int caption, int d) {
  return ((i64)caption * gridDim.z + blockIdx.z) * 3 * d + blockIdx.y * (d / gridDim.y);
}

// nothing writes the sums of a tile without rows.
VSE_INLINE void nothing(float* total, i64 sum_to, int size) {
  if (total)
    for (int k = threadIdx.x; k < size; k += blockDim.x) total[sum_to + k] = 0;
}

// softmax turns the scores p [n] of a row into weights, over the rows whose word is not 0; by one warp. The weight of
// the lane's first row is returned and not written, so that it stays in a register.
VSE_INLINE float softmax(float* p, const int* words, int n, float factor) {
  int lane = threadIdx.x % 32;
  bool there = lane < n, any = there && words && words[lane];
  float first = there ? p[lane] : 0, some = any;
  for (int j = lane + 32; j < n; j += 32)
    if (words && words[j]) some = 1;
  bool all = warp_max(some) == 0, attends = there && (all || any);
  float top = -as_float(0x7f800000u);
  if (attends && (first > top || first != first)) top = first;
  for (int j = lane + 32; j < n; j += 32)
    if (all || words[j])
      if (p[j] > top || p[j] != p[j]) top = p[j];
  top = warp_max(top);
  float sum = first = attends ? exp_((first - top) * factor) : 0;
  for (int j = lane + 32; j < n; j += 32) {
    float e = all || words[j] ? exp_((p[j] - top) * factor) : 0;
    p[j] = e;
    sum += e;
  }
  float scale = 1 / warp_sum(sum);
  for (int j = lane + 32; j < n; j += 32) p[j] *= scale;
  return first * scale;
}

// words may be null; factor is 1/√(columns of a head); context or copy may be null.
KERNEL self_attention(float* context, bf16* copy, float* weights, const float* query, const float* key,
                      const float* value, const int* words, const int* lengths, const int* starts, const i64* squares,
                      const int* step, const int* numbers, u32 key0, u32 key1, u32 limit, float keep, float factor,
                      int first, int l, int d, int ld, int rows) {
  if (clears(rows)) return clear(context, copy, d, starts[first + blockIdx.x], rows, blockIdx.y, d / gridDim.y);
  Tile t = tile_of(lengths, starts, squares, first, d, ld);
  if (t.rows <= 0) return;
  float* p = weights + t.scratch;
  products(p, query + t.in + (i64)t.row * ld, ld, key + t.in, ld, t.rows, t.n, t.size);
  for (int i = threadIdx.x / 32; i < t.rows; i += 8) {
    int at = t.column + i * t.n, number = keep != 0 ? numbers[starts[first + blockIdx.x]] : 0;
    float *row = p + (i64)i * t.n,
          w = softmax(row, words ? words + (i64)(first + blockIdx.x) * l : 0, t.n, factor);
    for (int j = threadIdx.x % 32; j < t.n; j += 32) {
      if (j >= 32) w = row[j];
      row[j] = w * kept_(number, at + j, step, key0, key1, limit, keep);
    }
  }
  mix(context, copy, t.at + (i64)t.row * d, d, 0, 0, p, t.n, 1, value + t.in, t.rows, t.n, t.size, ld);
}

// The first half of the gradient: the weights with dropout, dS, and dQ = dS K. part [captions·tiles, 3d], which may be
// null, gets the sums of the columns of dQ, dK and dV over each tile. dquery or copy may be null.
KERNEL self_attention_rows(float* dquery, bf16* copy, float* part, float* weights, float* slopes, const float* dcontext,
                           const float* query, const float* key, const float* value, const int* words,
                           const int* lengths, const int* starts, const i64* squares, const int* step,
                           const int* numbers, u32 key0, u32 key1, u32 limit, float keep, float factor, int first,
                           int l, int d, int ld, int rows) {
  int caption = first + blockIdx.x, size = d / gridDim.y;
  if (clears(rows)) return clear(dquery, copy, ld, starts[caption], rows, blockIdx.y, size);
  Tile t = tile_of(lengths, starts, squares, first, d, ld);
  if (t.rows <= 0) return nothing(part, sum_of(caption, d), size);
  float *p = weights + t.scratch, *s = slopes + t.scratch;
  i64 from = t.in + (i64)t.row * ld;
  products(p, query + from, ld, key + t.in, ld, t.rows, t.n, size);
  products(s, dcontext + t.at + (i64)t.row * d, d, value + t.in, ld, t.rows, t.n, size);
  for (int i = threadIdx.x / 32; i < t.rows; i += 8) {
    int at = t.column + i * t.n, number = keep != 0 ? numbers[starts[caption]] : 0;
    int lane = threadIdx.x % 32;
    float *row = p + (i64)i * t.n, *ds = s + (i64)i * t.n,
          w = softmax(row, words ? words + (i64)caption * l : 0, t.n, factor), kept = 0, m = 0, mean = 0;
    if (lane < t.n) {
      m = kept_(number, at + lane, step, key0, key1, limit, keep);
      kept = ds[lane] * m;
      mean = w * kept;
    }
    for (int j = lane + 32; j < t.n; j += 32) {
      float g = ds[j] * kept_(number, at + j, step, key0, key1, limit, keep);
      mean += row[j] * g;
      ds[j] = g;
    }
    mean = warp_sum(mean);
    for (int j = lane; j < t.n; j += 32) {
      if (j >= 32) w = row[j], kept = ds[j], m = kept_(number, at + j, step, key0, key1, limit, keep);
      ds[j] = w * (kept - mean) * factor;
      row[j] = w * m;
    }
  }
  mix(dquery, copy, from, ld, part, sum_of(caption, d), s, t.n, 1, key + t.in, t.rows, t.n, size, ld);
}

// The other half, for 16 keys: dV = (M∘P)ᵀ dC, dK = dSᵀ Q.
KERNEL self_attention_columns(float* dkey, float* dvalue, bf16* dkey_copy, bf16* dvalue_copy, float* part,
                              const float* weights, const float* slopes, const float* dcontext, const float* query,
                              const int* lengths, const int* starts, const i64* squares, int first, int d, int ld,
                              int rows) {
  int caption = first + blockIdx.x, size = d / gridDim.y;
  if (clears(rows)) {
    clear(dkey, dkey_copy, ld, starts[caption], rows, blockIdx.y, size);
    return clear(dvalue, dvalue_copy, ld, starts[caption], rows, blockIdx.y, size);
  }
  Tile t = tile_of(lengths, starts, squares, first, d, ld);
  i64 sums = sum_of(caption, d);
  if (t.rows <= 0) {
    nothing(part, sums + d, size);
    return nothing(part, sums + 2 * d, size);
  }
  i64 head = t.scratch - (i64)t.row * t.n + t.row, to = t.in + (i64)t.row * ld;
  mix(dkey, dkey_copy, to, ld, part, sums + d, slopes + head, 1, t.n, query + t.in, t.rows, t.n, size, ld);
  mix(dvalue, dvalue_copy, to, ld, part, sums + 2 * d, weights + head, 1, t.n, dcontext + t.at, t.rows, t.n, size, d);
}
