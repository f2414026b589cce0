// Packed batches (device.Packing): the table of first rows, the words of the rows, and the word vectors. For their
// gradient see sum_words.
#include "common.cuh"

// starts[t] = Σ_b min(lengths[b], t) for t = 0 … steps, a block for each: the first packed row of step t, and the
// number of rows.
KERNEL pack_starts(int* starts, const int* lengths, int b) {
  int t = blockIdx.x, s = 0;
  for (int i = threadIdx.x; i < b; i += blockDim.x) s += lengths[i] < t ? lengths[i] : t;
  s = (int)block_total((double)s);
  if (threadIdx.x == 0) starts[t] = s;
}

// rows[p] = words[b, t + shift] for packed row p = (t, b); columns is the width of words. With transposed rows the
// place of (b, t) in words is b·columns + t.
KERNEL pack_words(int* rows, const int* words, const int* lengths, const int* starts, int b, int columns, int steps,
                  int shift) {
  EACH(i, (i64)b * steps) {
    int t = (int)(i / b), s = (int)(i - (i64)t * b);
    if (t < lengths[s]) rows[starts[t] + s] = words[(i64)s * columns + t + shift];
  }
}

// out[p] = table[rows[p]], one block for each packed row; zeros where rows[p] < 0.
KERNEL gather_words(float* out, const float* table, const int* rows, int d) {
  int w = rows[blockIdx.x];
  const float* from = table + (i64)w * d;
  float* to = out + (i64)blockIdx.x * d;
  for (int k = threadIdx.x; k < d; k += blockDim.x) to[k] = w < 0 ? 0 : from[k];
}
