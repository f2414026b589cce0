// Layer normalisation of s = x + dropout(branch), a block for each row, and its gradient (device.LayerNorm; the
// formulas of device/cpu/layernorm.go).
#include "philox.cuh"
#include "vector.cuh"
#include "warp.cuh"

// Row is the row of a block, of which a thread keeps four values from pass to pass; it reads further ones again. Values
// are worked on four at a time, as dropout draws them; the last of a row may be fewer. With aligned the rows of all
// matrices begin at multiples of 16 bytes and have a multiple of four values.
struct Row { i64 first; int d, aligned; };

VSE_INLINE Row row_(int d, int aligned) {
  Row r = {(i64)blockIdx.x * d, d, aligned};
  return r;
}

VSE_INLINE int quad_(int j) { return threadIdx.x + j * blockDim.x; }

// read_ reads four q of the d values x of a row; those behind them are 0.
VSE_INLINE Four read_(const Row& r, const float* x, int q) {
  Four v = {0, 0, 0, 0};
  if (r.aligned && 4 * q < r.d) return four(x + 4 * q);
  for (int w = 0; w < 4; w++)
    if (4 * q + w < r.d) v[w] = x[4 * q + w];
  return v;
}

template <class T> VSE_INLINE void write_(const Row& r, T* x, int q, Four v) {
  if (r.aligned && 4 * q < r.d) return put_four(x + 4 * q, v);
  for (int w = 0; w < 4; w++)
    if (4 * q + w < r.d) put_one(x + 4 * q + w, v[w]);
}

// summed_ is four q of x + dropout(branch), and writes it to sum; without branch that of x. number is that of the row.
VSE_INLINE Four summed_(const Row& r, float* sum, const float* x, const float* branch, int q, int number,
                        const int* step, u32 key0, u32 key1, u32 limit, float factor) {
  Four v = read_(r, x + r.first, q);
  if (!branch) return v;
  Four o = read_(r, branch + r.first, q);
  if (factor != 0) {
    u32 c[4];
    draw(c, number, q, step, key0, key1);
    for (int w = 0; w < 4; w++) o[w] = number < 0 || c[w] < limit ? 0 : o[w] * factor;
  }
  v += o;
  write_(r, sum + r.first, q, v);
  return v;
}

VSE_INLINE float squares_(const Row& r, int q, Four v, float mu) {
  float s = 0;
  for (int w = 0; w < 4; w++)
    if (4 * q + w < r.d) s += (v[w] - mu) * (v[w] - mu);
  return s;
}

VSE_INLINE void normed_(const Row& r, float* y, bf16* copy, int q, Four v, float mu, float scale, const float* weight,
                        const float* bias) {
  Four n = (v - mu) * scale * read_(r, weight, q) + read_(r, bias, q);
  write_(r, y + r.first, q, n);
  if (copy) write_(r, copy + r.first, q, n);
}

// sum and branch may be null: then s is x. copy, y rounded, may be null.
KERNEL layer_norm(float* y, bf16* copy, float* sum, float* mean, float* inv, const float* x, const float* branch,
                  const float* weight, const float* bias, const int* step, const int* numbers, u32 key0, u32 key1,
                  u32 limit, float factor, int d, float eps, int aligned) {
  Row r = row_(d, aligned);
  int number = factor != 0 ? numbers[blockIdx.x] : 0;
  Four kept = summed_(r, sum, x, branch, quad_(0), number, step, key0, key1, limit, factor);
  float total = (kept[0] + kept[1]) + (kept[2] + kept[3]);
  for (int j = 1; 4 * quad_(j) < d; j++) {
    Four v = summed_(r, sum, x, branch, quad_(j), number, step, key0, key1, limit, factor);
    total += (v[0] + v[1]) + (v[2] + v[3]);
  }
  const float* s = (branch ? sum : x) + r.first;
  float mu = block_sum(total) / d, squares = squares_(r, quad_(0), kept, mu);
  for (int j = 1; 4 * quad_(j) < d; j++) squares += squares_(r, quad_(j), read_(r, s, quad_(j)), mu);
  float scale = (float)(1 / sqrt((double)(block_sum(squares) / d) + (double)eps));
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = mu;
    inv[blockIdx.x] = scale;
  }
  normed_(r, y, copy, quad_(0), kept, mu, scale, weight, bias);
  for (int j = 1; 4 * quad_(j) < d; j++)
    normed_(r, y, copy, quad_(j), read_(r, s, quad_(j)), mu, scale, weight, bias);
}

enum { kNormRows = 8 };  // of a block of the gradient (Go: normRows)

VSE_INLINE float sum_(Four v) { return (v[0] + v[1]) + (v[2] + v[3]); }
VSE_INLINE float sum_(float v) { return v; }
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

template <class V>
VSE_INLINE void norm_gradient(float* dx, float* dbranch, bf16* copy, float* part, const float* s, const float* mean,
                              const float* inv, const float* weight, const float* dy, const int* step,
                              const int* numbers, u32 key0, u32 key1, u32 limit, float factor, int rows, int d,
                              float* all, float* along) {
  const int many = sizeof(V) / 4;
  int first = blockIdx.x * kNormRows, n = rows - first < kNormRows ? rows - first : kNormRows;
  for (int i = threadIdx.x / 32; i < n; i += blockDim.x / 32) {
    i64 at = (i64)(first + i) * d;
    float mu = mean[first + i], scale = inv[first + i], p = 0, q = 0;
    for (int k = many * (threadIdx.x & 31); k < d; k += 32 * many) {
      V w, g, x;
      get_(&w, weight + k), get_(&g, dy + at + k), get_(&x, s + at + k);
      g = w * g;
      p += sum_(g);
      q += sum_(g * ((x - mu) * scale));
    }
    p = warp_sum(p) / d, q = warp_sum(q) / d;
    if ((threadIdx.x & 31) == 0) all[i] = p, along[i] = q;
  }
  __syncthreads();
  for (int k = many * threadIdx.x; k < d; k += many * blockDim.x) {
    V w, dw, db, sum;
    get_(&w, weight + k);
    zero_(&dw), zero_(&db), zero_(&sum);
    for (int i = 0; i < n; i++) {
      i64 at = (i64)(first + i) * d + k;
      float mu = mean[first + i], scale = inv[first + i];
      V g, x;
      get_(&g, dy + at), get_(&x, s + at);
      x = (x - mu) * scale;
      dw += g * x;
      db += g;
      V v = scale * (w * g - all[i] - along[i] * x);
      put_(dx + at, v);
      if (!dbranch && !copy) continue;
      if (factor != 0) drop_(&v, numbers[first + i], k, step, key0, key1, limit, factor);
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

// A block takes kNormRows rows: a warp for each makes its two sums, then a thread for each column its gradients.
// dbranch may be null, and copy, dbranch rounded. part [gx, 3, d], which may be null, gets the sums of dy·x̂, of dy and
// of dbranch, or copy before it is rounded, over the rows of each block.
KERNEL layer_norm_grad(float* dx, float* dbranch, bf16* copy, float* part, const float* s, const float* mean,
                       const float* inv, const float* weight, const float* dy, const int* step, const int* numbers,
                       u32 key0, u32 key1, u32 limit, float factor, int rows, int d, int aligned) {
  __shared__ float all[kNormRows], along[kNormRows];  // of the rows
  if (aligned)
    norm_gradient<Four>(dx, dbranch, copy, part, s, mean, inv, weight, dy, step, numbers, key0, key1, limit, factor,
                        rows, d, all, along);
  else
    norm_gradient<float>(dx, dbranch, copy, part, s, mean, inv, weight, dy, step, numbers, key0, key1, limit, factor,
                         rows, d, all, along);
}
