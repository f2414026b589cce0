// Attention between words and regions (device.PairAttention): x = leaky(a), y = λ x/(‖x‖ + ε), α = softmax y. |y| ≤
// λ, so the exponentials need no shift. Back:
//
//   dy = λ α (dα - Σ α dα)    dx = dy/(‖x‖ + ε) - x (x·dy)/(‖x‖ (‖x‖ + ε)²)    da = dx·leaky'(a)
//
// Norm and softmax run along different axes. What runs over the regions of an image is done by a warp for each word and
// image, what runs over the words of a caption by a thread for each region, which walks through the words. Element
// (word, image, region) lies at word·wide + image·r + region.
#include "pairs.cuh"

VSE_INLINE float leaky_(float a) { return a < 0 ? PAIR_SLOPE * a : a; }
VSE_INLINE float leaky_slope_(float a) { return a > 0 ? 1.0f : PAIR_SLOPE; }

// Factors f, g of dx = f·dy + g·x.
VSE_INLINE Unit factors_(float norm, float dot) {
  Unit k = unit_(norm, dot);
  k.v = k.v * k.u * k.u;
  return k;
}

// factor [C, wide] = λ/(‖x‖ + ε), the norm of a region over the words of a caption.
KERNEL attention_word_norms(float* factor, const float* scores, const int* first, float lambda, i64 wide, i64 count) {
  EACH(i, count) {
    int c = (int)(i / wide);
    i64 col = i - c * wide;
    float s = 0;
    for (i64 w = first[c]; w < first[c + 1]; w++) {
      float x = leaky_(scores[w * wide + col]);
      s += x * x;
    }
    factor[i] = lambda / (sqrtf(s) + PAIR_EPS);
  }
}

// α = softmax over regions of factor·x; units are words × images. Words of no caption get zeros.
KERNEL attention_regions(float* weights, const float* scores, const float* factor, const int* captions, int images,
                         int r, i64 units) {
  WARPS(t, units) {
    i64 w = t / images, at = t * r;
    if (captions[w] < 0) {
      LANES(k, r) weights[at + k] = 0;
      continue;
    }
    const float* f = factor + ((i64)captions[w] * images + (t - w * images)) * r;
    float s = 0;
    LANES(k, r) s += exp_(f[k] * leaky_(scores[at + k]));
    s = 1.0f / warp_sum(s);
    LANES(k, r) weights[at + k] = exp_(f[k] * leaky_(scores[at + k])) * s;
  }
}

// dy; it may lie where dweights does.
KERNEL attention_regions_grad(float* dy, const float* weights, const float* dweights, float lambda, int r, i64 units) {
  WARPS(t, units) {
    i64 at = t * r;
    float mean = 0;
    LANES(k, r) mean += weights[at + k] * dweights[at + k];
    mean = warp_sum(mean);
    LANES(k, r) dy[at + k] = lambda * weights[at + k] * (dweights[at + k] - mean);
  }
}

// dscores from dy in the same place, with the norm over the words.
KERNEL attention_word_norms_grad(float* dscores, const float* scores, const int* first, i64 wide, i64 count) {
  EACH(i, count) {
    int c = (int)(i / wide);
    i64 col = i - c * wide, lo = first[c], hi = first[c + 1];
    float s = 0, dot = 0;
    for (i64 w = lo; w < hi; w++) {
      float x = leaky_(scores[w * wide + col]);
      s += x * x;
      dot += x * dscores[w * wide + col];
    }
    Unit f = factors_(sqrtf(s), dot);
    for (i64 w = lo; w < hi; w++) {
      float a = scores[w * wide + col];
      dscores[w * wide + col] = (f.u * dscores[w * wide + col] + f.v * leaky_(a)) * leaky_slope_(a);
    }
  }
}

// factor [words, images] = λ/(‖x‖ + ε), the norm over the regions of an image.
KERNEL attention_region_norms(float* factor, const float* scores, float lambda, int r, i64 units) {
  WARPS(t, units) {
    float s = 0;
    LANES(k, r) {
      float x = leaky_(scores[t * r + k]);
      s += x * x;
    }
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) factor[t] = lambda / (sqrtf(s) + PAIR_EPS);
  }
}

// α = softmax over words of factor·x; count is captions × wide.
KERNEL attention_words(float* weights, const float* scores, const float* factor, const int* first, int images, int r,
                       i64 count) {
  i64 wide = (i64)images * r;
  EACH(i, count) {
    int c = (int)(i / wide), col = (int)(i - c * wide), b = col / r;
    i64 lo = first[c], hi = first[c + 1];
    float s = 0;
    for (i64 w = lo; w < hi; w++) s += exp_(factor[w * images + b] * leaky_(scores[w * wide + col]));
    s = 1.0f / s;
    for (i64 w = lo; w < hi; w++)
      weights[w * wide + col] = exp_(factor[w * images + b] * leaky_(scores[w * wide + col])) * s;
  }
}

// dy; it may lie where dweights does.
KERNEL attention_words_grad(float* dy, const float* weights, const float* dweights, const int* first, float lambda,
                            i64 wide, i64 count) {
  EACH(i, count) {
    int c = (int)(i / wide);
    i64 col = i - c * wide, lo = first[c], hi = first[c + 1];
    float mean = 0;
    for (i64 w = lo; w < hi; w++) mean += weights[w * wide + col] * dweights[w * wide + col];
    for (i64 w = lo; w < hi; w++)
      dy[w * wide + col] = lambda * weights[w * wide + col] * (dweights[w * wide + col] - mean);
  }
}

// dscores from dy in the same place, with the norm over the regions.
KERNEL attention_region_norms_grad(float* dscores, const float* scores, int r, i64 units) {
  WARPS(t, units) {
    const float* a = scores + t * r;
    float *d = dscores + t * r, s = 0, dot = 0;
    LANES(k, r) {
      float x = leaky_(a[k]);
      s += x * x;
      dot += x * d[k];
    }
    s = warp_sum(s);
    Unit f = factors_(sqrtf(s), warp_sum(dot));
    LANES(k, r) d[k] = (f.u * d[k] + f.v * leaky_(a[k])) * leaky_slope_(a[k]);
  }
}
