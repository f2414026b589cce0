// Nodes of pairs of images and captions (device.ScaleBlocks, device.MixNodes, device.MeanNodes).
#include "items.cuh"
#include "vector.cuh"
#include "warp.cuh"

// y [a, b, n, h] = x·factors [a, n]; inner = n·h, per = b·n·h, in values of type V, of which i counts no more than
// an I can.
template <class I, class V>
VSE_INLINE void scale_blocks_(V* y, const V* x, const float* factors, I per, I inner, I h, I count) {
  I n = inner / h;
  EACH(i, count) y[i] = x[i] * factors[(I)i / per * n + (I)i % inner / h];
}
KERNEL scale_blocks(float* y, const float* x, const float* factors, i64 per, i64 inner, int h, i64 count, int fours) {
  if (fours)
    scale_blocks_<u32>((Four*)y, (const Four*)x, factors, (u32)(per / 4), (u32)(inner / 4), h / 4, (u32)(count / 4));
  else
    scale_blocks_<i64>(y, x, factors, per, inner, h, count);
}

VSE_INLINE float whole_(Four v) { return (v[0] + v[1]) + (v[2] + v[3]); }
VSE_INLINE float whole_(float v) { return v; }

// dfactors [a, n] = Σ over b and h of x·dy. A block makes 32 of them at a time, each with eight threads.
template <class V> VSE_INLINE float factor_(const V* x, const V* dy, i64 step, int b, int h) {
  int first = threadIdx.x / 32, q = first % h;
  V s;
  zero_(&s);
  for (int k = first / h; k < b;) {
    s += x[k * step + q] * dy[k * step + q];
    k += 8 / h, q += 8 % h;
    if (q >= h) k++, q -= h;
  }
  return whole_(s);
}
KERNEL scale_blocks_factors(float* dfactors, const float* x, const float* dy, int b, int n, int h, i64 count,
                            int fours) {
  __shared__ float part[8][32];
  int lane = threadIdx.x % 32;
  for (i64 i0 = (i64)blockIdx.x * 32; i0 < count; i0 += (i64)gridDim.x * 32) {
    i64 i = i0 + lane, a = i / n, at = (a * b * n + (i - a * n)) * h, step = (i64)n * h;
    float s = 0;
    if (i < count && fours) s = factor_((const Four*)(x + at), (const Four*)(dy + at), step / 4, b, h / 4);
    else if (i < count) s = factor_(x + at, dy + at, step, b, h);
    __syncthreads();
    part[threadIdx.x / 32][lane] = s;
    __syncthreads();
    if (threadIdx.x >= 32 || i >= count) continue;
    s = 0;
    UNROLL for (int k = 0; k < 8; k++) s += part[k][lane];
    dfactors[i] = s;
  }
}

// y [images·captions, h] = the mean of the t rows x of an image that belong to a caption.
KERNEL mean_nodes(float* y, const float* x, const int* starts, int t, int captions, int h, i64 count) {
  EACH(i, count) {
    i64 pair = i / h, image = pair / captions;
    int c = (int)(pair - image * captions), n = starts[c + 1] - starts[c];
    const float* from = x + (image * t + starts[c]) * h + (i - pair * h);
    float s = 0;
    for (int k = 0; k < n; k++) s += from[(i64)k * h];
    y[i] = s * (1.0f / (float)n);
  }
}

// dx [images·t, h]: the gradients of the means, 0 for words of no caption; h and count are in values of type V, which
// an I can count.
template <class I, class V>
VSE_INLINE void mean_nodes_grad_(V* dx, const V* dy, const int* of, const int* starts, I t, I captions, I h, I count) {
  EACH(i, count) {
    I row = (I)i / h, image = row / t;
    int c = of[row - image * t];
    V v;
    zero_(&v);
    if (c >= 0) v = dy[(image * captions + c) * h + ((I)i - row * h)] * (1.0f / (float)(starts[c + 1] - starts[c]));
    dx[i] = v;
  }
}
KERNEL mean_nodes_grad(float* dx, const float* dy, const int* of, const int* starts, int t, int captions, int h,
                       i64 count, int fours) {
  if (fours)
    mean_nodes_grad_<u32>((Four*)dx, (const Four*)dy, of, starts, t, captions, h / 4, (u32)(count / 4));
  else
    mean_nodes_grad_<i64>(dx, dy, of, starts, t, captions, h, count);
}

// y_jk = Σ_l w_jlk x_lk, with back Σ_l w_ljk x_lk, for the rows x [count/(k·h), k·h] of all pairs. Weights belong to
// images with pairs of n rows, captions of them in turn; where starts is given, to captions with t rows in all. Words
// of no caption get 0.
KERNEL mix_nodes(float* y, const float* x, const float* weights, const int* of, const int* starts, const i64* squares,
                 int t, int n, int captions, int k, int h, int back, i64 count) {
  EACH(i, count) {
    i64 row = i / (k * h), w;
    int col = (int)(i - row * (k * h)), g = col / h, j, size = n;
    if (starts) {
      int word = (int)(row % t), c = of[word];
      if (c < 0) {
        y[i] = 0;
        continue;
      }
      Item it = item_of(starts, squares, c, 0);
      size = it.n;
      j = (int)(word - it.first);
      w = it.square * k;
    } else {
      i64 pair = row / n;
      j = (int)(row - pair * n);
      w = pair / captions * n * n * k;
    }
    const float *from = x + (row - j) * (k * h) + col, *of_row = weights + w + (back ? (i64)j : (i64)j * size) * k + g;
    i64 step = back ? (i64)size * k : k;
    float s = 0;
    for (int l = 0; l < size; l++) s += of_row[l * step] * from[(i64)l * (k * h)];
    y[i] = s;
  }
}

// dweights [images, n, n, k]: Σ over the captions and columns of a group. A thread for each.
KERNEL mix_image_weights(float* dweights, const float* x, const float* dy, int n, int captions, int k, int h,
                         i64 count) {
  EACH(i, count) {
    int g = (int)(i % k), l = (int)(i / k % n), j = (int)(i / k / n % n);
    i64 image = i / k / n / n, first = image * captions * n;
    float s = 0;
    for (int c = 0; c < captions; c++, first += n) {
      const float *a = dy + (first + j) * (k * h) + g * h, *b = x + (first + l) * (k * h) + g * h;
      for (int q = 0; q < h; q++) s += a[q] * b[q];
    }
    dweights[i] = s;
  }
}

// dweights [n, n, k] of caption blockIdx.x: Σ over the images and columns of a group. A warp for each.
KERNEL mix_caption_weights(float* dweights, const float* x, const float* dy, const int* starts, const i64* squares,
                           int t, int images, int k, int h) {
  Item it = item_of(starts, squares, blockIdx.x, 0);
  i64 many = (i64)it.n * it.n * k;
  for (i64 o = (i64)blockIdx.y * 8 + threadIdx.x / 32; o < many; o += (i64)gridDim.y * 8) {
    int g = (int)(o % k), l = (int)(o / k % it.n), j = (int)(o / k / it.n);
    float s = 0;
    for (i64 p = threadIdx.x % 32; p < (i64)images * h; p += 32) {
      i64 image = p / h, row = image * t + it.first;
      int q = (int)(p - image * h);
      s += dy[(row + j) * (k * h) + g * h + q] * x[(row + l) * (k * h) + g * h + q];
    }
    s = warp_sum(s);
    if (threadIdx.x % 32 == 0) dweights[it.square * k + o] = s;
  }
}
