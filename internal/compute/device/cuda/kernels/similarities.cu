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

// A warp has kNodeColumns columns of a row at a time in its registers, kNodeValues of a lane.
enum { kNodeValues = 8, kNodeColumns = 32 * kNodeValues };

VSE_INLINE void node_values(float* v, const float* x, const float* bias, int first, int size) {
  UNROLL for (int j = 0; j < kNodeValues; j++) {
    int k = first + 32 * j;
    v[j] = k < size ? x[k] + bias[k] : 0;
  }
}

// The vectors of the nodes from s = W z, and their norms [images, all]; node lists the nodes of the rows, nodes counts
// the nodes of an image. Where filter is not null, the logits are its products with the vectors and filter_bias.
KERNEL similarity_nodes(float* out, float* norms, float* logits, const float* s, const float* bias, const float* filter,
                        const float* filter_bias, const int* node, int rows, int all, int nodes, int size, i64 units) {
  WARPS(t, units) {
    i64 b = t / rows, j = t - b * rows;
    const float* x = s + t * size;
    float *y = out + (b * nodes + node[j]) * size, v[kNodeValues], n = 0, z = 0;
    for (int first = threadIdx.x & 31; first < size; first += kNodeColumns) {
      node_values(v, x, bias, first, size);
      UNROLL for (int i = 0; i < kNodeValues; i++) n += v[i] * v[i];
    }
    n = sqrtf(warp_sum(n));
    if ((threadIdx.x & 31) == 0) norms[b * all + j] = n;
    n = 1.0f / (n + PAIR_EPS);
    for (int first = threadIdx.x & 31; first < size; first += kNodeColumns) {
      float w[kNodeValues];
      if (size > kNodeColumns) node_values(v, x, bias, first, size);  // otherwise they are there
      UNROLL for (int i = 0; i < kNodeValues; i++) w[i] = filter && first + 32 * i < size ? filter[first + 32 * i] : 0;
      UNROLL for (int i = 0; i < kNodeValues; i++) {
        v[i] *= n;
        z += w[i] * v[i];
        if (first + 32 * i < size) y[first + 32 * i] = v[i];
      }
    }
    if (!filter) continue;
    z = warp_sum(z);
    if ((threadIdx.x & 31) == 0) logits[b * nodes + node[j]] = z + filter_bias[0];
  }
}

// The gradient of W z + Bias is made by blocks of kNodeRows rows, which also add up what they give: first a thread for
// each row looks up what is known of it, then a warp has one row at a time in its registers, kNodeColumns of it.
enum { kNodeRows = 64, kNodeWarps = 8 };  // (Go: nodeRows)

// NodeRows is what is known of the rows of a block: the gradient of the vector Y, which begins at at_y, is gate·R +
// along·W, where R begins at at_r. at_y is -1 for a row without gradient.
struct NodeRows {
  i64 at_y[kNodeRows], at_r[kNodeRows];
  float norm[kNodeRows], gate[kNodeRows], along[kNodeRows];
};

// Writes ds [units, size], or copy, the same rounded, for the n rows from first on; both may be null. part [gx, 2,
// size] gets the sums of ds and of along·Y, without w [gx, size] the sums of ds.
VSE_INLINE void node_gradients(float* ds, bf16* copy, float* part, const NodeRows* of, const float* y, const float* r,
                               const float* w, i64 first, int n, int size) {
  __shared__ float sums[2][kNodeWarps][kNodeColumns];
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32, kinds = w ? 2 : 1;
  for (int base = 0; base < size; base += kNodeColumns) {
    float filter[kNodeValues], sum[kNodeValues], along[kNodeValues];
    int column = base + lane;
    UNROLL for (int j = 0; j < kNodeValues; j++) {
      filter[j] = w && column + 32 * j < size ? w[column + 32 * j] : 0;
      sum[j] = along[j] = 0;
    }
    for (int i = warp; i < n; i += kNodeWarps) {
      bool there = of->at_y[i] >= 0;
      const float *from = y + (there ? of->at_y[i] : 0), *from_r = r + of->at_r[i];
      float a[kNodeValues], b[kNodeValues], u = of->gate[i], v = of->along[i], dot = 0;
      UNROLL for (int j = 0; j < kNodeValues; j++) {
        bool in = there && column + 32 * j < size;
        a[j] = in ? from[column + 32 * j] : 0, b[j] = in ? from_r[column + 32 * j] : 0;
      }
      UNROLL for (int j = 0; j < kNodeValues; j++) dot += a[j] * (u * b[j] + v * filter[j]);
      if (there && size > kNodeColumns)  // the other columns
        LANES(k, size)
          if (k < base || k >= base + kNodeColumns) dot += from[k] * (u * from_r[k] + (w ? v * w[k] : 0));
      Unit f = unit_(of->norm[i], warp_sum(dot));
      float by_r = f.u * u, by_w = f.u * v;
      i64 to = (first + i) * size + column;
      UNROLL for (int j = 0; j < kNodeValues; j++) {
        float d = by_r * b[j] + f.v * a[j] + by_w * filter[j];
        sum[j] += d;
        along[j] += v * a[j];
        if (column + 32 * j >= size) continue;
        if (ds) ds[to + 32 * j] = d;
        if (copy) copy[to + 32 * j] = bf16_of(d);
      }
    }
    UNROLL for (int j = 0; j < kNodeValues; j++)
      sums[0][warp][lane + 32 * j] = sum[j], sums[1][warp][lane + 32 * j] = along[j];
    __syncthreads();
    for (int k = threadIdx.x; k < kNodeColumns && base + k < size; k += blockDim.x)
      for (int kind = 0; kind < kinds; kind++) {
        float all = 0;
        UNROLL for (int of_warp = 0; of_warp < kNodeWarps; of_warp++) all += sums[kind][of_warp][k];
        part[((i64)blockIdx.x * kinds + kind) * size + base + k] = all;
      }
    __syncthreads();
  }
}

// The gradient of W z + Bias from the gradient of the vectors.
KERNEL similarity_nodes_grad(float* ds, bf16* copy, float* part, const float* out, const float* dout,
                             const float* norms, const int* node, int rows, int all, int nodes, int size, i64 units) {
  __shared__ NodeRows of;
  i64 first = (i64)blockIdx.x * kNodeRows;
  int n = units - first < kNodeRows ? (int)(units - first) : kNodeRows;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    i64 t = first + i, b = t / rows, j = t - b * rows;
    of.at_y[i] = of.at_r[i] = (b * nodes + node[j]) * size;
    of.norm[i] = norms[b * all + j], of.gate[i] = 1, of.along[i] = 0;
  }
  __syncthreads();
  node_gradients(ds, copy, part, &of, out, dout, 0, first, n, size);
}

// The same where the gradient of a vector has factors, a dr + dz w (device.Filter). Rows of no caption have none.
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
