// One step of a GRU and its gradient, for n rows of width h (device.GRUArgs, device.GRUCellArgs; the formulas of internal/vec, gruCell).
#include "common.cuh"

// Rows at and behind continued have no state yet: h = 0 and W_h h + b_h = bias. before and prev hold the state before the step.
KERNEL gru_step(float* gates, float* y, float* prev, const float* hidden, const float* before, const float* bias, int n, int continued, int h) {
  EACH(i, (i64)n * h) {
    i64 b = i / h, k = i - b * h;
    const float* gh = b < continued ? hidden + b * 3 * h : bias;
    float state = b < continued ? before[i] : 0;
    float* g = gates + b * 4 * h;
    float c = gh[2 * h + k];
    float r = sigmoid_(g[k] + gh[k]), z = sigmoid_(g[h + k] + gh[h + k]), t = tanh_(g[2 * h + k] + r * c);
    g[k] = r;
    g[h + k] = z;
    g[2 * h + k] = t;
    g[3 * h + k] = c;
    prev[i] = state;
    y[i] = (1 - z) * t + z * state;
  }
}

// Rows at and behind carried start from the gradient of the final state (final, may be null: 0). dy may be null.
KERNEL gru_step_grad(float* gates, float* carry, const float* prev, const float* dy, const float* final, int n, int carried, int h) {
  EACH(i, (i64)n * h) {
    i64 b = i / h, k = i - b * h;
    float* g = gates + b * 4 * h;
    float r = g[k], z = g[h + k], t = g[2 * h + k], c = g[3 * h + k];
    float d = (b < carried ? carry[i] : final ? final[i] : 0) + (dy ? dy[i] : 0);
    float dn = d * (1 - z) * (1 - t * t);
    g[k] = dn;
    g[h + k] = dn * c * (r * (1 - r));
    g[2 * h + k] = d * (prev[i] - t) * (z * (1 - z));
    g[3 * h + k] = dn * r;
    carry[i] = d * z;
  }
}

// Step t of packed sequences, behind step from (-1: none). starts is the table of the packing (device.Packing), b the number of sequences; those that have
// no word at step t are left alone. state [b, h] is the state before and after the step, hidden = W_h state + b_h.
KERNEL gru_packed_step(float* gates, float* y, float* prev, float* state, const float* hidden, const float* bias, const int* starts, int t, int from, int h) {
  i64 start = starts[t], active = starts[t + 1] - start;
  i64 continued = from < 0 ? 0 : starts[from + 1] - starts[from];
  EACH(i, active * h) {
    i64 b = i / h, k = i - b * h;
    const float* gh = b < continued ? hidden + b * 3 * h : bias;
    float before = b < continued ? state[i] : 0;
    float* g = gates + (start + b) * 4 * h;
    float c = gh[2 * h + k];
    float r = sigmoid_(g[k] + gh[k]), z = sigmoid_(g[h + k] + gh[h + k]), n = tanh_(g[2 * h + k] + r * c);
    g[k] = r;
    g[h + k] = z;
    g[2 * h + k] = n;
    g[3 * h + k] = c;
    prev[start * h + i] = before;
    state[i] = y[start * h + i] = (1 - z) * n + z * before;
  }
}

// The gradient of step t, computed behind that of step done (-1: none). slopes [b, 3h] receives what belongs to W_h, a copy of three parts of the gates.
KERNEL gru_packed_grad(float* gates, float* slopes, float* carry, const float* prev, const float* dy, const float* final, const int* starts, int t, int done, int h) {
  i64 start = starts[t], active = starts[t + 1] - start;
  i64 carried = done < 0 ? 0 : starts[done + 1] - starts[done];
  EACH(i, active * h) {
    i64 b = i / h, k = i - b * h;
    float* g = gates + (start + b) * 4 * h;
    float* s = slopes + b * 3 * h;
    float r = g[k], z = g[h + k], n = g[2 * h + k], c = g[3 * h + k];
    float d = (b < carried ? carry[i] : final ? final[i] : 0) + (dy ? dy[start * h + i] : 0);
    float dn = d * (1 - z) * (1 - n * n);
    g[k] = dn;
    s[k] = g[h + k] = dn * c * (r * (1 - r));
    s[h + k] = g[2 * h + k] = d * (prev[start * h + i] - n) * (z * (1 - z));
    s[2 * h + k] = g[3 * h + k] = dn * r;
    carry[i] = d * z;
  }
}

// final[b] = y of the last word of sequence b, of its first word where the sequence is read backwards.
KERNEL gru_final(float* final, const float* y, const int* lengths, const int* starts, int b, int h, int reverse) {
  EACH(i, (i64)b * h) {
    i64 s = i / h, k = i - s * h;
    int t = reverse ? 0 : lengths[s] - 1;
    final[i] = y[((i64)starts[t] + s) * h + k];
  }
}

// The bias gradients from the column sums [4H] of the gates' gradients: dbhh = sums[H:], dbih = (r, z, n).
KERNEL gru_bias(float* dbih, float* dbhh, const float* sums, int h) {
  EACH(i, (i64)3 * h) {
    dbhh[i] = sums[h + i];
    dbih[i] = i < 2 * h ? sums[h + i] : sums[i - 2 * h];
  }
}
