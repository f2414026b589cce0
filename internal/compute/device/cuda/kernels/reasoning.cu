// What a step of reasoning (device.GraphReason) does around its products and its attention (reasonattention.cu). What
// is an operand of products alone is written as bfloat16, to the place that is not null of the two there are; what is
// more than that too, to a copy.
#include "pairs.cuh"
#include "vector.cuh"

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

// out = ReLU(out + bias) for rows of s values; copy may be null. s is a multiple of 4 and bias lies at one of 16 bytes,
// or head is n.
KERNEL reason_out(float* out, bf16* copy, const float* bias, int s, i64 head, i64 n) {
  EACH_FOUR(i, head, n) {
    Four v = four(out + i) + four(bias + (u32)i % (u32)s);
    UNROLL for (int j = 0; j < 4; j++) v[j] = v[j] < 0 ? 0 : v[j];
    put_four(out + i, v);
    if (copy) put_four(copy + i, v);
  }
  EACH_ONE(i, head, n) {
    float v = out[i] + bias[(u32)i % (u32)s];
    v = v < 0 ? 0 : v;
    out[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}
