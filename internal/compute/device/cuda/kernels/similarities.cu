// Similarity vectors of a tile of pairs (device.Similarities): rows of images × words, or images × captions, the row
// of image b and word j being b·rows + j. The contexts Σ α v and the products with W are matrix products between these
// kernels.
//
//   z = (u - c)²    s = l2(W z + Bias)    back: d = u - c    dd = 2 d∘dz    dc = -Σ dd    d(Σ α v) = l2'(dd)
#include "pairs.cuh"

// What is an operand of products alone is written as bfloat16, to the place that is not null of the two there are.

// z = (x/(‖x‖ + ε) - c)²; x may be z. norm keeps ‖x‖ where it is not null. With global x is the vector of the image
// [e], taken as it is.
KERNEL similarity_squares(float* z, bf16* half, float* norm, const float* x, const float* c, int rows, int e,
                          int global, i64 units) {
  WARPS(t, units) {
    i64 b = t / rows;
    const float *u = x + (global ? b : t) * e, *v = c + (t - b * rows) * e;
    float f = 1;
    if (!global) {
      float s = 0;
      _Pragma("unroll 8") LANES(k, e) s += u[k] * u[k];
      s = sqrtf(warp_sum(s));
      f = 1.0f / (s + PAIR_EPS);
      if (norm && (threadIdx.x & 31) == 0) norm[t] = s;
    }
    for (int k = threadIdx.x & 31; k < e; k += 128) {
      float x4[4], v4[4];  // on their way at a time
      UNROLL for (int j = 0; j < 4; j++) {
        bool there = k + 32 * j < e;
        x4[j] = there ? u[k + 32 * j] : 0, v4[j] = there ? v[k + 32 * j] : 0;
      }
      UNROLL for (int j = 0; j < 4; j++) {
        if (k + 32 * j >= e) continue;
        float d = x4[j] * f - v4[j];
        i64 to = t * e + k + 32 * j;
        if (half) half[to] = bf16_of(d * d);
        else z[to] = d * d;
      }
    }
  }
}

// The vectors of the nodes from s = W z, and their norms [images, all]; node lists the nodes of the rows, nodes counts
// those of an image. Where filter is not null, the logits are its products with the vectors and filter_bias.
KERNEL similarity_nodes(float* out, float* norms, float* logits, const float* s, const float* bias, const float* filter,
                        const float* filter_bias, const int* node, int rows, int all, int nodes, int size, i64 units) {
  WARPS(t, units) {
    i64 b = t / rows, j = t - b * rows;
    const float* x = s + t * size;
    float* y = out + (b * nodes + node[j]) * size;
    float n = 0;
    LANES(k, size) {
      float v = x[k] + bias[k];
      n += v * v;
    }
    n = sqrtf(warp_sum(n));
    if ((threadIdx.x & 31) == 0) norms[b * all + j] = n;
    n = 1.0f / (n + PAIR_EPS);
    float z = 0;
    LANES(k, size) {
      y[k] = (x[k] + bias[k]) * n;
      if (filter) z += filter[k] * y[k];
    }
    if (!filter) continue;
    z = warp_sum(z);
    if ((threadIdx.x & 31) == 0) logits[b * nodes + node[j]] = z + filter_bias[0];
  }
}

// The gradient of W z + Bias is made by blocks of kNodeRows rows, which also add up what they give: first where its
// rows lie, a thread for each, then its factors, a warp for two rows at a time, then its values, a thread for each
// column.
enum { kNodeRows = 64 };  // (Go: nodeRows)

// NodeRows are the factors of the rows of a block: ds = r·R + w·W + y·Y, and along·Y of the gradient of W. Y begins at
// at_y, R at at_r; at_y is -1 for a row without gradient. They are made of norms and gates.
struct NodeRows {
  i64 at_y[kNodeRows], at_r[kNodeRows];
  float norm[kNodeRows], gate[kNodeRows], y[kNodeRows], r[kNodeRows], w[kNodeRows], along[kNodeRows];
};

enum { kNodesAhead = 4 };  // rows that are on their way at a time

// Writes ds [units, size], or copy, the same rounded, for the n rows from first on; both may be null. part [gx, 2,
// size] gets the sums of ds and of along·Y, without w [gx, size] those of ds.
VSE_INLINE void node_gradients(float* ds, bf16* copy, float* part, const NodeRows* of, const float* y, const float* r,
                               const float* w, i64 first, int n, int size) {
  int kinds = w ? 2 : 1;
  for (int k = threadIdx.x; k < size; k += blockDim.x) {
    float sum = 0, along = 0, filter = w ? w[k] : 0;
    for (int i = 0; i < n; i += kNodesAhead) {
      float a[kNodesAhead], b[kNodesAhead];
      UNROLL for (int j = 0; j < kNodesAhead; j++) {
        bool there = i + j < n && of->at_y[i + j] >= 0;
        a[j] = there ? y[of->at_y[i + j] + k] : 0;
        b[j] = there ? r[of->at_r[i + j] + k] : 0;
      }
      UNROLL for (int j = 0; j < kNodesAhead; j++) {
        if (i + j >= n) continue;
        float d = of->r[i + j] * b[j] + of->y[i + j] * a[j];
        if (w) d += of->w[i + j] * filter;
        sum += d;
        along += of->along[i + j] * a[j];
        i64 to = (first + i + j) * size + k;
        if (ds) ds[to] = d;
        if (copy) copy[to] = bf16_of(d);
      }
    }
    part[(i64)blockIdx.x * kinds * size + k] = sum;
    if (w) part[((i64)blockIdx.x * kinds + 1) * size + k] = along;
  }
}

// The gradient of W z + Bias from that of the vectors.
KERNEL similarity_nodes_grad(float* ds, bf16* copy, float* part, const float* out, const float* dout,
                             const float* norms, const int* node, int rows, int all, int nodes, int size, i64 units) {
  __shared__ NodeRows of;
  i64 first = (i64)blockIdx.x * kNodeRows;
  int n = units - first < kNodeRows ? (int)(units - first) : kNodeRows;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    i64 t = first + i, b = t / rows, j = t - b * rows;
    of.at_y[i] = of.at_r[i] = (b * nodes + node[j]) * size;
    of.norm[i] = norms[b * all + j], of.along[i] = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x / 32; i < n; i += blockDim.x / 16) {
    int next = i + blockDim.x / 32 < n ? i + blockDim.x / 32 : i;
    const float *y = out + of.at_y[i], *g = dout + of.at_y[i], *y2 = out + of.at_y[next], *g2 = dout + of.at_y[next];
    float dot = 0, dot2 = 0;
    _Pragma("unroll 4") LANES(k, size) {
      dot += y[k] * g[k];
      dot2 += y2[k] * g2[k];
    }
    Unit f = unit_(of.norm[i], warp_sum(dot)), f2 = unit_(of.norm[next], warp_sum(dot2));
    if (threadIdx.x & 31) continue;
    of.y[next] = f2.v, of.r[next] = f2.u;
    of.y[i] = f.v, of.r[i] = f.u;
  }
  __syncthreads();
  node_gradients(ds, copy, part, &of, out, dout, 0, first, n, size);
}

// The same where the gradient of a vector has factors, a dr + dz w (device.Filter); along is dz. Rows of no caption
// have none.
KERNEL similarity_filter_grad(float* ds, bf16* copy, float* part, const float* out, const float* w, const float* a,
                              const float* dr, const float* dz, const float* norms, const int* node,
                              const int* node_caption, int captions, int rows, int all, int nodes, int size,
                              i64 units) {
  __shared__ NodeRows of;
  i64 first = (i64)blockIdx.x * kNodeRows;
  int n = units - first < kNodeRows ? (int)(units - first) : kNodeRows;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    i64 t = first + i, b = t / rows, j = t - b * rows, at = b * nodes + node[j];
    int c = node_caption[node[j]];
    of.at_y[i] = c < 0 ? -1 : at * size, of.at_r[i] = c < 0 ? 0 : (b * captions + c) * size;
    of.gate[i] = c < 0 ? 0 : a[at], of.along[i] = c < 0 ? 0 : dz[at];
    of.norm[i] = norms[b * all + j];
  }
  __syncthreads();
  for (int i = threadIdx.x / 32; i < n; i += blockDim.x / 16) {
    int next = i + blockDim.x / 32 < n ? i + blockDim.x / 32 : i;
    float dot = 0, dot2 = 0, u = of.gate[i], v = of.along[i], u2 = of.gate[next], v2 = of.along[next];
    const float *y = out + (of.at_y[i] < 0 ? 0 : of.at_y[i]), *g = dr + of.at_r[i];
    const float *y2 = out + (of.at_y[next] < 0 ? 0 : of.at_y[next]), *g2 = dr + of.at_r[next];
    _Pragma("unroll 2") LANES(k, size) {
      dot += y[k] * (u * g[k] + v * w[k]);
      dot2 += y2[k] * (u2 * g2[k] + v2 * w[k]);
    }
    Unit f = unit_(of.norm[i], warp_sum(dot)), f2 = unit_(of.norm[next], warp_sum(dot2));
    if (threadIdx.x & 31) continue;
    of.y[next] = f2.v, of.r[next] = f2.u * u2, of.w[next] = f2.u * v2;
    of.y[i] = f.v, of.r[i] = f.u * u, of.w[i] = f.u * v;
  }
  __syncthreads();
  node_gradients(ds, copy, part, &of, out, dr, w, first, n, size);
}

// The gradient of the contexts x, to half or in the place of dz, and drows -= Σ_images dd, set before unless add. A
// block walks through the images of one row.
KERNEL similarity_squares_grad(float* dz, bf16* half, float* drows, const float* x, const float* norm, const float* c,
                               int images, int rows, int e, int add) {
  i64 j = blockIdx.x;
  const float* v = c + j * e;
  float* dv = drows + j * e;
  for (i64 b = 0; b < images; b++) {
    i64 t = b * rows + j;
    const float* u = x + t * e;
    float *d = dz + t * e, n = norm[t], f = 1.0f / (n + PAIR_EPS), dot = 0;
    int sum = add || b > 0;
    int next = blockDim.x;
    for (int k = threadIdx.x; k < e; k += 4 * next) {
      float x4[4], v4[4], d4[4], dv4[4];  // on their way at a time
      UNROLL for (int j = 0; j < 4; j++) {
        int at = k + next * j;
        bool there = at < e;
        x4[j] = there ? u[at] : 0, v4[j] = there ? v[at] : 0, d4[j] = there ? d[at] : 0;
        dv4[j] = there && sum ? dv[at] : 0;
      }
      UNROLL for (int j = 0; j < 4; j++) {
        if (k + next * j >= e) continue;
        float y = x4[j] * f, dd = 2 * (y - v4[j]) * d4[j];
        dot += dd * y;
        dv[k + next * j] = dv4[j] - dd;
      }
    }
    Unit g = unit_(n, block_sum(dot));
    for (int k = threadIdx.x; k < e; k += 4 * next) {
      float x4[4], v4[4], d4[4];
      UNROLL for (int j = 0; j < 4; j++) {
        int at = k + next * j;
        bool there = at < e;
        x4[j] = there ? u[at] : 0, v4[j] = there ? v[at] : 0, d4[j] = there ? d[at] : 0;
      }
      UNROLL for (int j = 0; j < 4; j++) {
        int at = k + next * j;
        if (at >= e) continue;
        float dd = 2 * (x4[j] * f - v4[j]) * d4[j], to = g.u * dd + g.v * f * x4[j];
        if (half) half[t * e + at] = bf16_of(to);
        else d[at] = to;
      }
    }
  }
}

// The same where the rows meet the vector of each image as it is: dz becomes the gradient of the vector by this row. A
// thread walks through the images for one value of a row.
KERNEL similarity_global_grad(float* dz, float* drows, const float* x, const float* c, int images, int e, int add,
                              i64 count) {
  EACH(i, count) {
    const float* u = x + i % e;
    float v = c[i], s = add ? drows[i] : 0;
    for (i64 b = 0; b < images; b += 8) {
      float d[8], y[8];  // eight images are on their way at a time
      for (int j = 0; j < 8; j++) {
        bool there = b + j < images;
        d[j] = there ? dz[(b + j) * count + i] : 0;
        y[j] = there ? u[(b + j) * e] : 0;
      }
      for (int j = 0; j < 8; j++) {
        if (b + j >= images) continue;
        float dd = 2 * (y[j] - v) * d[j];
        s -= dd;
        dz[(b + j) * count + i] = dd;
      }
    }
    drows[i] = s;
  }
}

// dimages [images, e] = Σ_rows dz, or += with add.
KERNEL similarity_images_grad(float* dimages, const float* dz, int rows, int e, int add, i64 count) {
  EACH(i, count) {
    i64 b = i / e, k = i - b * e;
    float s = add ? dimages[i] : 0;
    for (int j = 0; j < rows; j++) s += dz[(b * rows + j) * e + k];
    dimages[i] = s;
  }
}
