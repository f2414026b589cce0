// Batch normalisation over one axis of x [outer, c, inner] and its gradient (device.BatchNormArgs; the formulas of device/cpu/batchnorm.go).
//
// A block works on 32 channels where inner is 1, eight rows at a time, and on one channel otherwise. Each thread sums in float over
// sixteen values and in double across.
#include "common.cuh"

// Lanes says which values a thread reads: channel c, positions first, first + step, … of count = outer·inner.
struct Lanes { int c, first, step, active; };

VSE_INLINE Lanes lanes(int channels, int inner) {
  Lanes l;
  if (inner == 1) {
    l.c = blockIdx.x * 32 + threadIdx.x % 32;
    l.first = threadIdx.x / 32;
    l.step = blockDim.x / 32;
  } else {
    l.c = blockIdx.x;
    l.first = threadIdx.x;
    l.step = blockDim.x;
  }
  l.active = l.c < channels;
  return l;
}

VSE_INLINE i64 place(int i, int c, int channels, int inner) {
  i64 o = i / inner;
  return (o * channels + c) * inner + (i - o * inner);
}

// over returns the sum of the threads of a channel to all of them.
VSE_INLINE double over(double v, int inner) {
  if (inner != 1) return block_total(v);
  __shared__ double part[256];
  __syncthreads();
  part[threadIdx.x] = v;
  __syncthreads();
  double s = 0;
  for (u32 i = threadIdx.x % 32; i < blockDim.x; i += 32) s += part[i];
  return s;
}

// present sets how many rows there are and how many pads, from the counts of the items where they are given.
VSE_INLINE void present(const int* counts, int items, const float* pad, int* count, int* pads) {
  if (!counts) return;
  int sum = 0, most = 0;
  for (int i = 0; i < items; i++) {
    sum += counts[i];
    most = counts[i] > most ? counts[i] : most;
  }
  *count = sum;
  *pads = pad ? most * items - sum : 0;
}

struct Long { double sum; float few; int taken; };
VSE_INLINE void take(Long* s, float v) {
  s->few += v;
  if (++s->taken == 16) s->sum += s->few, s->few = 0, s->taken = 0;
}

// pads rows of the value pad[c] take part in the statistics (pad is null where pads is 0). Where counts [items] is given, x has room for count rows, those
// that there are come first, and the others of the result are zero.
// Cost: read 4*count*channels*(1+2*train); write 4*count*channels; flop 6*count*channels; turns
// (1+2*train)*count*(eq(inner,1)/8+(1-eq(inner,1))/block)
KERNEL batch_norm(float* y, float* mean, float* inv, float* running_mean, float* running_var, const float* x, const float* w, const float* b, const float* pad, const int* counts,
                  int items, int count, int channels, int inner, int pads, int train, float eps, float momentum) {
  Lanes l = lanes(channels, inner);
  int room = count;
  present(counts, items, pad, &count, &pads);
  double n = (double)count + pads, m = 0;
  float padding = pads && l.active ? pad[l.c] : 0;
  if (train) {
    Long s = {0, 0, 0};
    if (l.active)
      for (int i = l.first; i < count; i += l.step) take(&s, x[place(i, l.c, channels, inner)]);
    m = (over(s.sum + s.few, inner) + (double)pads * padding) / n;
    float mu = (float)m;
    Long q = {0, 0, 0};
    if (l.active)
      for (int i = l.first; i < count; i += l.step) {
        float d = x[place(i, l.c, channels, inner)] - mu;
        take(&q, d * d);
      }
    float off = padding - mu;
    double squares = over(q.sum + q.few, inner) + (double)pads * off * off;
    if (l.active && l.first == 0) {
      mean[l.c] = mu;
      inv[l.c] = (float)(1 / sqrt(squares / n + eps));
      if (squares - squares == 0) {  // finite
        running_mean[l.c] = (float)((1 - (double)momentum) * running_mean[l.c] + momentum * m);
        running_var[l.c] = (float)((1 - (double)momentum) * running_var[l.c] + momentum * (squares / (n > 2 ? n - 1 : 1)));
      }
    }
  } else if (l.active && l.first == 0) {
    mean[l.c] = running_mean[l.c];
    inv[l.c] = (float)(1 / sqrt((double)running_var[l.c] + eps));
  }
  __syncthreads();
  if (!l.active) return;
  float mu = mean[l.c], k = w[l.c] * inv[l.c], shift = b[l.c];
  for (int i = l.first; i < count; i += l.step) {
    i64 at = place(i, l.c, channels, inner);
    y[at] = (x[at] - mu) * k + shift;
  }
  for (int i = l.first; i < room; i += l.step)
    if (i >= count) y[place(i, l.c, channels, inner)] = 0;
}

// dx, dw, db and dpad may be null.
// Cost: read 8*count*channels*(1+dx); write 4*count*channels*dx; flop 8*count*channels; turns
// (1+dx)*count*(eq(inner,1)/8+(1-eq(inner,1))/block)
KERNEL batch_norm_grad(float* dx, float* dw, float* db, float* dpad, const float* x, const float* w, const float* mean, const float* inv, const float* dy, const float* pad, const int* counts,
                       int items, int count, int channels, int inner, int pads, int train) {
  Lanes l = lanes(channels, inner);
  int room = count;
  present(counts, items, pad, &count, &pads);
  float mu = l.active ? mean[l.c] : 0, scale = l.active ? inv[l.c] : 0;
  Long a = {0, 0, 0}, s = {0, 0, 0};
  if (l.active)
    for (int i = l.first; i < count; i += l.step) {
      i64 at = place(i, l.c, channels, inner);
      take(&a, (x[at] - mu) * dy[at]);
      take(&s, dy[at]);
    }
  double sw = over(a.sum + a.few, inner) * scale, sb = over(s.sum + s.few, inner), n = (double)count + pads;
  if (!l.active) return;
  double k = (double)w[l.c] * scale, u = train ? -k * scale * sw / n : 0, v = train ? -k * sb / n : 0;
  if (l.first == 0) {
    if (dw) dw[l.c] = (float)sw;
    if (db) db[l.c] = (float)sb;
    if (dpad) dpad[l.c] = pads ? (float)((double)pads * (u * ((double)pad[l.c] - mu) + v)) : 0;
  }
  if (!dx) return;
  for (int i = l.first; i < count; i += l.step) {
    i64 at = place(i, l.c, channels, inner);
    dx[at] = (float)k * dy[at] + (float)u * (x[at] - mu) + (float)v;
  }
  for (int i = l.first; i < room; i += l.step)
    if (i >= count) dx[place(i, l.c, channels, inner)] = 0;
}
