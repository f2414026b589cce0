// Rows of a batch whose items are dealt in turn to ranks (device.Deal): item i is the item of rank i mod ranks.
#include "common.cuh"

// Rows of width values move between `all`, which has the rows of all items in their order, and `dealt`, which has the
// rows of one rank after the rows of the one before, most values apart. An item has lengths rows, or one where lengths
// is null. A block for each item, and one more for what is left of `to` after the last row, up to room values: zeros.
//
//   way 0: all from dealt.
//   way 1: dealt from all; what is left stays as it is.
//   way 2: the rows of one rank from all.
KERNEL deal_rows(float* to, const float* from, const int* lengths, int items, int ranks, int rank, int width, i64 most,
                 i64 room, int way) {
  int item = blockIdx.x, owner = way == 2 && item == items ? rank : item % ranks;
  i64 before = item, mine = item / ranks, rows = 1;  // rows before: of all, and of this rank
  if (lengths) {
    double all = 0, own = 0;  // of whole numbers
    for (int i = threadIdx.x; i < item; i += blockDim.x) {
      all += lengths[i];
      if (i % ranks == owner) own += lengths[i];
    }
    before = (int)block_total(all);
    mine = (int)block_total(own);
    if (item < items) rows = lengths[item];
  } else if (way == 2 && item == items) {
    mine = (items - rank + ranks - 1) / ranks;
  }
  i64 step = (i64)blockDim.x * gridDim.y, first = (i64)blockIdx.y * blockDim.x + threadIdx.x;
  if (item == items) {
    if (way == 1) return;
    for (i64 k = (way == 2 ? mine : before) * width + first; k < room; k += step) to[k] = 0;
    return;
  }
  if (way == 2 && owner != rank) return;
  i64 whole = before * width, part = mine * width + (way == 2 ? 0 : owner * most);
  to += way == 0 ? whole : part;
  from += way == 0 ? part : whole;
  for (i64 k = first; k < rows * width; k += step) to[k] = from[k];
}
