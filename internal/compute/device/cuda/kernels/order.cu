// Order embeddings: S_ij = -‖max(0, c_j - i_i)‖, and with e = max(0, c_j - i_i), dS/dc = -e/‖e‖ = -dS/di
// (device.OrderScores).
#include "common.cuh"

// One block for each score; blockIdx.x is the caption, blockIdx.y the image.
KERNEL order_scores(float* scores, const float* images, const float* captions, int c, int d) {
  const float *im = images + (i64)blockIdx.y * d, *cap = captions + (i64)blockIdx.x * d;
  float s = 0;
  for (int k = threadIdx.x; k < d; k += blockDim.x) {
    float e = cap[k] - im[k];
    e = e > 0 || e != e ? e : 0;
    s += e * e;
  }
  s = block_sum(s);
  if (threadIdx.x == 0) scores[(i64)blockIdx.y * c + blockIdx.x] = -sqrtf(s);
}

// The gradient of image (captions = 0) or caption (1) i / d, feature i % d: sums over the other side in order.
KERNEL order_grad(float* out, const float* images, const float* captions, const float* scores, const float* dscores,
                  int b, int c, int d, int side) {
  EACH(i, (i64)(side ? c : b) * d) {
    i64 row = i / d, k = i - row * d;
    float s = 0;
    for (int o = 0; o < (side ? b : c); o++) {
      i64 im = side ? o : row, cap = side ? row : o;
      float norm = -scores[im * c + cap], g = dscores[im * c + cap], e = captions[cap * d + k] - images[im * d + k];
      if (norm > 0 && g != 0 && e > 0) s += g / norm * e;
    }
    out[i] = side ? -s : s;
  }
}
