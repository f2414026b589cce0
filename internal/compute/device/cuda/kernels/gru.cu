// One step of a GRU and its gradient, for n rows of width h (device.GRU, device.GRUCell).
#include "gru.cuh"
#include "pairs.cuh"
#include "vector.cuh"

// Rows at and after continued have no state yet: h = 0 and W_h h + b_h = bias. before and prev hold the state before
// the step.
KERNEL gru_step(float* gates, float* y, float* prev, const float* hidden, const float* before, const float* bias, int n,
                int continued, int h) {
  EACH(i, (i64)n * h) {
    i64 b = i / h, k = i - b * h;
    const float* gh = b < continued ? hidden + b * 3 * h : bias;
    float state = b < continued ? before[i] : 0;
    float* g = gates + b * 4 * h;
    float c = gh[2 * h + k];
    Gates v = gates_(g[k] + gh[k], g[h + k] + gh[h + k], g[2 * h + k], c, state);
    g[k] = v.r;
    g[h + k] = v.z;
    g[2 * h + k] = v.m;
    g[3 * h + k] = c;
    prev[i] = state;
    y[i] = v.after;
  }
}

// Rows at and after carried start from the gradient of the final state (final, may be null: 0). dy may be null.
KERNEL gru_step_grad(float* gates, float* carry, const float* prev, const float* dy, const float* final, int n,
                     int carried, int h) {
  EACH(i, (i64)n * h) {
    i64 b = i / h, k = i - b * h;
    float* g = gates + b * 4 * h;
    float r = g[k], z = g[h + k], t = g[2 * h + k], c = g[3 * h + k];
    float d = (b < carried ? carry[i] : final ? final[i] : 0) + (dy ? dy[i] : 0);
    Slopes v = slopes_(d, r, z, t, c, prev[i]);
    g[k] = v.dn;
    g[h + k] = v.dr;
    g[2 * h + k] = v.dz;
    g[3 * h + k] = v.dh;
    carry[i] = d * z;
  }
}

// Packed sequences (device.Packing), both directions of a layer in one launch: blockIdx.y counts them. starts is the
// table of the packing, b the number of sequences, n counts the steps that are done.

// A step. Sequences that have no word there are left alone. state [2, b, h] are the states before and after it, hidden
// [2, b, 3h] = W_h state. The gates hold W_i x. half, the states as bfloat16, may be null.
KERNEL gru_packed_step(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, float* state,
                       bf16* half, const float* hidden, const float* bih0, const float* bih1, const float* bhh0,
                       const float* bhh1, const int* starts, int n, int steps, int b, int h, int reverse) {
  int second = blockIdx.y, t = word(n, steps, reverse), from = word(n - 1, steps, reverse);
  float *gates = second ? gates1 : gates0, *y = second ? y1 : y0, *prev = second ? prev1 : prev0;
  const float *bi = second ? bih1 : bih0, *bh = second ? bhh1 : bhh0;
  state += second * (i64)b * h;
  hidden += second * (i64)b * 3 * h;
  i64 start = starts[t], active = starts[t + 1] - start;
  i64 continued = n == 0 ? 0 : starts[from + 1] - starts[from];
  EACH(i, active * h) {
    i64 s = i / h, k = i - s * h;
    float *g = gates + (start + s) * 4 * h, before = 0, hr = bh[k], hz = bh[h + k], c = bh[2 * h + k];
    if (s < continued) {
      const float* gh = hidden + s * 3 * h;
      before = state[i];
      hr = gh[k] + hr;
      hz = gh[h + k] + hz;
      c = gh[2 * h + k] + c;
    }
    Gates v = gates_(g[k] + bi[k] + hr, g[h + k] + bi[h + k] + hz, g[2 * h + k] + bi[2 * h + k], c, before);
    g[k] = v.r;
    g[h + k] = v.z;
    g[2 * h + k] = v.m;
    g[3 * h + k] = c;
    prev[start * h + i] = before;
    state[i] = y[start * h + i] = v.after;
    if (half) half[second * (i64)b * h + i] = bf16_of(v.after);
  }
}

// The gradient of a step, in the opposite order. slopes [2, b, 3h], or half as bfloat16 where it is not null, receives
// what belongs to W_h, a copy of three parts of the gates; carry is [2, b, h]. dy is scaled; it and final may be null.
KERNEL gru_packed_grad(float* gates0, float* gates1, float* slopes, bf16* half, float* carry, const float* prev0,
                       const float* prev1, const float* dy, const float* final, const int* starts, float scale, int n,
                       int steps, int b, int h, int reverse) {
  int second = blockIdx.y, t = word(n, steps, !reverse), done = word(n - 1, steps, !reverse);
  float* gates = second ? gates1 : gates0;
  const float* prev = second ? prev1 : prev0;
  slopes += second * (i64)b * 3 * h;
  carry += second * (i64)b * h;
  i64 start = starts[t], active = starts[t + 1] - start;
  i64 carried = n == 0 ? 0 : starts[done + 1] - starts[done];
  EACH(i, active * h) {
    i64 q = i / h, k = i - q * h;
    float* g = gates + (start + q) * 4 * h;
    float* s = slopes + q * 3 * h;
    float r = g[k], z = g[h + k], m = g[2 * h + k], c = g[3 * h + k];
    float d = (q < carried ? carry[i] : final ? final[i] : 0) + (dy ? scale * dy[start * h + i] : 0);
    Slopes v = slopes_(d, r, z, m, c, prev[start * h + i]);
    g[k] = v.dn;
    g[h + k] = v.dr;
    g[2 * h + k] = v.dz;
    g[3 * h + k] = v.dh;
    if (half) {
      bf16* s16 = half + (second * (i64)b + q) * 3 * h;
      s16[k] = bf16_of(v.dr);
      s16[h + k] = bf16_of(v.dz);
      s16[2 * h + k] = bf16_of(v.dh);
    } else {
      s[k] = v.dr;
      s[h + k] = v.dz;
      s[2 * h + k] = v.dh;
    }
    carry[i] = d * z;
  }
}

// y = (y + other)/2 for the words; rows after them become zero.
KERNEL gru_mean(float* y, const float* other, const int* starts, int steps, int h, i64 n) {
  i64 words = (i64)starts[steps] * h;
  EACH(i, n) y[i] = i < words ? 0.5f * y[i] + 0.5f * other[i] : 0;
}

// Zeroes the rows after the words, of values of both directions.
KERNEL gru_tails(float* x0, float* x1, const int* starts, int steps, int width, i64 n) {
  float* x = blockIdx.y ? x1 : x0;
  i64 first = (i64)starts[steps] * width;
  EACH(i, n - first) x[first + i] = 0;
}

// final[b] = y of the last word of sequence b, of its first word where the sequence is read backwards.
KERNEL gru_final(float* final, const float* y, const int* lengths, const int* starts, int b, int h, int reverse) {
  EACH(i, (i64)b * h) {
    i64 s = i / h, k = i - s * h;
    int t = reverse ? 0 : lengths[s] - 1;
    final[i] = y[((i64)starts[t] + s) * h + k];
  }
}

// The bias gradients from the column sums of the pieces [pieces, 4H] of the gates' gradients: dbhh = sums[H:], dbih = (r,
// z, n). The sums of both directions lie one after the other.
KERNEL gru_bias(float* dbih0, float* dbih1, float* dbhh0, float* dbhh1, const float* sums, int pieces, int h) {
  float *dbih = blockIdx.y ? dbih1 : dbih0, *dbhh = blockIdx.y ? dbhh1 : dbhh0;
  sums += (i64)blockIdx.y * pieces * 4 * h;
  EACH(i, (i64)4 * h) {
    float s = 0;
    for (int p = 0; p < pieces; p += 8) {
      float v[8];
      UNROLL for (int k = 0; k < 8; k++) v[k] = p + k < pieces ? sums[(i64)(p + k) * 4 * h + i] : 0;
      UNROLL for (int k = 0; k < 8; k++) s += v[k];
    }
    if (i >= h) dbhh[i - h] = s;
    if (i < 3 * h) dbih[i < h ? 2 * h + i : i - h] = s;
  }
}

// Operands in bfloat16 whose rows are wider than the rows of the values: to [n, ld] gets the rows of x [rows, in] and
// the rows of the weights [h3, in] of each direction, from row first on and then those in front of it. Columns from in
// on are 0. aligned says that rows of values begin at multiples of 16 bytes.
KERNEL gru_operands(bf16* to, const float* x, const float* w0, const float* w1, int rows, int h3, int in, int ld,
                    int first, int n, int aligned) {
  int lane = threadIdx.x % 32;
  WARPS(r, n) {
    const float* from = x + r * in;
    if (r >= rows) {
      int second = r - rows >= h3;
      i64 row = r - rows - second * (i64)h3 + first;
      from = (second ? w1 : w0) + (row < h3 ? row : row - h3) * in;
    }
    for (int c = 4 * lane; c < ld; c += 128) {
      Four v = {0, 0, 0, 0};
      if (!aligned) {
        UNROLL for (int j = 0; j < 4; j++) v[j] = c + j < in ? from[c + j] : 0;
      } else if (c < in) {
        v = four(from + c);
      }
      put_four(to + r * ld + c, v);
    }
  }
}

// The way back to rows of in values, from results with rows of ld: the gradients of the weights of each direction are
// the gradients in dw [directions, h3, ld] from row first on and then those in front of it, dx [n - directions·h3, in]
// is the sum of the parts [directions, rows, ld] of the directions.
KERNEL gru_results(float* dw0, float* dw1, float* dx, const float* dw, const float* parts, int directions, int rows,
                   int h3, int in, int ld, int first, int n, int aligned) {
  int lane = threadIdx.x % 32;
  WARPS(r, n) {
    int second = r >= h3;
    const float* from;
    float* to;
    i64 other = 0;
    if (r < directions * (i64)h3) {
      to = (second ? dw1 : dw0) + (r - second * (i64)h3) * in;
      from = dw + (r + first < (second + 1) * (i64)h3 ? r + first : r + first - h3) * ld;
    } else {
      i64 row = r - directions * (i64)h3;
      to = dx + row * in;
      from = parts + row * ld;
      if (directions > 1) other = (i64)rows * ld;
    }
    for (int c = 4 * lane; c < in; c += 128) {
      Four v = four(from + c);
      if (other) v += four(from + other + c);
      if (aligned) {
        put_four(to + c, v);
      } else {
        UNROLL for (int j = 0; j < 4; j++)
          if (c + j < in) to[c + j] = v[j];
      }
    }
  }
}
