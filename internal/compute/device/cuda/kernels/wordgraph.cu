// Weights of the text graph (device.WordGraph): softmax_l λ w_j·w_l over the neighbours of each word of a caption.
#include "items.cuh"
#include "warp.cuh"

// Word j = blockIdx.y of caption blockIdx.x: a warp for each neighbour, then one for the softmax. edges may be null:
// then all words are neighbours.
KERNEL word_graph(float* weights, const float* words, const int* edges, const int* edge_start, const int* starts,
                  const i64* squares, int e, float lambda) {
  Item it = item_of(starts, squares, blockIdx.x, 0);
  int j = blockIdx.y, lane = threadIdx.x % 32;
  if (j >= it.n) return;
  float *w = weights + it.square + (i64)j * it.n, none = -as_float(0x7f800000u);
  const float* x = words + it.first * e;
  for (int l = threadIdx.x / 32; l < it.n; l += blockDim.x / 32) {
    float near = !edges || l == j;
    if (edges)
      for (int k = edge_start[blockIdx.x] + lane; k < edge_start[blockIdx.x + 1]; k += 32) {
        int a = edges[2 * k], b = edges[2 * k + 1];
        if ((a == j && b == l) || (a == l && b == j)) near = 1;
      }
    near = warp_max(near);
    float s = 0;
    for (int k = lane; k < e; k += 32) s += x[(i64)j * e + k] * x[(i64)l * e + k];
    s = warp_sum(s);
    if (lane == 0) w[l] = near > 0 ? lambda * s : none;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float top = none, sum = 0;
  for (int l = lane; l < it.n; l += 32)
    if (w[l] > top || w[l] != w[l]) top = w[l];
  top = warp_max(top);
  for (int l = lane; l < it.n; l += 32) {
    float v = w[l] == none ? 0 : exp_(w[l] - top);
    w[l] = v;
    sum += v;
  }
  sum = warp_sum(sum);
  for (int l = lane; l < it.n; l += 32) w[l] /= sum;
}

// slopes_jl = λ w_jl (dw_jl - Σ_m w_jm dw_jm): a warp for word blockIdx.y of caption blockIdx.x.
KERNEL word_graph_slopes(float* slopes, const float* weights, const float* dweights, const int* starts,
                         const i64* squares, float lambda) {
  Item it = item_of(starts, squares, blockIdx.x, 0);
  if (blockIdx.y >= (u32)it.n) return;
  i64 at = it.square + (i64)blockIdx.y * it.n;
  float mean = 0;
  for (int l = threadIdx.x; l < it.n; l += 32) mean += weights[at + l] * dweights[at + l];
  mean = warp_sum(mean);
  for (int l = threadIdx.x; l < it.n; l += 32) slopes[at + l] = lambda * weights[at + l] * (dweights[at + l] - mean);
}

// dwords_j = Σ_l (slopes_jl + slopes_lj) w_l: a block for each word and 256 columns (blockIdx.y). 0 for a word of no
// caption.
KERNEL word_graph_grad(float* dwords, const float* slopes, const float* words, const int* of, const int* starts,
                       const i64* squares, int e) {
  int row = blockIdx.x, k = blockIdx.y * blockDim.x + threadIdx.x;
  if (k >= e) return;
  if (of[row] < 0) {
    dwords[(i64)row * e + k] = 0;
    return;
  }
  Item it = item_of(starts, squares, of[row], 0);
  int j = (int)(row - it.first);
  const float* ds = slopes + it.square;
  float s = 0;
  for (int l = 0; l < it.n; l++) s += (ds[j * it.n + l] + ds[l * it.n + j]) * words[(it.first + l) * e + k];
  dwords[(i64)row * e + k] = s;
}
