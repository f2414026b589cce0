// Filtration (device.Filtrate) from the logits z: h = σ(BN(z)), a = h/(Σ h + ε), Out = l2(Σ a_j X_j). Back, with dr =
// l2'(dOut):
//
//   da_j = dr·X_j    dh = (da - Σ a∘da)/(Σ h + ε)    dz = BN'(dh∘h(1 - h))    dX_j = a_j dr + dz_j W, left in these
//   factors
//
// The statistics of a caption are computed over all its nodes with all images: a block for each caption. Everything
// else is done by a warp for each node or pair b·C + c.
#include "pairs.cuh"

// Mean, inverse deviation and variance of each caption, or with train = 0 the running ones. Of several ranks own is
// where they go that this one tells the others: the number of its images, then the mean of each caption and the sum of
// the squares of what differs from it.
KERNEL filter_statistics(float* mean, float* inv, double* variance, double* own, const float* running_mean,
                         const float* running_var, const float* z, const int* first, int images, int nodes, int train,
                         float eps) {
  int c = blockIdx.x;
  double mu = running_mean[0], var = running_var[0];
  if (train) {
    Graph g = graph_(first, 0, c, nodes);
    int count = images * g.n;
    double sum = 0, squares = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += z[(i64)(i / g.n) * nodes + g.base + i % g.n];
    mu = block_total(sum) / count;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      double d = z[(i64)(i / g.n) * nodes + g.base + i % g.n] - mu;
      squares += d * d;
    }
    var = block_total(squares) / count;
    if (own) {
      if (threadIdx.x) return;
      if (c == 0) own[0] = images;
      own[1 + c] = mu;
      own[1 + gridDim.x + c] = var * count;
      return;
    }
  }
  if (threadIdx.x) return;
  mean[c] = (float)mu;
  inv[c] = (float)(1 / sqrt(var + (double)eps));
  variance[c] = var;
}

// The images of all ranks, from what each tells.
VSE_INLINE double images_of(const double* whole, int captions, int ranks) {
  double n = 0;
  for (int r = 0; r < ranks; r++) n += whole[(i64)r * (1 + 2 * captions)];
  return n;
}

// The statistics from what all ranks tell: a thread for each caption.
KERNEL filter_whole(float* mean, float* inv, double* variance, const double* whole, const int* first, int captions,
                    int ranks, float eps) {
  double images = images_of(whole, captions, ranks);
  EACH(c, captions) {
    double nodes = first[c + 1] - first[c] + 1, mu = 0, squares = 0;
    for (int r = 0; r < ranks; r++) {
      const double* x = whole + (i64)r * (1 + 2 * captions);
      mu += x[0] * x[1 + c];
    }
    mu /= images;
    for (int r = 0; r < ranks; r++) {
      const double* x = whole + (i64)r * (1 + 2 * captions);
      double off = x[1 + c] - mu;
      squares += x[1 + captions + c] + off * off * x[0] * nodes;
    }
    double var = squares / (images * nodes);
    mean[c] = (float)mu;
    inv[c] = (float)(1 / sqrt(var + (double)eps));
    variance[c] = var;
  }
}

// The running statistics move once for each caption, in order: one thread. Of several ranks whole is what they tell.
KERNEL filter_running(float* running_mean, float* running_var, const float* mean, const double* variance,
                      const double* whole, const int* first, int captions, int images, int ranks, float momentum) {
  if (threadIdx.x) return;
  double all = whole ? images_of(whole, captions, ranks) : images;
  float m = running_mean[0], v = running_var[0];
  double keep = 1 - (double)momentum;
  for (int c = 0; c < captions; c++) {
    double n = all * (first[c + 1] - first[c] + 1), var = variance[c];
    if (n > 1) var *= n / (n - 1);
    m = (float)(keep * m + (double)momentum * mean[c]);
    double r = keep * v + (double)momentum * var;
    if (r - r == 0) v = (float)r;  // finite
  }
  running_mean[0] = m;
  running_var[0] = v;
}

// h of a logit of caption c.
VSE_INLINE float gate_(float z, const float* mean, const float* inv, int c, const float* gamma, const float* beta) {
  return sigmoid_(gamma[0] * ((z - mean[c]) * inv[c]) + beta[0]);
}

// a of every node; units are pairs.
KERNEL filter_weights(float* a, const float* z, const float* mean, const float* inv, const float* gamma,
                      const float* beta, const int* first, int captions, int nodes, i64 units) {
  WARPS(r, units) {
    i64 b = r / captions;
    int c = (int)(r - b * captions);
    Graph g = graph_(first, b, c, nodes);
    float sum = 0;
    LANES(k, g.n) sum += gate_(z[g.base + k], mean, inv, c, gamma, beta);
    sum = 1.0f / (warp_sum(sum) + PAIR_EPS);
    LANES(k, g.n) a[g.base + k] = gate_(z[g.base + k], mean, inv, c, gamma, beta) * sum;
  }
}

enum { kFilterValues = 8 };  // of a lane (Go: filterColumns of a warp)

// out = l2(Σ a_k x_k), and the norms.
KERNEL filter_sums(float* out, float* norms, const float* a, const float* x, const int* first, int captions, int nodes,
                   int s, i64 units) {
  WARPS(r, units) {
    i64 b = r / captions;
    Graph g = graph_(first, b, (int)(r - b * captions), nodes);
    float n = 0, v[kFilterValues];  // 256 columns
    for (int first = threadIdx.x & 31; first < s; first += 32 * kFilterValues) {
      UNROLL for (int j = 0; j < kFilterValues; j++) v[j] = 0;
      _Pragma("unroll 2") for (int k = 0; k < g.n; k++) {
        float w = a[g.base + k];
        const float* from = x + (g.base + k) * s + first;
        UNROLL for (int j = 0; j < kFilterValues; j++)
          if (first + 32 * j < s) v[j] += w * from[32 * j];
      }
      UNROLL for (int j = 0; j < kFilterValues; j++) {
        if (s > 32 * kFilterValues && first + 32 * j < s) out[r * s + first + 32 * j] = v[j];
        n += v[j] * v[j];
      }
    }
    n = sqrtf(warp_sum(n));
    if ((threadIdx.x & 31) == 0) norms[r] = n;
    n = 1.0f / (n + PAIR_EPS);
    if (s > 32 * kFilterValues) {
      _Pragma("unroll 1") LANES(i, s) out[r * s + i] *= n;
      continue;
    }
    int i = threadIdx.x & 31;
    UNROLL for (int j = 0; j < kFilterValues; j++)
      if (i + 32 * j < s) out[r * s + i + 32 * j] = v[j] * n;
  }
}

// Node is a vector W z + Bias of up to 256 values in the registers of a warp, and its part of the sum: its gate, and
// that over its norm.
struct Node { float v[kFilterValues], gate, factor; };

VSE_INLINE void node_read(Node* d, const float* x, const float* bias, int s) {
  UNROLL for (int j = 0; j < kFilterValues; j++) {
    int i = (threadIdx.x & 31) + 32 * j;
    d->v[j] = i < s ? x[i] + bias[i] : 0;
  }
}

VSE_INLINE void node_gate(Node* d, const float* filter, const float* filter_bias, float mean, float inv,
                          const float* gamma, const float* beta, int s) {
  float n = 0, z = 0;
  UNROLL for (int j = 0; j < kFilterValues; j++) {
    int i = (threadIdx.x & 31) + 32 * j;
    n += d->v[j] * d->v[j];
    if (i < s) z += filter[i] * d->v[j];
  }
  n = 1.0f / (sqrtf(warp_sum(n)) + PAIR_EPS);
  z = warp_sum(z) * n + filter_bias[0];
  d->gate = gate_(z, &mean, &inv, 0, gamma, beta);
  d->factor = d->gate * n;
}

// The whole filtration of a pair in evaluation, from W z of its caption, captions [units, s], and of its words, words
// [images, rows, s], which it reads once: the next node is on its way while a warp adds one.
KERNEL filter_pairs(float* out, const float* words, const float* captions, const float* word_bias,
                    const float* caption_bias, const float* filter, const float* filter_bias, const float* gamma,
                    const float* beta, const float* running_mean, const float* running_var, float eps,
                    const int* first, int count, int rows, int s, i64 units) {
  float mean = running_mean[0], inv = (float)(1 / sqrt((double)running_var[0] + (double)eps));
  WARPS(r, units) {
    i64 b = r / count;
    int c = (int)(r - b * count), at = first[c], n = first[c + 1] - at;
    const float* x = words + (b * rows + at) * s;
    Node sum, next;
    node_read(&sum, captions + r * s, caption_bias, s);
    if (n > 0) node_read(&next, x, word_bias, s);
    node_gate(&sum, filter, filter_bias, mean, inv, gamma, beta, s);
    UNROLL for (int j = 0; j < kFilterValues; j++) sum.v[j] *= sum.factor;
    for (int k = 0; k < n; k++) {
      Node now = next;
      if (k + 1 < n) node_read(&next, x + (i64)(k + 1) * s, word_bias, s);
      node_gate(&now, filter, filter_bias, mean, inv, gamma, beta, s);
      sum.gate += now.gate;
      UNROLL for (int j = 0; j < kFilterValues; j++) sum.v[j] += now.factor * now.v[j];
    }
    float scale = 1.0f / (sum.gate + PAIR_EPS), norm = 0;
    UNROLL for (int j = 0; j < kFilterValues; j++) sum.v[j] *= scale, norm += sum.v[j] * sum.v[j];
    norm = 1.0f / (sqrtf(warp_sum(norm)) + PAIR_EPS);
    UNROLL for (int j = 0; j < kFilterValues; j++) {
      int i = (threadIdx.x & 31) + 32 * j;
      if (i < s) out[r * s + i] = sum.v[j] * norm;
    }
  }
}

// node_dots is warp_dots (pairs.cuh) with the 256 columns that a warp has at once of four nodes on their way together.
VSE_INLINE void node_dots(float* to, const float* y, const float* x, int n, int s) {
  int lane = threadIdx.x & 31;
  _Pragma("unroll 1") for (int k = 0; k < n; k += 4) {
    float dot[4] = {0, 0, 0, 0};
    _Pragma("unroll 1") for (int i = lane; i < s; i += 32 * kFilterValues) {
      float v[4][kFilterValues];
      UNROLL for (int p = 0; p < 4; p++) {
        const float* from = x + (k + p < n ? k + p : k) * s + i;
        UNROLL for (int j = 0; j < kFilterValues; j++) v[p][j] = i + 32 * j < s ? from[32 * j] : 0;
      }
      UNROLL for (int j = 0; j < kFilterValues; j++) {
        float of_y = i + 32 * j < s ? y[i + 32 * j] : 0;
        UNROLL for (int p = 0; p < 4; p++) dot[p] += of_y * v[p][j];
      }
    }
    UNROLL for (int p = 0; p < 4; p++) {
      int node = k + p;
      dot[p] = warp_sum(dot[p]);
      if (node < n && lane == ((node & 7) << 2 | (node >> 3 & 3))) to[node] = dot[p];  // the lane of DOTS
    }
  }
}

// dr [units, s], and dz as far as the sigmoid: the gradient of γ·BN + β.
KERNEL filter_sums_grad(float* dr, float* dz, const float* x, const float* z, const float* a, const float* mean,
                        const float* inv, const float* gamma, const float* beta, const float* out, const float* dout,
                        const float* norms, const int* first, int captions, int nodes, int s, i64 units) {
  WARPS(r, units) {
    i64 b = r / captions;
    int c = (int)(r - b * captions);
    Graph g = graph_(first, b, c, nodes);
    float dot = 0;
    LANES(i, s) dot += out[r * s + i] * dout[r * s + i];
    Unit f = unit_(norms[r], warp_sum(dot));
    for (int i = threadIdx.x & 31; i < s; i += 32 * kFilterValues) {
      float d[kFilterValues];  // on their way at a time
      UNROLL for (int j = 0; j < kFilterValues; j++)
        d[j] = i + 32 * j < s ? f.u * dout[r * s + i + 32 * j] + f.v * out[r * s + i + 32 * j] : 0;
      UNROLL for (int j = 0; j < kFilterValues; j++)
        if (i + 32 * j < s) dr[r * s + i + 32 * j] = d[j];
    }
    node_dots(dz + g.base, dr + r * s, x + g.base * s, g.n, s);
    float along = 0, sum = 0;
    DOTS(k, g.n) {
      along += a[g.base + k] * dz[g.base + k];
      sum += gate_(z[g.base + k], mean, inv, c, gamma, beta);
    }
    along = warp_sum(along);
    sum = 1.0f / (warp_sum(sum) + PAIR_EPS);
    DOTS(k, g.n) {
      float h = gate_(z[g.base + k], mean, inv, c, gamma, beta);
      dz[g.base + k] = (dz[g.base + k] - along) * sum * h * (1 - h);
    }
  }
}

// dz from the gradient of γ·BN + β in the same place; sums [3, C] are the sums of dz, of the gradient along γ and of
// the gradient of β. Of several ranks a first call leaves dz as it is and writes what this one tells, own: the number
// of its images, and the sums of the gradients of β and along γ for each caption. A second one reads the sums of all
// ranks, whole.
KERNEL filter_statistics_grad(float* dz, double* sums, double* own, const double* whole, const float* z,
                              const float* mean, const float* inv, const float* gamma, const int* first, int captions,
                              int images, int nodes, int train, int ranks) {
  int c = blockIdx.x;
  Graph g = graph_(first, 0, c, nodes);
  int count = images * g.n;
  float mu = mean[c], scale = inv[c];
  double sum = 0, along = 0, bias = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    i64 at = (i64)(i / g.n) * nodes + g.base + i % g.n;
    sum += dz[at];
    along += (double)dz[at] * ((z[at] - mu) * scale);
  }
  sum = block_total(sum);
  along = block_total(along);
  if (own) {
    if (threadIdx.x) return;
    if (c == 0) own[0] = images;
    own[1 + c] = sum;
    own[1 + captions + c] = along;
    return;
  }
  double n = count, all = sum, product = along;
  if (whole) {
    n = images_of(whole, captions, ranks) * g.n, all = 0, product = 0;
    for (int r = 0; r < ranks; r++) {
      const double* x = whole + (i64)r * (1 + 2 * captions);
      all += x[1 + c], product += x[1 + captions + c];
    }
  }
  double u = train ? all / n : 0, v = train ? product / n : 0, k = (double)gamma[0] * scale;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    i64 at = (i64)(i / g.n) * nodes + g.base + i % g.n;
    double d = k * (dz[at] - u - (double)((z[at] - mu) * scale) * v);
    bias += d;
    dz[at] = (float)d;
  }
  bias = block_total(bias);
  if (threadIdx.x) return;
  sums[c] = bias;
  sums[captions + c] = along;
  sums[2 * captions + c] = sum;
}

// One block: the sums over the captions.
KERNEL filter_finish(float* dbias, float* dgamma, float* dbeta, const double* sums, int captions) {
  for (int k = 0; k < 3; k++) {
    double s = 0;
    for (int c = threadIdx.x; c < captions; c += blockDim.x) s += sums[k * captions + c];
    s = block_total(s);
    if (threadIdx.x == 0) (k == 0 ? dbias : k == 1 ? dgamma : dbeta)[0] = (float)s;
  }
}
