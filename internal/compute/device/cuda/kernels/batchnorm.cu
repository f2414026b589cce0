// Batch normalisation over one axis of x [outer, c, inner] and its gradient (device.BatchNorm; the formulas of
// device/cpu/batchnorm.go).
//
// The count = outer·inner positions of a channel are divided into pieces of per, so that all multiprocessors have work.
// A block works on a piece (blockIdx.y) of 32 channels where inner is 1, eight rows at a time, and of one channel
// otherwise. A first kernel sums the pieces, a second one adds them up in their order, in every block of a channel
// alike, and does the rest. Each thread sums in float over sixteen values and in double across.
#include "common.cuh"

enum { kAhead = 4 };  // values that a thread asks for before it waits

// Lanes says which values a thread reads: channel c, positions first, first + step, … below end.
struct Lanes { int c, first, step, end, active; };

VSE_INLINE Lanes lanes(int channels, int inner, int count, int per) {
  Lanes l;
  int from = blockIdx.y * per;
  if (inner == 1) {
    l.c = blockIdx.x * 32 + threadIdx.x % 32;
    l.first = from + threadIdx.x / 32;
    l.step = blockDim.x / 32;
  } else {
    l.c = blockIdx.x;
    l.first = from + threadIdx.x;
    l.step = blockDim.x;
  }
  l.end = count < from + per ? count : from + per;
  l.active = l.c < channels;
  if (!l.active) l.end = 0;
  return l;
}

VSE_INLINE i64 place(int i, int c, int channels, int inner) {
  if (inner == 1) return (i64)i * channels + c;
  i64 o = i / inner;
  return (o * channels + c) * inner + (i - o * inner);
}

// ahead reads the next kAhead values of a thread from position i on, 0 after the last.
VSE_INLINE void ahead(float* v, const float* x, int i, Lanes l, int channels, int inner) {
  for (int k = 0; k < kAhead; k++) v[k] = i + k * l.step < l.end ? x[place(i + k * l.step, l.c, channels, inner)] : 0;
}
#define AHEAD(i, l) for (int i = (l).first; i < (l).end; i += kAhead * (l).step)
#define EACH_OF(k, i, l) for (int k = 0; k < kAhead; k++) if ((i) + k * (l).step < (l).end)

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

// present sets how many rows there are and how many pads, from the counts of the items where they are given. All
// threads of the block take part.
VSE_INLINE void present(const int* counts, int items, const float* pad, int* count, int* pads) {
  if (!counts) return;
  double sum = 0;
  float most = 0;
  for (int i = threadIdx.x; i < items; i += blockDim.x) {
    sum += counts[i];
    most = counts[i] > most ? counts[i] : most;
  }
  *count = (int)block_total(sum);
  *pads = pad ? (int)block_max(most) * items - *count : 0;
}

struct Long { double sum; float few; int taken; };
VSE_INLINE void take(Long* s, float v) {
  s->few += v;
  if (++s->taken == 16) s->sum += s->few, s->few = 0, s->taken = 0;
}

// part [pieces, 2, channels]: the mean of the values of each piece, and the sum of the squares of what they differ from
// it.
KERNEL batch_norm_parts(double* part, const float* x, const int* counts, int items, int count, int channels, int inner,
                        int per) {
  int pads = 0;
  present(counts, items, 0, &count, &pads);
  Lanes l = lanes(channels, inner, count, per);
  Long s = {0, 0, 0}, q = {0, 0, 0};
  float v[kAhead];
  AHEAD(i, l) {
    ahead(v, x, i, l, channels, inner);
    EACH_OF(k, i, l) take(&s, v[k]);
  }
  int from = blockIdx.y * per, n = (count < from + per ? count : from + per) - from;
  double m = over(s.sum + s.few, inner) / (n > 0 ? n : 1);
  float mu = (float)m;
  AHEAD(i, l) {
    ahead(v, x, i, l, channels, inner);
    EACH_OF(k, i, l) take(&q, (v[k] - mu) * (v[k] - mu));
  }
  double squares = over(q.sum + q.few, inner);
  if (!l.active || l.first != from) return;
  part += (i64)blockIdx.y * 2 * channels + l.c;
  part[0] = n > 0 ? m : 0;
  part[channels] = n > 0 ? squares - n * (m - mu) * (m - mu) : 0;
}

// What ranks tell each other of a batch normalisation (device.Ranked), for each of them: how many values a channel has,
// and of items with regions how many there are and the most regions of one; then two values a channel, of all its
// pieces: the mean and the sum of the squares of what they differ from it, or with sums two sums.
enum { kValues, kItems, kMost, kWhole };
VSE_INLINE const double* of_rank(const double* whole, int rank, int channels) {
  return whole + (i64)rank * (kWhole + 2 * channels);
}

// Totals are the values of a channel on all ranks, padding rows included, and the padding rows: of all ranks, and of
// this one.
struct Totals { double n, pads, own; };

VSE_INLINE Totals totals_of(const double* whole, int ranks, int rank, int channels) {
  double most = 0;
  for (int r = 0; r < ranks; r++) {
    double m = of_rank(whole, r, channels)[kMost];
    most = m > most ? m : most;
  }
  Totals t = {0, 0, 0};
  for (int r = 0; r < ranks; r++) {
    const double* x = of_rank(whole, r, channels);
    double pads = x[kItems] > 0 ? most * x[kItems] - x[kValues] : 0;
    t.n += x[kValues] + pads;
    t.pads += pads;
    if (r == rank) t.own = pads;
  }
  return t;
}

// own is what a rank tells, from part of its pieces. Where counts is null, there are that many items with most regions
// at most.
KERNEL batch_norm_whole(double* own, const double* part, const int* counts, int items, int most, int count,
                        int channels, int pieces, int per, int sums) {
  int pads = 0;
  present(counts, items, 0, &count, &pads);
  EACH(c, channels) {
    double n = 0, m = 0, s = 0;
    for (int p = 0; p < pieces; p++) {
      int rest = count - p * per;
      double rows = rest < 0 ? 0 : rest < per ? rest : per;
      n += rows;
      m += part[(i64)p * 2 * channels + c] * (sums ? 1 : rows);
    }
    if (!sums) m = n > 0 ? m / n : 0;
    for (int p = 0; p < pieces; p++) {
      int rest = count - p * per;
      double rows = rest < 0 ? 0 : rest < per ? rest : per, off = part[(i64)p * 2 * channels + c] - m;
      s += part[((i64)p * 2 + 1) * channels + c] + (sums ? 0 : off * off * rows);
    }
    own[kWhole + c] = m;
    own[kWhole + channels + c] = s;
    if (c > 0) continue;
    for (int i = 0; counts && i < items; i++) most = i == 0 || counts[i] > most ? counts[i] : most;
    own[kValues] = n;
    own[kItems] = items;
    own[kMost] = most;
  }
}

// pads rows of the value pad[c] take part in the statistics (pad is null where pads is 0). Where counts [items] is
// given, x has room for count rows, those that there are come first, and the others of the result are zero. part is of
// batch_norm_parts, on the same grid; without train it is not read. Of several ranks it is what all of them tell, and
// pads follows from that. plus, which is added, and copy, y rounded, may be null.
KERNEL batch_norm(float* y, bf16* copy, float* mean, float* inv, float* running_mean, float* running_var,
                  const double* part, const float* x, const float* plus, const float* w, const float* b,
                  const float* pad, const int* counts, int items, int count, int channels, int inner, int pads,
                  int train, int per, int ranks, float eps, float momentum) {
  int room = count, pieces = gridDim.y;
  present(counts, items, pad, &count, &pads);
  Lanes l = lanes(channels, inner, room, per);
  if (!l.active) return;
  int writes = blockIdx.y == 0 && l.first == 0;
  float mu, scale;
  if (train) {
    double n = (double)count + pads, padding = pads ? pad[l.c] : 0, m = pads * padding, squares = 0, rows = pads;
    if (ranks > 1) {
      Totals t = totals_of(part, ranks, 0, channels);
      n = t.n, rows = t.pads, padding = rows > 0 ? pad[l.c] : 0, m = rows * padding, pieces = 0;
    }
    for (int r = 0; r < ranks && ranks > 1; r++) {
      const double* x = of_rank(part, r, channels);
      m += x[kValues] * x[kWhole + l.c];
    }
    for (int p = 0; p < pieces; p++) {
      int rest = count - p * per;
      m += part[(i64)p * 2 * channels + l.c] * (rest < 0 ? 0 : rest < per ? rest : per);
    }
    m /= n;
    for (int r = 0; r < ranks && ranks > 1; r++) {
      const double* x = of_rank(part, r, channels);
      double off = x[kWhole + l.c] - m;
      squares += x[kWhole + channels + l.c] + off * off * x[kValues];
    }
    for (int p = 0; p < pieces; p++) {
      int rest = count - p * per;
      double off = part[(i64)p * 2 * channels + l.c] - m;
      squares += part[((i64)p * 2 + 1) * channels + l.c] + off * off * (rest < 0 ? 0 : rest < per ? rest : per);
    }
    squares += rows * ((padding - m) * (padding - m));
    mu = (float)m;
    scale = (float)(1 / sqrt(squares / n + eps));
    if (writes && squares - squares == 0) {  // finite
      running_mean[l.c] = (float)((1 - (double)momentum) * running_mean[l.c] + momentum * m);
      running_var[l.c] =
          (float)((1 - (double)momentum) * running_var[l.c] + momentum * (squares / (n > 2 ? n - 1 : 1)));
    }
  } else {
    mu = running_mean[l.c];
    scale = (float)(1 / sqrt((double)running_var[l.c] + eps));
  }
  if (writes) {
    mean[l.c] = mu;
    inv[l.c] = scale;
  }
  float k = w[l.c] * scale, shift = b[l.c], v[kAhead], u[kAhead] = {0, 0, 0, 0};
  AHEAD(i, l) {
    ahead(v, x, i, l, channels, inner);
    if (plus) ahead(u, plus, i, l, channels, inner);
    EACH_OF(j, i, l) {
      int at = i + j * l.step;
      i64 to = place(at, l.c, channels, inner);
      float s = at < count ? (v[j] - mu) * k + shift : 0;
      if (plus && at < count) s += u[j];
      y[to] = s;
      if (copy) copy[to] = bf16_of(s);
    }
  }
}

// part [pieces, 2, channels]: the sums of (x - mean)·dy and of dy over each piece.
KERNEL batch_norm_grad_parts(double* part, const float* x, const float* mean, const float* dy, const int* counts,
                             int items, int count, int channels, int inner, int per) {
  int pads = 0;
  present(counts, items, 0, &count, &pads);
  Lanes l = lanes(channels, inner, count, per);
  float mu = l.active ? mean[l.c] : 0, v[kAhead], d[kAhead];
  Long a = {0, 0, 0}, s = {0, 0, 0};
  AHEAD(i, l) {
    ahead(v, x, i, l, channels, inner);
    ahead(d, dy, i, l, channels, inner);
    EACH_OF(k, i, l) take(&a, (v[k] - mu) * d[k]), take(&s, d[k]);
  }
  double along = over(a.sum + a.few, inner), sum = over(s.sum + s.few, inner);
  if (!l.active || l.first != (int)(blockIdx.y * per)) return;
  part += (i64)blockIdx.y * 2 * channels + l.c;
  part[0] = along;
  part[channels] = sum;
}

// dx, dw, db and dpad may be null. part holds pieces pieces of batch_norm_grad_parts, or of several ranks what all of
// them tell: dw and db are then the sums of this rank.
KERNEL batch_norm_grad(float* dx, float* dw, float* db, float* dpad, const double* part, const float* x, const float* w,
                       const float* mean, const float* inv, const float* dy, const float* pad, const int* counts,
                       int items, int count, int channels, int inner, int pads, int train, int per, int pieces,
                       int ranks, int rank) {
  int room = count;
  present(counts, items, pad, &count, &pads);
  Lanes l = lanes(channels, inner, room, per);
  if (!l.active) return;
  float mu = mean[l.c], scale = inv[l.c];
  double sw = 0, sb = 0, n = (double)count + pads, rows = pads, own_w = 0, own_b = 0;
  if (ranks > 1) {
    Totals t = totals_of(part, ranks, rank, channels);
    n = t.n, rows = t.own, pieces = 0;
    own_w = of_rank(part, rank, channels)[kWhole + l.c];
    own_b = of_rank(part, rank, channels)[kWhole + channels + l.c];
  }
  for (int r = 0; r < ranks && ranks > 1; r++) {
    sw += of_rank(part, r, channels)[kWhole + l.c];
    sb += of_rank(part, r, channels)[kWhole + channels + l.c];
  }
  for (int p = 0; p < pieces; p++) {
    sw += part[(i64)p * 2 * channels + l.c];
    sb += part[((i64)p * 2 + 1) * channels + l.c];
  }
  if (ranks < 2) own_w = sw, own_b = sb;
  sw *= scale;
  double k = (double)w[l.c] * scale, u = train ? -k * scale * sw / n : 0, v = train ? -k * sb / n : 0;
  if (blockIdx.y == 0 && l.first == 0) {
    if (dw) dw[l.c] = (float)(own_w * scale);
    if (db) db[l.c] = (float)own_b;
    if (dpad) dpad[l.c] = rows > 0 ? (float)(rows * (u * ((double)pad[l.c] - mu) + v)) : 0;
  }
  if (!dx) return;
  float a[kAhead], d[kAhead];
  AHEAD(i, l) {
    ahead(a, x, i, l, channels, inner);
    ahead(d, dy, i, l, channels, inner);
    EACH_OF(j, i, l) {
      int at = i + j * l.step;
      dx[place(at, l.c, channels, inner)] = at < count ? (float)k * d[j] + (float)u * (a[j] - mu) + (float)v : 0;
    }
  }
}
