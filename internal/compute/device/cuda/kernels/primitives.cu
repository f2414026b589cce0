// Elementwise functions, reductions and products within segments (device/primitives.go).
#include "pairs.cuh"

// dst = a∘b
// Cost: read 8*n; write 4*n; flop n; flight 8
KERNEL multiply(float* dst, const float* a, const float* b, i64 n) {
  EACH(i, n) dst[i] = a[i] * b[i];
}

// The numbers of device.Function.
enum { kLeakyReLU, kExp, kLog, kSqrt, kReciprocal, kInverse };

// y = f(x; c)
// Cost: read 4*n; write 4*n; flop 10*n
KERNEL map_values(float* y, const float* x, int f, float c, i64 n) {
  EACH(i, n) {
    float v = x[i];
    y[i] = f == kLeakyReLU ? (v > 0 ? v : v * c)
         : f == kExp ? exp_(v)
         : f == kLog ? log_(v)
         : f == kSqrt ? sqrtf(v)
         : f == kReciprocal ? 1.0f / (v + c)
         : 1.0f / (v < c ? c : v);
  }
}

// dx = dy·f'(x; c), y = f(x; c)
// Cost: read 12*n; write 4*n; flop 10*n; flight 12
KERNEL map_grad(float* dx, const float* x, const float* y, const float* dy, int f, float c, i64 n) {
  EACH(i, n) {
    float v = x[i], to = y[i], d = dy[i];
    dx[i] = f == kLeakyReLU ? (v > 0 ? d : d * c)
          : f == kExp ? d * to
          : f == kLog ? d / v
          : f == kSqrt ? (to == 0 ? 0 : d / (2 * to))
          : f == kReciprocal ? -d * to * to
          : (v < c ? 0 : -d * to * to);
  }
}

// y [units] = the sum of each row of x [units, d], or with index the greatest element and its position; a warp for
// each.
// Cost: read 4*units*d*(1+index); write 4*units*(1+index); flop units*d; turns units/(gx*block/32)*(1+index)*d/32/4+1
KERNEL reduce_rows(float* y, int* index, const float* x, int d, i64 units) {
  WARPS(r, units) {
    const float* row = x + r * d;
    if (!index) {
      float s = 0;
      LANES(k, d) s += row[k];
      s = warp_sum(s);
      if ((threadIdx.x & 31) == 0) y[r] = s;
      continue;
    }
    float most = row[0];
    LANES(k, d) if (row[k] > most || row[k] != row[k]) most = row[k];
    most = warp_max(most);
    // the first position of the maximum, as a float: positions are far below 2^24
    float at = (float)d;
    LANES(k, d) if (at == (float)d && (row[k] == most || row[k] != row[k])) at = (float)k;
    at = -warp_max(-at);
    if ((threadIdx.x & 31) == 0) {
      y[r] = most;
      index[r] = (int)at;
    }
  }
}

// x [n/d, d] = y of its row, or with index at that position alone.
// Cost: read 4*n/d; write 4*n; turns n/(gx*block)
KERNEL spread_rows(float* x, const float* y, const int* index, int d, i64 n) {
  EACH(i, n) {
    i64 r = i / d;
    x[i] = !index || index[r] == (int)(i - r * d) ? y[r] : 0;
  }
}

// y [C, d] = the sums over the rows of each segment of x [T, d], or with index the greatest elements and their
// positions; n is C·d.
// Cost: read 4*n*words; write 4*n*(1+index); flop n*words; turns n/(gx*block)*words/4
KERNEL reduce_segments(float* y, int* index, const float* x, const int* first, int d, i64 n) {
  EACH(i, n) {
    int s = (int)(i / d), k = (int)(i - (i64)s * d), lo = first[s], hi = first[s + 1], at = 0;
    float v = x[(i64)lo * d + k];
    for (i64 r = lo + 1; r < hi; r++) {
      float o = x[r * d + k];
      if (!index) {
        v += o;
      } else if (o > v || (o != o && v == v)) {
        v = o;
        at = (int)(r - lo);
      }
    }
    y[i] = v;
    if (index) index[i] = at;
  }
}

// x of every row; owner lists the segment of each. Rows of no segment, -1, become zero; n is T·d.
// Cost: read 8*n; write 4*n; turns n/(gx*block)*2
KERNEL spread_segments(float* x, const float* y, const int* index, const int* first, const int* owner, int d, i64 n) {
  EACH(i, n) {
    i64 r = i / d;
    int s = owner[r];
    i64 from = (i64)s * d + (i - r * d);
    x[i] = s < 0 || (index && index[from] != (int)(r - first[s])) ? 0 : y[from];
  }
}

// g of row r, [T, longest]: the products with the rows of b in its segment.
// Cost: read 4*units*d*2; write 4*units*words; flop 2*units*words*d; flight 32; turns units/(gx*block/32)*words/8*d/32
KERNEL segment_gram(float* g, const float* a, const float* b, const int* first, const int* owner, int d, int longest,
                    i64 units) {
  WARPS(r, units) {
    int s = owner[r];
    if (s < 0) continue;
    warp_dots(g + r * longest, a + r * d, b + (i64)first[s] * d, first[s + 1] - first[s], d);
  }
}

// b = G a within segments, or with transposed Gᵀ a. Rows of no segment become zero; n is T·d.
// Cost: read 8*n; write 4*n; flop 2*n*words; turns n/(gx*block)*words/4
KERNEL segment_apply(float* b, const float* a, const float* g, const int* first, const int* owner, int transposed,
                     int d, int longest, i64 n) {
  EACH(i, n) {
    i64 r = i / d;
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
