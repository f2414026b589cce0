// Elementwise functions, reductions and products within segments (device/primitives.go).
#include "pairs.cuh"
#include "vector.cuh"

// dst = a∘b
KERNEL multiply(float* dst, const float* a, const float* b, i64 head, i64 n) {
  EACH_FOUR(i, head, n) put_four(dst + i, four(a + i) * four(b + i));
  EACH_ONE(i, head, n) dst[i] = a[i] * b[i];
}

// The numbers of device.Function.
enum { kLeakyReLU, kExp, kLog, kSqrt, kReciprocal, kInverse };

VSE_INLINE float mapped(int f, float c, float v) {
  return f == kLeakyReLU ? (v > 0 ? v : v * c)
       : f == kExp ? exp_(v)
       : f == kLog ? log_(v)
       : f == kSqrt ? sqrtf(v)
       : f == kReciprocal ? 1.0f / (v + c)
       : 1.0f / (v < c ? c : v);
}

// y = f(x; c)
KERNEL map_values(float* y, const float* x, int f, float c, i64 head, i64 n) {
  EACH_FOUR(i, head, n) {
    Four v = four(x + i), to = {mapped(f, c, v[0]), mapped(f, c, v[1]), mapped(f, c, v[2]), mapped(f, c, v[3])};
    put_four(y + i, to);
  }
  EACH_ONE(i, head, n) y[i] = mapped(f, c, x[i]);
}

VSE_INLINE float mapped_grad(int f, float c, float v, float to, float d) {
  return f == kLeakyReLU ? (v > 0 ? d : d * c)
       : f == kExp ? d * to
       : f == kLog ? d / v
       : f == kSqrt ? (to == 0 ? 0 : d / (2 * to))
       : f == kReciprocal ? -d * to * to
       : (v < c ? 0 : -d * to * to);
}

// dx = dy·f'(x; c), y = f(x; c)
KERNEL map_grad(float* dx, const float* x, const float* y, const float* dy, int f, float c, i64 head, i64 n) {
  EACH_FOUR(i, head, n) {
    Four v = four(x + i), to = four(y + i), d = four(dy + i),
         g = {mapped_grad(f, c, v[0], to[0], d[0]), mapped_grad(f, c, v[1], to[1], d[1]),
              mapped_grad(f, c, v[2], to[2], d[2]), mapped_grad(f, c, v[3], to[3], d[3])};
    put_four(dx + i, g);
  }
  EACH_ONE(i, head, n) dx[i] = mapped_grad(f, c, x[i], y[i], dy[i]);
}

// Best is the greatest of some values and its position, the first of equal ones, -1 of none; NaN wins. The order in
// which values are added changes nothing.
struct Best { float v; int at; };
VSE_INLINE void add_best(Best* b, float v, int at) {
  bool same = v == b->v || (v != v && b->v != b->v);
  if (at >= 0 && (b->at < 0 || (same ? at < b->at : v > b->v || v != v))) b->v = v, b->at = at;
}

// What a row of d values takes: a group of 8 lanes up to 64 values, else a warp.
VSE_INLINE int row_lanes(int d) { return d <= 64 ? 8 : 32; }

// y [units] = the sum of each row of x [units, d], or with index the greatest element and its position. Each lane has
// eight values on their way.
KERNEL reduce_rows(float* y, int* index, const float* x, int d, i64 units) {
  int lanes = row_lanes(d), per = 32 / lanes, lane = threadIdx.x & (lanes - 1);
  WARPS(w, (units + per - 1) / per) {
    i64 r = w * per + (threadIdx.x & 31) / lanes;
    const float* row = x + r * d;
    int n = r < units ? d : 0;
    float s = 0;
    Best b = {0, -1};
    for (int k = lane; k < n; k += 8 * lanes) {
      float v[8];
      UNROLL for (int j = 0; j < 8; j++) v[j] = k + j * lanes < n ? row[k + j * lanes] : 0;
      UNROLL for (int j = 0; j < 8; j++) {
        if (!index) s += v[j];
        else if (k + j * lanes < n) add_best(&b, v[j], k + j * lanes);
      }
    }
    for (int m = lanes / 2; m > 0; m >>= 1) {
      if (!index) {
        s += __shfl_xor_sync(0xffffffffu, s, m);
      } else { // a position is a float on its way: it is far below 2^24
        float v = __shfl_xor_sync(0xffffffffu, b.v, m), at = __shfl_xor_sync(0xffffffffu, (float)b.at, m);
        add_best(&b, v, (int)at);
      }
    }
    if (lane || r >= units) continue;
    y[r] = index ? b.v : s;
    if (index) index[r] = b.at;
  }
}

// row_of is i / d for i < n, by a division of 32 bits where that is enough: it takes a quarter of the instructions.
VSE_INLINE i64 row_of(i64 i, int d, i64 n) { return n >> 31 ? i / d : (i64)((u32)i / (u32)d); }

// x [n/d, d] = y of its row, or with index at that position alone.
KERNEL spread_rows(float* x, const float* y, const int* index, int d, i64 n) {
  EACH(i, n) {
    i64 r = row_of(i, d, n);
    x[i] = !index || index[r] == (int)(i - r * d) ? y[r] : 0;
  }
}

// y [C, d] = the sums over the rows of each segment of x [rows, d], or with index the greatest elements and their
// positions; n is C·d. A block has 32 results, and its warp w every eighth row of them from w on, eight on their way;
// the eight parts are added in turn. So a sum depends on its rows alone, not on other segments and columns. Blocks
// (…, p) take rows p·per to (p + 1)·per of each segment, and write y [gy, C, d].
KERNEL reduce_segments(float* y, int* index, const float* x, const int* first, int d, int per, i64 rows, i64 n) {
  __shared__ float values[8][32];
  __shared__ int places[8][32];
  int lane = threadIdx.x % 32, w = threadIdx.x / 32;
  i64 i = (i64)blockIdx.x * 32 + lane;
  float s = 0;
  Best b = {0, -1};
  if (i < n) {
    i64 c = row_of(i, d, n), k = i - c * d, lo = first[c], from = lo + (i64)blockIdx.y * per, hi = first[c + 1];
    if (hi > from + per) hi = from + per;
    for (i64 r = from + w; r < hi; r += 64) {
      float v[8];
      UNROLL for (int j = 0; j < 8; j++) v[j] = r + 8 * j < hi ? x[(r + 8 * j) * d + k] : 0;
      UNROLL for (int j = 0; j < 8; j++) {
        if (!index) s += v[j];
        else if (r + 8 * j < hi) add_best(&b, v[j], (int)(r + 8 * j - lo));
      }
    }
  }
  values[w][lane] = index ? b.v : s;
  places[w][lane] = b.at;
  __syncthreads();
  if (w || i >= n) return;
  for (int o = 1; o < 8; o++) {
    if (index) add_best(&b, values[o][lane], places[o][lane]);
    else s += values[o][lane];
  }
  y[blockIdx.y * n + i] = index ? b.v : s;
  if (index) index[i] = b.at;
}

// x of every row; owner lists the segment of each. Rows of no segment, -1, become zero; n is T·d.
KERNEL spread_segments(float* x, const float* y, const int* index, const int* first, const int* owner, int d, i64 n) {
  EACH(i, n) {
    i64 r = row_of(i, d, n);
    int s = owner[r];
    i64 from = (i64)s * d + (i - r * d);
    x[i] = s < 0 || (index && index[from] != (int)(r - first[s])) ? 0 : y[from];
  }
}

// g of row r, [T, longest]: the products with the rows of b in its segment.
KERNEL segment_gram(float* g, const float* a, const float* b, const int* first, const int* owner, int d, int longest,
                    i64 units) {
  WARPS(r, units) {
    int s = owner[r];
    if (s < 0) continue;
    warp_dots(g + r * longest, a + r * d, b + (i64)first[s] * d, first[s + 1] - first[s], d);
  }
}

// b = G a within segments, or with transposed Gᵀ a. Rows of no segment become zero; n is T·d.
KERNEL segment_apply(float* b, const float* a, const float* g, const int* first, const int* owner, int transposed,
                     int d, int longest, i64 n) {
  EACH(i, n) {
    i64 r = row_of(i, d, n);
    int k = (int)(i - r * d), s = owner[r];
    float v = 0;
    if (s >= 0) {
      i64 lo = first[s];
      int size = first[s + 1] - (int)lo;
      for (int t = 0; t < size; t++)
        v += (transposed ? g[(lo + t) * longest + (r - lo)] : g[r * longest + t]) * a[(lo + t) * d + k];
    }
    b[i] = v;
  }
}
