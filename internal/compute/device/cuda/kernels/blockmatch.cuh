// The cosine of a block of a node with its context, from the sums that a kernel has made.
#pragma once
#include "common.cuh"

struct Cosine { float cos, norm; };

// The cosine of a block of norm q with a context of squared norm square. Where the terms of the context cancel so far
// that square would lose too many digits, the context Σ_j weight_j x_j is formed in double; size is Σ_j weight_j ‖x_j‖.
VSE_INLINE Cosine cosine(float dot, float square, float size, float q, const float* query, const float* x,
                         const float* weights, i64 stride, int n, int e, int width) {
  if (square < 1e-3f * size * size) {
    double d = 0, norm = 0;
    for (int k = 0; k < width; k++) {
      double s = 0;
      for (int j = 0; j < n; j++) s += (double)weights[j * stride] * x[(i64)j * e + k];
      d += s * query[k];
      norm += s * s;
    }
    dot = (float)d;
    square = (float)norm;
  }
  Cosine c;
  c.norm = sqrtf(square > 0 ? square : square != square ? square : 0);
  float lengths = q * c.norm;
  c.cos = dot / (lengths > 1e-8f || lengths != lengths ? lengths : 1e-8f);
  return c;
}
