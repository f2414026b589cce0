// Items whose rows lie one after the other: captions by their tables (captions.cu), or, where starts is null, images of
// n rows each.
#pragma once
#include "common.cuh"

struct Item { int n; i64 first, square; };  // rows, the first of them, Σ rows² before

VSE_INLINE Item item_of(const int* starts, const i64* squares, int i, int n) {
  Item x;
  x.first = starts ? starts[i] : (i64)i * n;
  x.square = starts ? squares[i] : (i64)i * n * n;
  x.n = starts ? starts[i + 1] - starts[i] : n;
  return x;
}
