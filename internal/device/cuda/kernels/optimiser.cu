// The kernels of a training step over flat parameters: norm, clipping, Adam (device.Optimiser).
#include "common.cuh"

// partial[block] = Σ x² over what the block reads, in a fixed order.
// Cost: read 4*n; write 8*gx; flop 4*n
KERNEL sum_squares(double* partial, const float* x, i64 n) {
  double s = 0;
  float few = 0;
  int taken = 0;
  EACH(i, n) {
    few += x[i] * x[i];
    if (++taken == 16) s += few, few = 0, taken = 0;  // float within sixteen, double across
  }
  s = block_total(s + few);
  if (threadIdx.x == 0) partial[blockIdx.x] = s;
}

// acc[0] += Σ partial, from 0 where it must not be negative. One block.
// Cost: read 8*n; write 4; flop n; turns n/block+3
KERNEL add_partials(float* acc, const double* partial, int n) {
  double s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += partial[i];
  s = block_total(s);
  if (threadIdx.x == 0) acc[0] = (float)((double)acc[0] + s);
}

// partial[block] = Σ a·b over what the block reads.
// Cost: read 8*n; write 8*gx; flop 6*n; flight 8
KERNEL dot_partials(double* partial, const float* a, const float* b, i64 n) {
  double s = 0;
  EACH(i, n) s += (double)a[i] * (double)b[i];
  s = block_total(s);
  if (threadIdx.x == 0) partial[blockIdx.x] = s;
}

// coef = min(1, most/(√squares + 1e-6)), norm = √squares
// Cost: read 4; write 8; flop 20; turns 1
KERNEL clip_coefficient(float* coef, float* norm, const float* squares, float most) {
  if (threadIdx.x) return;
  float n = sqrtf(squares[0]), c = most / (n + 1e-6f);
  norm[0] = n;
  coef[0] = c > 1 ? 1 : c;
}

// Adam over rows of width `width`, which lie ld apart in p, m and v and are dense in g (device.AdamArgs). hyper holds
// StepSize, InvSqrt2, Decay; clip may be null, and where it is NaN nothing changes. c1 = 1 - beta1, c2 = 1 - beta2.
// copy, p rounded, may be null; it lies as p does.
// Cost: read 16*n; write 12*n+2*n*copy; flop 30*n; flight 16
KERNEL adam(bf16* copy, float* p, float* m, float* v, const float* g, const float* hyper, const float* clip,
            float beta1, float c1, float beta2, float c2, float eps, int legacy, i64 n, i64 width, i64 ld) {
  float step = hyper[0], inverse = hyper[1], decay = hyper[2], factor = clip ? clip[0] : 1;
  if (factor != factor) {
    EACH(i, copy ? n : 0) {
      i64 row = i / width, at = row * ld + (i - row * width);
      copy[at] = bf16_of(p[at]);
    }
    return;
  }
  if (legacy) step = step / inverse, inverse = 1;
  EACH(i, n) {
    i64 row = i / width, at = row * ld + (i - row * width);
    float d = factor * g[i], m1 = beta1 * m[at] + c1 * d, v1 = beta2 * v[at] + c2 * (d * d);
    m[at] = m1;
    v[at] = v1;
    float next = p[at] * decay - step * m1 / (sqrtf(v1) * inverse + eps);
    p[at] = next;
    if (copy) copy[at] = bf16_of(next);
  }
}
