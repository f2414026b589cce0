// A step of reasoning on the graphs of a tile of pairs (device.GraphReason): A = softmax(Y Xᵀ), E = A X, and back
//
//   dS = A∘(dE Xᵀ - Σ A∘(dE Xᵀ))    dY = dS X    dX = Aᵀ dE + dSᵀ Y
//
// The products with M and W are matrix products between these kernels. A graph is a few rows of X which stay in the
// cache of a multiprocessor; a warp works on one query at a time. There is a query for each node, or with per > 0 one
// for node 0 of each pair, query b·per + c. Rows of A and dS have row_width for the longest caption. What is an operand
// of products alone is written as bfloat16, to the place that is not null of the two there are; what is more than that
// too, to a copy.
#include "pairs.cuh"

// The graph of query r: captions lists the caption of every node. A node of no caption is a graph of its own, so that
// everything is finite there.
VSE_INLINE Graph query_(const int* first, const int* captions, i64 r, int nodes, int per) {
  i64 b = r / (per ? per : nodes);
  int p = (int)(r - b * (per ? per : nodes));
  if (!per && captions[p] < 0) {
    Graph alone;
    alone.base = r;
    alone.n = 1;
    return alone;
  }
  return graph_(first, b, per ? p : captions[p], nodes);
}

// out = softmax(y·x) where a is null, otherwise a∘(y·x - Σ a∘(y·x)). Where v is there it is added to y, which keeps the
// sum where keep is not 0.
// Cost: read 4*units*s*2+4*units*row_width*a; write 4*units*(words+1)+4*units*s*keep; flop 2*units*(words+1)*s; flight
// 32; turns units/(gx*block/32)*(ceil((words+1)/8)*s/32+6)
KERNEL reason_weights(float* out, float* y, const float* a, const float* v, const float* x, const int* first,
                      const int* captions, int nodes, int per, int row_width, int s, int keep, i64 units) {
  WARPS(r, units) {
    Graph g = query_(first, captions, r, nodes, per);
    float* to = out + r * row_width;
    if (keep) LANES(i, s) y[r * s + i] += v[i];
    warp_dots(to, y + r * s, x + g.base * s, g.n, s, v && !keep, v);
    if (a) {
      float mean = 0;
      DOTS(k, g.n) mean += a[r * row_width + k] * to[k];
      mean = warp_sum(mean);
      DOTS(k, g.n) to[k] = a[r * row_width + k] * (to[k] - mean);
      continue;
    }
    float most = -3.0e38f, sum = 0;
    DOTS(k, g.n) if (to[k] > most || to[k] != to[k]) most = to[k];
    most = warp_max(most);
    DOTS(k, g.n) {
      float v = exp_(to[k] - most);
      to[k] = v;
      sum += v;
    }
    sum = 1.0f / warp_sum(sum);
    DOTS(k, g.n) to[k] *= sum;
  }
}

// e = Σ_k a_k x_k; e or half may be null.
// Cost: read 4*units*s; write 4*units*s*e+2*units*s*half; flop 2*units*(words+1)*s; turns
// units/(gx*block/32)*s/32*(words+1)/4
KERNEL reason_mix(float* e, bf16* half, const float* a, const float* x, const int* first, const int* captions,
                  int nodes, int per, int row_width, int s, i64 units) {
  WARPS(r, units) {
    Graph g = query_(first, captions, r, nodes, per);
    const float *w = a + r * row_width, *from = x + g.base * s;
    LANES(i, s) {
      float v = 0;
      for (int k = 0; k < g.n; k++) v += w[k] * from[(i64)k * s + i];
      if (e) e[r * s + i] = v;
      if (half) half[r * s + i] = bf16_of(v);
    }
  }
}

// For every node j: e = Σ_k A_jk x_k, dy = Σ_k dS_jk x_k, dx = Σ_k A_kj de_k + dS_kj y_k. copy [·] is dy rounded, half
// e; both are null or none.
// Cost: read 12*units*s; write 8*units*s+4*units*s*e+4*units*s*half; flop 8*units*(words+1)*s; flight 12; turns
// units/(gx*block/32)*s/32*(words+1)/2
KERNEL reason_mix_grad(float* e, bf16* half, float* dy, bf16* copy, float* dx, const float* a, const float* ds,
                       const float* x, const float* y, const float* de, const int* first, const int* captions,
                       int nodes, int row_width, int s, i64 units) {
  WARPS(r, units) {
    Graph g = query_(first, captions, r, nodes, 0);
    const float *aj = a + r * row_width, *dj = ds + r * row_width, *ak = a + g.base * row_width + (r - g.base),
                *dk = ds + g.base * row_width + (r - g.base);
    LANES(i, s) {
      float se = 0, sy = 0, sx = 0;
      i64 at = g.base * s + i;
      for (int k = 0; k < g.n; k++, at += s) {
        float v = x[at];
        se += aj[k] * v;
        sy += dj[k] * v;
        sx += ak[(i64)k * row_width] * de[at] + dk[(i64)k * row_width] * y[at];
      }
      if (half) half[r * s + i] = bf16_of(se), copy[r * s + i] = bf16_of(sy);
      else e[r * s + i] = se;
      dy[r * s + i] = sy;
      dx[r * s + i] = sx;
    }
  }
}

// dx of every node k of a pair whose node 0 alone has a query q: a_k de + ds_k q, and for node 0 back, what its own
// query gives. 0 for nodes of no caption.
// Cost: read 4*units*s; write 4*units*s; flop 5*units*s; flight 8; turns units/(gx*block/32)*2
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
// Cost: read 4*units*s; write 4*units*s*(1-half)+2*units*s*half
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
// Cost: read 4*count; write 4*count+2*count*copy; flop 2*count
KERNEL reason_out(float* out, bf16* copy, const float* bias, int s, i64 count) {
  EACH(i, count) {
    float v = out[i] + bias[i % s];
    v = v < 0 ? 0 : v;
    out[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}

// dp = dout·(out > 0), the gradient of what reason_out takes; copy may be null.
// Cost: read 8*count; write 4*count+2*count*copy; flop 2*count; flight 8
KERNEL reason_out_grad(float* dp, bf16* copy, const float* out, const float* dout, i64 count) {
  EACH(i, count) {
    float v = dout[i] * (out[i] > 0);
    dp[i] = v;
    if (copy) copy[i] = bf16_of(v);
  }
}
