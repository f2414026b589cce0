// The kernels of a training step over flat parameters: norm, clipping, Adam (device/optimiser.go).
#include "adam.cuh"

// partial[block] = Σ x² over what the block reads, in a fixed order: float within sixteen values that a thread asks for
// before it waits, double across. The first head of the n values and what is left at the end are read one by one;
// after head x lies at a multiple of 16 bytes.
KERNEL sum_squares(double* partial, const float* x, i64 head, i64 n) {
  i64 fours = (n - head) / 4, tail = head + 4 * fours, all = (i64)gridDim.x * blockDim.x;
  const Four zero = {0, 0, 0, 0};
  double s = 0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < fours; i += 4 * all) {
    Four v[4], q = zero;
    for (int j = 0; j < 4; j++) {
      v[j] = zero;
      if (i + j * all < fours) v[j] = four(x + head + 4 * (i + j * all));
    }
    for (int j = 0; j < 4; j++) q += v[j] * v[j];
    s += (q[0] + q[1]) + (q[2] + q[3]);
  }
  EACH(i, head) s += x[i] * x[i];
  EACH(i, n - tail) s += x[tail + i] * x[tail + i];
  s = block_total(s);
  if (threadIdx.x == 0) partial[blockIdx.x] = s;
}

// acc[0] += Σ partial, from 0 where it must not be negative. One block.
KERNEL add_partials(float* acc, const double* partial, int n) {
  double s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += partial[i];
  s = block_total(s);
  if (threadIdx.x == 0) acc[0] = (float)((double)acc[0] + s);
}

// partial[block] = Σ a·b over what the block reads.
KERNEL dot_partials(double* partial, const float* a, const float* b, i64 n) {
  double s = 0;
  EACH(i, n) s += (double)a[i] * (double)b[i];
  s = block_total(s);
  if (threadIdx.x == 0) partial[blockIdx.x] = s;
}

// coef = min(1, most/(√squares + 1e-6)), norm = √squares
KERNEL clip_coefficient(float* coef, float* norm, const float* squares, float most) {
  if (threadIdx.x) return;
  float n = sqrtf(squares[0]), c = most / (n + 1e-6f);
  norm[0] = n;
  coef[0] = c > 1 ? 1 : c;
}

// Adam over rows of width `width`, which lie ld apart in p, m and v and are dense in g (adam.cuh). Where clip is NaN
// nothing changes. copy, p rounded, may be null; it lies as p does. Four values are read at once, but for the first
// head of them and what is left at the end: after head all lie at multiples of four values, and so do rows where there
// are several.
KERNEL adam(bf16* copy, float* p, float* m, float* v, const float* g, const float* hyper, const float* clip,
            float beta1, float c1, float beta2, float c2, float eps, int legacy, i64 head, i64 n,
            i64 width, i64 ld) {
  Adam a = adam_of_(hyper, clip, beta1, c1, beta2, c2, eps, legacy);
  if (unchanged_(a)) {
    EACH(i, copy ? n : 0) {
      i64 row = i / width, at = row * ld + (i - row * width);
      copy[at] = bf16_of(p[at]);
    }
    return;
  }
  i64 fours = (n - head) / 4, tail = head + 4 * fours;
  EACH(i, fours) {
    i64 j = head + 4 * i, row = width == n ? 0 : j / width, at = row * ld + (j - row * width);
    adam_four_(a, copy, p, m, v, at, four(p + at), four(m + at), four(v + at), four(g + j));
  }
  EACH(i, head + n - tail) {
    i64 j = i < head ? i : tail + i - head, row = j / width, at = row * ld + (j - row * width);
    adam_(a, p + at, m + at, v + at, g[j]);
    if (copy) copy[at] = bf16_of(p[at]);
  }
}
