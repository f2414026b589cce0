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
