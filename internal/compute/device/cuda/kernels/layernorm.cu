// Layer normalisation of s = x + dropout(branch), a warp for each row, and its gradient (device.LayerNorm; the formulas
// of device/cpu/layernorm.go).
#define VSE_THREADS 192
#define VSE_BLOCKS 2
#include "pairs.cuh"
#include "philox.cuh"
#include "vector.cuh"

// A lane works on fours of values, as dropout draws them, of which it keeps the first kKept from pass to pass; it reads
// further ones again. The last four of a row may be fewer. With aligned the rows of all matrices begin at multiples of
// 16 bytes and have a multiple of four values.
enum { kNormWarps = 4, kKept = 8 };  // rows of a block (Go: normWarps)

VSE_INLINE int quad_(int j) { return (threadIdx.x & 31) + 32 * j; }

// KEPT: j runs over the fours of a row of d values that lanes keep, MORE over the others of a lane.
#define KEPT(j, d) UNROLL for (int j = 0; j < kKept && 128 * j < (d); j++)
#define MORE(j, d) for (int j = kKept; 4 * quad_(j) < (d); j++)

// read_ reads four q of the d values x of a row; those after them are 0.
template <bool aligned> VSE_INLINE Four read_(const float* x, int q, int d) {
  Four v = {0, 0, 0, 0};
  if (aligned) return 4 * q < d ? four(x + 4 * q) : v;
  for (int w = 0; w < 4; w++)
    if (4 * q + w < d) v[w] = x[4 * q + w];
  return v;
}

template <bool aligned, class T> VSE_INLINE void write_(T* x, int q, int d, Four v) {
  if (aligned && 4 * q < d) return put_four(x + 4 * q, v);
  for (int w = 0; w < 4 && !aligned; w++)
    if (4 * q + w < d) put_one(x + 4 * q + w, v[w]);
}

// Norm is one row of it.
struct Norm {
  float *y, *sum;
  bf16* copy;
  const float *x, *branch, *weight, *bias;
  int step[2], number;  // the number of the row
  u32 key0, key1, limit;
  float factor;
  int d;
};

// summed_ is four q of x + dropout(branch), v and o of both, and writes it to sum.
template <bool aligned> VSE_INLINE Four summed_(const Norm& n, int q, Four v, Four o) {
  if (n.factor != 0) {
    u32 c[4];
    draw(c, n.number, q, n.step, n.key0, n.key1);
    for (int w = 0; w < 4; w++) o[w] = n.number < 0 || c[w] < n.limit ? 0 : o[w] * n.factor;
  }
  v += o;
  write_<aligned>(n.sum, q, n.d, v);
  return v;
}

VSE_INLINE float sum_(Four v) { return (v[0] + v[1]) + (v[2] + v[3]); }
VSE_INLINE float sum_(float v) { return v; }

VSE_INLINE float squares_(const Norm& n, int q, Four v, float mu) {
  for (int w = 0; w < 4; w++) v[w] = 4 * q + w < n.d ? v[w] - mu : 0;
  return sum_(v * v);
}

template <bool aligned> VSE_INLINE void normed_(const Norm& n, int q, Four v, float mu, float scale) {
  v = (v - mu) * scale * read_<aligned>(n.weight, q, n.d) + read_<aligned>(n.bias, q, n.d);
  write_<aligned>(n.y, q, n.d, v);
  if (n.copy) write_<aligned>(n.copy, q, n.d, v);
}

template <bool aligned> VSE_INLINE void norm_row(const Norm& n, float* mean, float* inv, float eps) {
  Four kept[kKept], other[kKept];
  float total = 0, squares = 0;
  KEPT(j, n.d) kept[j] = read_<aligned>(n.x, quad_(j), n.d);
  if (n.branch) {
    KEPT(j, n.d) other[j] = read_<aligned>(n.branch, quad_(j), n.d);
    KEPT(j, n.d) kept[j] = summed_<aligned>(n, quad_(j), kept[j], other[j]);
  }
  KEPT(j, n.d) total += sum_(kept[j]);
  MORE(j, n.d) {
    Four v = read_<aligned>(n.x, quad_(j), n.d);
    if (n.branch) v = summed_<aligned>(n, quad_(j), v, read_<aligned>(n.branch, quad_(j), n.d));
    total += sum_(v);
  }
  const float* s = n.branch ? n.sum : n.x;
  float mu = warp_sum(total) / n.d;
  KEPT(j, n.d) squares += squares_(n, quad_(j), kept[j], mu);
  MORE(j, n.d) squares += squares_(n, quad_(j), read_<aligned>(s, quad_(j), n.d), mu);
  float scale = (float)(1 / sqrt((double)(warp_sum(squares) / n.d) + (double)eps));
  if ((threadIdx.x & 31) == 0) *mean = mu, *inv = scale;
  KEPT(j, n.d) normed_<aligned>(n, quad_(j), kept[j], mu, scale);
  MORE(j, n.d) normed_<aligned>(n, quad_(j), read_<aligned>(s, quad_(j), n.d), mu, scale);
}

// sum and branch may be null: then s is x. copy, y rounded, may be null.
KERNEL layer_norm(float* y, bf16* copy, float* sum, float* mean, float* inv, const float* x, const float* branch,
                  const float* weight, const float* bias, const int* step, const int* numbers, u32 key0, u32 key1,
                  u32 limit, float factor, int rows, int d, float eps, int aligned) {
  int row = blockIdx.x * kNormWarps + threadIdx.x / 32;
  if (row >= rows) return;
  i64 at = (i64)row * d;
  Norm n = {y + at, branch ? sum + at : 0, copy ? copy + at : 0, x + at, branch ? branch + at : 0, weight, bias, {0, 0},
            0, key0, key1, limit, factor, d};
  if (factor != 0) n.step[0] = step[0], n.step[1] = step[1], n.number = numbers[row];
  if (aligned) norm_row<true>(n, mean + row, inv + row, eps);
  else norm_row<false>(n, mean + row, inv + row, eps);
}

enum { kNormRows = 8 };  // of a block of the gradient (Go: normRows)

// drop_ drops columns from k on of the row with a number.
VSE_INLINE void drop_(Four* v, int number, int k, const int* step, u32 key0, u32 key1, u32 limit, float factor) {
  u32 c[4];
  draw(c, number, k / 4, step, key0, key1);
  for (int w = 0; w < 4; w++) (*v)[w] = number < 0 || c[w] < limit ? 0 : (*v)[w] * factor;
}
VSE_INLINE void drop_(float* v, int number, int k, const int* step, u32 key0, u32 key1, u32 limit, float factor) {
  float f = dropout_factor(number, k, step, key0, key1, limit, factor);
  *v = f == 0 ? 0 : *v * f;
}

// row_means sets means to the sums of v over the threads of a block, divided by d; part has room for the sums of each
// warp. A warp halves its values four times: then two neighbouring lanes have one each.
VSE_INLINE void row_means(float* means, float (*part)[2 * kNormRows], float* v, int d) {
  UNROLL for (int many = kNormRows; many > 0; many /= 2)
    UNROLL for (int i = 0; i < many; i++) v[i] = half_sum(v[i], v[many + i], 2 * many);
  v[0] += __shfl_xor_sync(0xffffffffu, v[0], 1);
  if (threadIdx.x % 2 == 0) part[threadIdx.x / 32][threadIdx.x % 32 / 2] = v[0];
  __syncthreads();
  if (threadIdx.x < 2 * kNormRows) {
    float s = part[0][threadIdx.x];
    for (u32 w = 1; w < blockDim.x / 32; w++) s += part[w][threadIdx.x];
    means[threadIdx.x] = s / d;
  }
  __syncthreads();
}

// norm_columns reads columns from k on of the n rows of a block from row first on: w is their weight, g dy, x the normed
// values. Where there are fewer rows, the first one stands for the others.
template <class V>
VSE_INLINE void norm_columns(V* w, V* g, V* x, const float* s, const float* mu, const float* scale,
                             const float* weight, const float* dy, int first, int n, int d, int k) {
  get_(w, weight + k);
  UNROLL for (int i = 0; i < kNormRows; i++) {
    i64 at = (i64)(first + (i < n ? i : 0)) * d + k;
    get_(g + i, dy + at), get_(x + i, s + at);
  }
  UNROLL for (int i = 0; i < kNormRows; i++) x[i] = (x[i] - mu[i]) * scale[i];
}

template <class V>
VSE_INLINE void norm_gradient(float* dx, float* dbranch, bf16* copy, float* part, const float* s, const float* mean,
                              const float* inv, const float* weight, const float* dy, const int* step,
                              const int* numbers, u32 key0, u32 key1, u32 limit, float factor, int rows, int d,
                              float* all, float (*warps)[2 * kNormRows]) {
  const int many = sizeof(V) / 4, wide = many * blockDim.x;
  int first = blockIdx.x * kNormRows, n = rows - first < kNormRows ? rows - first : kNormRows, last = -1;
  int drawn[2] = {0, 0};  // step
  float mu[kNormRows], scale[kNormRows], sums[2 * kNormRows];
  V w, g[kNormRows], x[kNormRows];
  if (factor != 0) drawn[0] = step[0], drawn[1] = step[1];
  UNROLL for (int i = 0; i < kNormRows; i++) {
    int row = first + (i < n ? i : 0);
    mu[i] = mean[row], scale[i] = inv[row], sums[i] = sums[kNormRows + i] = 0;
  }
  for (int k = many * threadIdx.x; k < d; last = k, k += wide) {
    norm_columns(&w, g, x, s, mu, scale, weight, dy, first, n, d, k);
    UNROLL for (int i = 0; i < kNormRows; i++) {
      V v = w * g[i];
      sums[i] += sum_(v), sums[kNormRows + i] += sum_(v * x[i]);
    }
  }
  row_means(all, warps, sums, d);
  // From the columns that are there to the first.
  for (int k = last; k >= 0; k -= wide) {
    if (k != last) norm_columns(&w, g, x, s, mu, scale, weight, dy, first, n, d, k);
    V dw, db, sum;
    zero_(&dw), zero_(&db), zero_(&sum);
    UNROLL for (int i = 0; i < kNormRows; i++) {
      if (i >= n) break;
      i64 at = (i64)(first + i) * d + k;
      dw += g[i] * x[i];
      db += g[i];
      V v = scale[i] * (w * g[i] - all[i] - all[kNormRows + i] * x[i]);
      put_(dx + at, v);
      if (!dbranch && !copy) continue;
      if (factor != 0) drop_(&v, numbers[first + i], k, drawn, key0, key1, limit, factor);
      if (dbranch) put_(dbranch + at, v);
      if (copy) put_(copy + at, v);
      sum += v;
    }
    if (!part) continue;
    float* to = part + (i64)blockIdx.x * 3 * d + k;
    put_(to, dw);
    put_(to + d, db);
    put_(to + 2 * d, sum);
  }
}

// A block takes kNormRows rows, a thread the same columns of each: the block makes two means of every row, of values
// that its threads then still have. dbranch may be null, and copy, dbranch rounded. part [gx, 3, d], which may be null, gets
// the sums of dy·x̂, of dy and of dbranch, or copy before it is rounded, over the rows of each block.
KERNEL layer_norm_grad(float* dx, float* dbranch, bf16* copy, float* part, const float* s, const float* mean,
                       const float* inv, const float* weight, const float* dy, const int* step, const int* numbers,
                       u32 key0, u32 key1, u32 limit, float factor, int rows, int d, int aligned) {
  __shared__ float all[2 * kNormRows], warps[VSE_THREADS / 32][2 * kNormRows];  // means of the rows, sums of each warp
  if (aligned)
    norm_gradient<Four>(dx, dbranch, copy, part, s, mean, inv, weight, dy, step, numbers, key0, key1, limit, factor,
                        rows, d, all, warps);
  else
    norm_gradient<float>(dx, dbranch, copy, part, s, mean, inv, weight, dy, step, numbers, key0, key1, limit, factor,
                         rows, d, all, warps);
}
