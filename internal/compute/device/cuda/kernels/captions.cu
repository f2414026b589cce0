// Captions whose words are rows one after the other, without padding: where they begin, and which rows hold equal
// words.
#include "common.cuh"

// starts[c] = Σ lengths before c, squares[c] = Σ lengths² before c, for c = 0 … n; of[row] = caption of a row, -1 for
// rows after the last; order lists the captions, the longest first, equal ones in turn. A block for each c.
KERNEL caption_tables(i64* squares, int* starts, int* of, int* order, const int* lengths, int n, int rows) {
  int c = blockIdx.x, own = c < n ? lengths[c] : 0;
  double sum = 0, square = 0, ahead = 0;  // of whole numbers
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int length = lengths[i];
    ahead += length > own || (length == own && i < c);
    if (i >= c) continue;
    sum += length;
    square += (double)length * length;
  }
  int s = (int)block_total(sum), end = c < n ? s + own : rows, rank = (int)block_total(ahead);
  square = block_total(square);
  if (threadIdx.x == 0) {
    int high = (int)(square * (1.0 / 4294967296.0));
    starts[c] = s;
    if (c < n) order[rank] = c;
    squares[c] = (i64)high << 32 | (u32)(square - high * 4294967296.0);
  }
  for (int p = s + threadIdx.x; p < end; p += blockDim.x) of[p] = c < n ? c : -1;
}

// rows[starts[c] + t] = words[c, t], columns being the width of words; -1 for rows without a caption.
KERNEL caption_words(int* rows, const int* words, const int* of, const int* starts, int count, int columns) {
  EACH(p, count) {
    int c = of[p];
    rows[p] = c < 0 ? -1 : words[(i64)c * columns + (p - starts[c])];
  }
}

// order lists the rows by their words, rows of one word in turn: a row's rank is the number of rows before it. A block
// for each row.
KERNEL row_order(int* order, const int* rows, int count) {
  int p = blockIdx.x, w = rows[p], before = 0;
  for (int q = threadIdx.x; q < count; q += blockDim.x) before += rows[q] < w || (rows[q] == w && q < p);
  int rank = (int)block_total((double)before);
  if (threadIdx.x == 0) order[rank] = p;
}

// table[w] = Σ dout[p] over the rows p of word w, in turn. A block for each place of the order and 256 columns
// (blockIdx.y); the first place of a word does the work. Words of no row are left alone.
KERNEL sum_words(float* table, const float* dout, const int* rows, const int* order, int count, int d) {
  int lo = blockIdx.x, w = rows[order[lo]];
  if (w < 0 || (lo > 0 && rows[order[lo - 1]] == w)) return;
  int hi = count;  // the first place of a greater word
  for (int below = lo; hi - below > 1;) {
    int mid = below + (hi - below) / 2;
    if (rows[order[mid]] == w) below = mid;
    else hi = mid;
  }
  int k = blockIdx.y * blockDim.x + threadIdx.x;
  if (k >= d) return;
  float s = 0;
  for (int j = lo; j < hi; j++) s += dout[(i64)order[j] * d + k];
  table[(i64)w * d + k] = s;
}
