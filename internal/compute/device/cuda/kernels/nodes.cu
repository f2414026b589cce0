// Nodes of pairs of images and captions (device.ScaleBlocks, device.MixNodes, device.MeanNodes).
#include "items.cuh"
#include "warp.cuh"

// y [a, b, n, h] = x·factors [a, n]; inner = n·h, per = b·n·h.
KERNEL scale_blocks(float* y, const float* x, const float* factors, i64 per, i64 inner, int h, i64 count) {
  i64 n = inner / h;
  EACH(i, count) y[i] = x[i] * factors[i / per * n + i % inner / h];
}

// dfactors [a, n] = Σ over b and h of x·dy.
KERNEL scale_blocks_factors(float* dfactors, const float* x, const float* dy, int b, int n, int h, i64 count) {
  EACH(i, count) {
    i64 a = i / n, at = (a * b * n + (i - a * n)) * h;
    float s = 0;
    for (int k = 0; k < b; k++, at += (i64)n * h)
      for (int q = 0; q < h; q++) s += x[at + q] * dy[at + q];
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

// dx [images·t, h]: the gradients of the means, 0 for words of no caption.
KERNEL mean_nodes_grad(float* dx, const float* dy, const int* of, const int* starts, int t, int captions, int h,
                       i64 count) {
  EACH(i, count) {
    i64 row = i / h, image = row / t;
    int c = of[row - image * t];
    dx[i] = c < 0 ? 0 : dy[(image * captions + c) * h + (i - row * h)] * (1.0f / (float)(starts[c + 1] - starts[c]));
  }
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
