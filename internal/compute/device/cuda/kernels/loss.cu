// The retrieval losses over scores S [n, n] (device/losses.go). One block works on one anchor: a row of S, or a column.
//
// Of hinges both sides are one launch; the blocks of the rows write the gradient, to which loss_finish adds what the
// hardest negatives alone get. The sides of LUWM are separate launches, rows first: each block writes the gradient of
// its own row, then each block of the columns adds to its own column. Bookkeeping is optional (null). Sums are double,
// hinges float, so that ties are the ties of the scores.
#include "common.cuh"

// Whether (w, k) comes before (v, i) in the order of hardest negatives: NaN first, then the greater value, then the
// lesser index. An index of -1 marks a thread without a value.
VSE_INLINE bool harder(float w, int k, float v, int i) {
  if (k < 0 || i < 0) return k >= 0;
  if (w != w || v != v) return w != w && (v == v || k < i);
  return w > v || (w == v && k < i);
}

// The hardest value of the block and its index, to every thread.
VSE_INLINE void block_best(float* value, int* index) {
  __shared__ float values[256];
  __shared__ int indices[256];
  u32 me = threadIdx.x;
  __syncthreads();
  values[me] = *value;
  indices[me] = *index;
  __syncthreads();
  for (u32 d = blockDim.x >> 1; d > 0; d >>= 1) {
    if (me < d && harder(values[me + d], indices[me + d], values[me], indices[me])) {
      values[me] = values[me + d];
      indices[me] = indices[me + d];
    }
    __syncthreads();
  }
  *value = values[0];
  *index = indices[0];
}

// hinge_ is the cost of a negative with so much margin and score: -1 where it is below 0.
VSE_INLINE float hinge_(float margin, float score, float positive) {
  float c = margin + score - positive;
  return c < 0 ? -1 : c;
}

// parts [2, 3, n]: for each side of an anchor the loss, its share in the gradient of the positive score, and the
// hardest negative, -1 where no gradient flows to one. blockIdx.y is the side: 0 for rows, 1 for columns. margins,
// hards and costs may be null. With most a side is its hardest negative, otherwise the sum of all.
KERNEL hinge_sides(float* grad, double* parts, int* hard_rows, int* hard_columns, float* cost_rows, float* cost_columns,
                   const float* scores, const float* margins, float margin, int n, int most) {
  int anchor = blockIdx.x, side = blockIdx.y;
  float positive = scores[(i64)anchor * n + anchor], best = 0;
  int at = -1;
  double sum = 0, count = 0;
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    i64 cell = side ? (i64)k * n + anchor : (i64)anchor * n + k;
    float flow = 0;
    if (k != anchor) {
      float m = margins ? margins[cell] : margin, score = scores[cell], c = hinge_(m, score, positive);
      if (c != -1) {
        if (at < 0 || c > best || c != c) best = c, at = k;
        if (!most) sum += c, count += 1, flow += 1;
      }
      if (!most && !side && hinge_(m, score, scores[(i64)k * n + k]) != -1) flow += 1;
    }
    if (!side) grad[cell] = flow;
  }
  block_best(&best, &at);
  if (!most) {
    sum = block_total(sum);
    count = block_total(count);
  }
  if (threadIdx.x) return;
  // A maximum of exactly 0 flows only where it is the first entry of all: that is where the maximum of equal zeros
  // lies.
  int open = at >= 0 && !(best == 0 && at != 0);
  if (best == 0) at = open ? at : 0;
  if (at < 0) at = 0, best = 0;
  if (most) {
    sum = best;
    count = open;
  }
  int *hard = side ? hard_columns : hard_rows;
  float *cost = side ? cost_columns : cost_rows;
  parts += 3 * (i64)side * n;
  parts[anchor] = sum;
  parts[n + anchor] = -count;
  parts[2 * n + anchor] = most && open ? at : -1;
  if (hard) hard[anchor] = at;
  if (cost) cost[anchor] = best;
}

// LUWM, one side (device.UniversalWeighting); scale = 1/n.
VSE_INLINE double quadratic(float c0, float c1, float c2, double x, float* slope) {
  double v = c0 + c1 * x + c2 * x * x;
  *slope = v < 0 ? 0 : (float)(c1 + 2 * c2 * x);
  return v < 0 ? 0 : v;
}

KERNEL universal_side(float* grad, double* part, double* slope, int* hard, float* cost, const float* scores,
                      float margin, float p0, float p1, float p2, float n0, float n1, float n2, int n, int side) {
  int anchor = blockIdx.x, at = -1;
  float p = scores[(i64)anchor * n + anchor], best = 0;
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    i64 cell = side ? (i64)k * n + anchor : (i64)anchor * n + k;
    if (!side) grad[cell] = 0;
    float v = scores[cell];
    if (k != anchor && (at < 0 || v > best || v != v)) best = v, at = k;
  }
  block_best(&best, &at);
  __syncthreads();
  if (threadIdx.x) return;
  double loss = 0;
  float dp = 0, negative = 0;
  if (at < 0 || (double)p >= 1 - 1e-5 || best + margin <= p) {
    at = 0;
  } else {
    float dv;
    double positive = quadratic(p0, p1, p2, p, &dp), v = quadratic(n0, n1, n2, best, &dv);
    negative = (float)v;
    loss = positive + v;
    grad[side ? (i64)at * n + anchor : (i64)anchor * n + at] += dv / n;
  }
  part[anchor] = loss;
  slope[anchor] = dp;
  if (hard) hard[anchor] = at;
  if (cost) cost[anchor] = negative;
}

// The diagonal of the gradient and the loss [3], every part multiplied by scale; parts as hinge_sides writes them. With
// hard each hardest negative gets 1: the negatives of the rows, which lie in different rows, then the negatives of the
// columns. One block.
KERNEL loss_finish(float* loss, float* grad, const double* parts, int n, float scale, int hard) {
  double row = 0, column = 0;
  const double *rows = parts, *columns = parts + 3 * (i64)n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    row += rows[i];
    column += columns[i];
    grad[(i64)i * n + i] = (float)(scale * (rows[n + i] + columns[n + i]));
  }
  if (hard) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      if (rows[2 * n + i] >= 0) grad[(i64)i * n + (int)rows[2 * n + i]] += 1;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
      if (columns[2 * n + i] >= 0) grad[(i64)(int)columns[2 * n + i] * n + i] += 1;
  }
  row = block_total(row);
  column = block_total(column);
  if (threadIdx.x) return;
  loss[0] = (float)(scale * (row + column));
  loss[1] = (float)(scale * row);
  loss[2] = (float)(scale * column);
}

// The margins of LSEH from the Gram matrix of the semantic vectors (device.SemanticMargins), one block for each row.
// images and captions may be null.
KERNEL semantic_margins(float* out, const float* gram, const int* images, const int* captions, float alpha,
                        float lambda, int n, int cosine) {
  int i = blockIdx.x;
  const float* row = gram + (i64)i * n;
  float largest = row[0];
  for (int j = threadIdx.x; j < n; j += blockDim.x)
    if (row[j] > largest || row[j] != row[j]) largest = row[j];
  largest = block_max(largest);
  if (largest == 0) largest = 1;
  float own = inverse_(sqrtf(row[i]));
  for (int j = threadIdx.x; j < n; j += blockDim.x) {
    float sim = cosine ? row[j] * (own * inverse_(sqrtf(gram[(i64)j * n + j]))) : row[j] / largest;
    bool same = j == i || (images && images[i] == captions[j]);
    out[(i64)i * n + j] = same ? 0 : alpha + lambda * sim;
  }
}
