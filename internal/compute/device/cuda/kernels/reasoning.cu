// What a step of reasoning (device.GraphReason) does around its products and its attention (reasonattention.cu). What
// is an operand of products alone is written as bfloat16, to the place that is not null of the two there are; what is
// more than that too, to a copy.
#include "pairs.cuh"

// dx of every node k of a pair whose node 0 alone has a query q: a_k de + ds_k q, and for node 0 back, what its own
// query gives. 0 for nodes of no caption.
KERNEL reason_spread(float* dx, const float* a, const float* ds, const float* de, const float* q, const float* back,
                     const int* first, const int* captions, int nodes, int per, int row_width, int s, i64 units) {
  WARPS(t, units) {
    i64 b = t / nodes;
    int c = captions[t - b * nodes];
    if (c < 0) {
      LANES(i, s) dx[t * s + i] = 0;
      continue;
    }
    i64 r = b * per + c, k = t - (b * nodes + first[c] + c);
    float w = a[r * row_width + k], d = ds[r * row_width + k];
    LANES(i, s) {
      float v = w * de[r * s + i] + d * q[r * s + i];
      dx[t * s + i] = k ? v : v + back[r * s + i];
    }
  }
}

// to [B·C, s]: node 0 of every pair.
KERNEL reason_gather(float* to, bf16* half, const float* x, const int* first, int nodes, int per, int s, i64 units) {
  WARPS(r, units) {
    i64 b = r / per, base = graph_(first, b, (int)(r - b * per), nodes).base;
    LANES(i, s) {
      if (half) half[r * s + i] = bf16_of(x[base * s + i]);
      else to[r * s + i] = x[base * s + i];
    }
  }
}

// out = ReLU(out + bias) for rows of s values; copy may be null.
KERNEL reason_out(float* out, bf16* copy, const float* bias, int s, i64 count) {
  EACH(i, count) {
    float v = out[i] + bias[i % s];
    v = v < 0 ? 0 : v;
    out[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}

// dp = dout·(out > 0), the gradient of what reason_out takes; copy may be null.
KERNEL reason_out_grad(float* dp, bf16* copy, const float* out, const float* dout, i64 count) {
  EACH(i, count) {
    float v = dout[i] * (out[i] > 0);
    dp[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}
