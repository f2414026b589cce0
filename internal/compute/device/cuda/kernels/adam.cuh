// Adam (device.Adam), for kernels that read a gradient and those that make it.
#pragma once
#include "vector.cuh"

struct Adam { float step, inverse, decay, factor, beta1, c1, beta2, c2, eps; };

// adam_of_ reads the numbers of a step. hyper holds StepSize, InvSqrt2, Decay; clip may be null. c1 = 1 - beta1,
// c2 = 1 - beta2.
VSE_INLINE Adam adam_of_(const float* hyper, const float* clip, float beta1, float c1, float beta2, float c2, float eps,
                         int legacy) {
  Adam a = {hyper[0], hyper[1], hyper[2], clip ? clip[0] : 1, beta1, c1, beta2, c2, eps};
  if (legacy) a.step = a.step / a.inverse, a.inverse = 1;
  return a;
}

// unchanged_ says that the step changes nothing: the clip coefficient is NaN.
VSE_INLINE bool unchanged_(const Adam& a) { return a.factor != a.factor; }

// adam_ is Adam of one value.
VSE_INLINE void adam_(const Adam& a, float* p, float* m, float* v, float g) {
  float d = a.factor * g;
  *m = a.beta1 * *m + a.c1 * d;
  *v = a.beta2 * *v + a.c2 * (d * d);
  *p = *p * a.decay - a.step * *m / (sqrtf(*v) * a.inverse + a.eps);
}

// adam_four_ is Adam of four values from `at` on, x, y and z of p, m and v, with the gradient d. copy may be null.
VSE_INLINE void adam_four_(const Adam& a, bf16* copy, float* p, float* m, float* v, i64 at, Four x, Four y, Four z,
                           Four d) {
  UNROLL for (int k = 0; k < 4; k++) {
    float x1 = x[k], y1 = y[k], z1 = z[k];
    adam_(a, &x1, &y1, &z1, d[k]);
    x[k] = x1, y[k] = y1, z[k] = z1;
  }
  put_four(p + at, x);
  put_four(m + at, y);
  put_four(v + at, z);
  if (copy) put_four(copy + at, x);
}
