// The retrieval losses over scores S [n, n] (device.Losses). One block works on one anchor: a row of S, or a column.
//
// Sides are separate launches, rows first: each block writes the gradient of its own row, then each block of the
// columns adds to its own column. Bookkeeping is optional (null). Sums are double, hinges float, so that ties are those
// of the scores.
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

// part[anchor] is the loss of the anchor, slope[anchor] its share in the gradient of the positive score.
// side 0: rows, anchor i; side 1: columns. margins may be null.
// Cost: read 8*gx*n; write 4*gx*n; flop 8*gx*n; turns n/block+12
KERNEL hinge_side(float* grad, double* part, double* slope, int* hard, float* cost, const float* scores,
                  const float* margins, float margin, int n, int most, int side) {
  int anchor = blockIdx.x;
  float positive = scores[(i64)anchor * n + anchor], best = 0;
  int at = -1;
  double sum = 0, count = 0;
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    i64 cell = side ? (i64)k * n + anchor : (i64)anchor * n + k;
    float flow = side ? grad[cell] : 0;
    if (k != anchor) {
      float c = (margins ? margins[cell] : margin) + scores[cell] - positive;
      if (c < 0) c = -1;
      else {
        if (at < 0 || c > best || c != c) best = c, at = k;
        if (!most) sum += c, count += 1, flow += 1;
      }
    }
    grad[cell] = flow;
  }
  block_best(&best, &at);
  if (!most) {
    sum = block_total(sum);
    count = block_total(count);
  } else {
    __syncthreads();
  }
  if (threadIdx.x) return;
  // A maximum of exactly 0 flows only where it is the first entry of all: that is where the maximum of equal zeros
  // lies.
  int open = at >= 0 && !(best == 0 && at != 0);
  if (best == 0) at = open ? at : 0;
  if (at < 0) at = 0, best = 0;
  if (most) {
    sum = at >= 0 ? best : 0;
    count = open;
    if (open) grad[side ? (i64)at * n + anchor : (i64)anchor * n + at] += 1;
  }
  part[anchor] = sum;
  slope[anchor] = -count;
  if (hard) hard[anchor] = at;
  if (cost) cost[anchor] = best;
}

// LUWM, one side (device.UniversalArgs); scale = 1/n.
VSE_INLINE double quadratic(float c0, float c1, float c2, double x, float* slope) {
  double v = c0 + c1 * x + c2 * x * x;
  *slope = v < 0 ? 0 : (float)(c1 + 2 * c2 * x);
  return v < 0 ? 0 : v;
}

// Cost: read 4*gx*n; write 4*gx*n; flop 8*gx*n; turns n/block+12
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

// The diagonal of the gradient and the loss [3], every part multiplied by scale. parts is [rows, rows' slopes, columns,
// columns' slopes], each [n]. One block.
// Cost: read 32*n; write 4*n; flop 6*n; turns n/block+4
KERNEL loss_finish(float* loss, float* grad, const double* parts, int n, float scale) {
  double row = 0, column = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    row += parts[i];
    column += parts[2 * n + i];
    grad[(i64)i * n + i] = (float)(scale * (parts[n + i] + parts[3 * n + i]));
  }
  row = block_total(row);
  column = block_total(column);
  if (threadIdx.x) return;
  loss[0] = (float)(scale * (row + column));
  loss[1] = (float)(scale * row);
  loss[2] = (float)(scale * column);
}

// The margins of LSEH from the Gram matrix of the semantic vectors (device.MarginArgs), one block for each row. images
// and captions may be null.
// Cost: read 8*gx*n; write 4*gx*n; flop 20*gx*n; turns 2*n/block+4
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
