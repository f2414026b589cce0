// Layer normalisation of s = x + dropout(branch) and its gradient (device.LayerNormArgs; the formulas of
// device/cpu/layernorm.go). A block for each row.
#include "philox.cuh"

// sum and branch may be null: then s is x. copy, y rounded, may be null.
// Cost: read 4*gx*d*(1+branch); write 4*gx*d*(1+sum)+2*gx*d*copy; flop 30*gx*d; flight 8; turns
// ceil(gx*block/resident)*(3*d/block+2)
KERNEL layer_norm(float* y, bf16* copy, float* sum, float* mean, float* inv, const float* x, const float* branch,
                  const float* weight, const float* bias, const int* step, u32 key0, u32 key1, u32 limit, float factor,
                  int d, float eps) {
  i64 first = (i64)blockIdx.x * d;
  float total = 0;
  if (!branch) {
    sum = (float*)x;
    for (int k = threadIdx.x; k < d; k += blockDim.x) total += x[first + k];
  } else if (factor == 0) {
    for (int k = threadIdx.x; k < d; k += blockDim.x) {
      float s = x[first + k] + branch[first + k];
      sum[first + k] = s;
      total += s;
    }
  } else {
    for (i64 q = first / 4 + threadIdx.x; q * 4 < first + d; q += blockDim.x) {
      u32 c[4];
      draw(c, q, step, key0, key1);
      for (int w = 0; w < 4; w++) {
        i64 at = q * 4 + w;
        if (at < first || at >= first + d) continue;
        float s = x[at] + (c[w] < limit ? 0 : branch[at] * factor);
        sum[at] = s;
        total += s;
      }
    }
  }
  float mu = block_sum(total) / d, squares = 0;
  for (int k = threadIdx.x; k < d; k += blockDim.x) {
    float v = sum[first + k] - mu;
    squares += v * v;
  }
  float scale = (float)(1 / sqrt((double)(block_sum(squares) / d) + (double)eps));
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = mu;
    inv[blockIdx.x] = scale;
  }
  for (int k = threadIdx.x; k < d; k += blockDim.x) {
    float v = (sum[first + k] - mu) * scale * weight[k] + bias[k];
    y[first + k] = v;
    if (copy) copy[first + k] = bf16_of(v);
  }
}

// dbranch may be null, and copy, dbranch rounded.
// Cost: read 8*gx*d; write 4*gx*d*(1+dbranch)+2*gx*d*copy; flop 30*gx*d; flight 8; turns
// ceil(gx*block/resident)*(2*d/block+2)
KERNEL layer_norm_grad(float* dx, float* dbranch, bf16* copy, const float* s, const float* mean, const float* inv,
                       const float* weight, const float* dy, const int* step, u32 key0, u32 key1, u32 limit,
                       float factor, int d) {
  i64 first = (i64)blockIdx.x * d;
  float mu = mean[blockIdx.x], scale = inv[blockIdx.x], all = 0, along = 0;
  for (int k = threadIdx.x; k < d; k += blockDim.x) {
    float g = weight[k] * dy[first + k];
    all += g;
    along += g * ((s[first + k] - mu) * scale);
  }
  all = block_sum(all) / d;
  along = block_sum(along) / d;
  if (!dbranch || factor == 0) {
    for (int k = threadIdx.x; k < d; k += blockDim.x) {
      float v = scale * (weight[k] * dy[first + k] - all - along * ((s[first + k] - mu) * scale));
      dx[first + k] = v;
      if (dbranch) dbranch[first + k] = v;
      if (copy) copy[first + k] = bf16_of(v);
    }
    return;
  }
  for (i64 q = first / 4 + threadIdx.x; q * 4 < first + d; q += blockDim.x) {
    u32 c[4];
    draw(c, q, step, key0, key1);
    for (int w = 0; w < 4; w++) {
      i64 at = q * 4 + w;
      int k = (int)(at - first);
      if (k < 0 || k >= d) continue;
      float v = scale * (weight[k] * dy[at] - all - along * ((s[at] - mu) * scale));
      dx[at] = v;
      v = c[w] < limit ? 0 : v * factor;
      dbranch[at] = v;
      if (copy) copy[at] = bf16_of(v);
    }
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
