// Layer normalisation of s = x + dropout(branch) and its gradient (device.LayerNormArgs; the formulas of
// device/cpu/layernorm.go). A block for each row.
#include "philox.cuh"
#include "vector.cuh"

// Row is the row of a block, of which a thread keeps four values from pass to pass; it reads further ones again. Values
// are worked on four at a time, as dropout draws them; the first and the last four of a row may have values of its
// neighbours too, unless aligned says that the rows of all matrices begin at multiples of 16 bytes.
struct Row { i64 first, end; int aligned; };

VSE_INLINE Row row_(int d, int aligned) {
  Row r = {(i64)blockIdx.x * d, (i64)blockIdx.x * d + d, aligned};
  return r;
}

VSE_INLINE i64 quad_(const Row& r, int j) { return r.first / 4 + threadIdx.x + (i64)j * blockDim.x; }
VSE_INLINE int in_(const Row& r, i64 at) { return at >= r.first && at < r.end; }

// read_ reads four q of a row of x, whose values lie at x + offset + 4·q; those of other rows are 0.
VSE_INLINE Four read_(const Row& r, const float* x, i64 q, i64 offset) {
  Four v = {0, 0, 0, 0};
  if (r.aligned && 4 * q < r.end) return four(x + 4 * q + offset);
  for (int w = 0; w < 4; w++)
    if (in_(r, 4 * q + w)) v[w] = x[4 * q + w + offset];
  return v;
}

template <class T> VSE_INLINE void write_(const Row& r, T* x, i64 q, Four v) {
  if (r.aligned && 4 * q < r.end) return put_four(x + 4 * q, v);
  for (int w = 0; w < 4; w++)
    if (in_(r, 4 * q + w)) put_one(x + 4 * q + w, v[w]);
}

// summed_ is four q of x + dropout(branch), and writes it to sum; without branch that of x.
VSE_INLINE Four summed_(const Row& r, float* sum, const float* x, const float* branch, i64 q, const int* step, u32 key0,
                        u32 key1, u32 limit, float factor) {
  Four v = read_(r, x, q, 0);
  if (!branch) return v;
  Four o = read_(r, branch, q, 0);
  if (factor != 0) {
    u32 c[4];
    draw(c, q, step, key0, key1);
    for (int w = 0; w < 4; w++) o[w] = c[w] < limit ? 0 : o[w] * factor;
  }
  v += o;
  write_(r, sum, q, v);
  return v;
}

VSE_INLINE float squares_(const Row& r, i64 q, Four v, float mu) {
  float s = 0;
  for (int w = 0; w < 4; w++)
    if (in_(r, 4 * q + w)) s += (v[w] - mu) * (v[w] - mu);
  return s;
}

VSE_INLINE void normed_(const Row& r, float* y, bf16* copy, i64 q, Four v, float mu, float scale, const float* weight,
                        const float* bias) {
  Four n = (v - mu) * scale * read_(r, weight, q, -r.first) + read_(r, bias, q, -r.first);
  write_(r, y, q, n);
  if (copy) write_(r, copy, q, n);
}

// sum and branch may be null: then s is x. copy, y rounded, may be null.
// Cost: read 4*gx*d*(1+branch); write 4*gx*d*(1+sum)+2*gx*d*copy; flop 30*gx*d; flight 32; turns
// ceil(gx*block/resident)*(2+ceil(d/1024)+2*max(0, ceil(d/1024)-1))
KERNEL layer_norm(float* y, bf16* copy, float* sum, float* mean, float* inv, const float* x, const float* branch,
                  const float* weight, const float* bias, const int* step, u32 key0, u32 key1, u32 limit, float factor,
                  int d, float eps, int aligned) {
  Row r = row_(d, aligned);
  Four kept = summed_(r, sum, x, branch, quad_(r, 0), step, key0, key1, limit, factor);
  float total = (kept[0] + kept[1]) + (kept[2] + kept[3]);
  for (int j = 1; 4 * quad_(r, j) < r.end; j++) {
    Four v = summed_(r, sum, x, branch, quad_(r, j), step, key0, key1, limit, factor);
    total += (v[0] + v[1]) + (v[2] + v[3]);
  }
  const float* s = branch ? sum : x;
  float mu = block_sum(total) / d, squares = squares_(r, quad_(r, 0), kept, mu);
  for (int j = 1; 4 * quad_(r, j) < r.end; j++) squares += squares_(r, quad_(r, j), read_(r, s, quad_(r, j), 0), mu);
  float scale = (float)(1 / sqrt((double)(block_sum(squares) / d) + (double)eps));
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = mu;
    inv[blockIdx.x] = scale;
  }
  normed_(r, y, copy, quad_(r, 0), kept, mu, scale, weight, bias);
  for (int j = 1; 4 * quad_(r, j) < r.end; j++)
    normed_(r, y, copy, quad_(r, j), read_(r, s, quad_(r, j), 0), mu, scale, weight, bias);
}

// slopes_ reads weight·dy and the normalised values of four q, 0 for those of other rows.
VSE_INLINE void slopes_(const Row& r, Four* g, Four* normal, const float* s, float mu, float scale, const float* weight,
                        const float* dy, i64 q) {
  *g = read_(r, weight, q, -r.first) * read_(r, dy, q, 0);
  *normal = (read_(r, s, q, 0) - mu) * scale;
}

VSE_INLINE void norm_slope_(const Row& r, float* dx, float* dbranch, bf16* copy, i64 q, Four g, Four normal, float all,
                            float along, float scale, const int* step, u32 key0, u32 key1, u32 limit, float factor) {
  Four v = scale * (g - all - along * normal);
  write_(r, dx, q, v);
  if (!dbranch) return;
  if (factor != 0) {
    u32 c[4];
    draw(c, q, step, key0, key1);
    for (int w = 0; w < 4; w++) v[w] = c[w] < limit ? 0 : v[w] * factor;
  }
  write_(r, dbranch, q, v);
  if (copy) write_(r, copy, q, v);
}

// dbranch may be null, and copy, dbranch rounded.
// Cost: read 8*gx*d; write 4*gx*d*(1+dbranch)+2*gx*d*copy; flop 30*gx*d; flight 48; turns
// ceil(gx*block/resident)*(2+ceil(d/1024)+max(0, ceil(d/1024)-1))
KERNEL layer_norm_grad(float* dx, float* dbranch, bf16* copy, const float* s, const float* mean, const float* inv,
                       const float* weight, const float* dy, const int* step, u32 key0, u32 key1, u32 limit,
                       float factor, int d, int aligned) {
  Row r = row_(d, aligned);
  Four g, normal;
  float mu = mean[blockIdx.x], scale = inv[blockIdx.x];
  slopes_(r, &g, &normal, s, mu, scale, weight, dy, quad_(r, 0));
  Four p = g, q = g * normal;
  for (int j = 1; 4 * quad_(r, j) < r.end; j++) {
    Four a, b;
    slopes_(r, &a, &b, s, mu, scale, weight, dy, quad_(r, j));
    p += a;
    q += a * b;
  }
  float all = block_sum((p[0] + p[1]) + (p[2] + p[3])) / d, along = block_sum((q[0] + q[1]) + (q[2] + q[3])) / d;
  norm_slope_(r, dx, dbranch, copy, quad_(r, 0), g, normal, all, along, scale, step, key0, key1, limit, factor);
  for (int j = 1; 4 * quad_(r, j) < r.end; j++) {
    Four a, b;
    slopes_(r, &a, &b, s, mu, scale, weight, dy, quad_(r, j));
    norm_slope_(r, dx, dbranch, copy, quad_(r, j), a, b, all, along, scale, step, key0, key1, limit, factor);
  }
}

// Sums over the rows of a piece: part [pieces, 2, d], dy·x̂ and dy. A block sums 32 columns, eight rows at a time.
// Cost: read 8*rows*d; write 8*gy*d; flop 6*rows*d; flight 8; turns per/8
KERNEL layer_norm_params(float* part, const float* s, const float* mean, const float* inv, const float* dy, int rows,
                         int d, int per) {
  __shared__ float sums[2][8][32];
  int lane = threadIdx.x % 32, first = threadIdx.x / 32, col = blockIdx.x * 32 + lane;
  i64 lo = (i64)blockIdx.y * per, hi = lo + per < rows ? lo + per : rows;
  float w = 0, b = 0;
  if (col < d)
    for (i64 r = lo + first; r < hi; r += 8) {
      float g = dy[r * d + col];
      w += g * ((s[r * d + col] - mean[r]) * inv[r]);
      b += g;
    }
  sums[0][first][lane] = w;
  sums[1][first][lane] = b;
  __syncthreads();
  if (first > 1 || col >= d) return;
  float v = 0;
  for (int i = 0; i < 8; i++) v += sums[first][i][lane];
  part[(blockIdx.y * (i64)2 + first) * d + col] = v;
}
