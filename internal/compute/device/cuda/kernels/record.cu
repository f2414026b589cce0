// What stands between the host and a step: its small inputs and results, and what keeps it from going wrong unseen.
#include "common.cuh"

// x - x is 0 for finite x, NaN otherwise. first and second may be null.
VSE_INLINE int finite_(const float* x) { return !x || x[0] - x[0] == 0; }

// coef = NaN unless it, the norm and the losses are finite (adam leaves everything as it is then).
KERNEL guard(float* coef, const float* norm, const float* first, const float* second) {
  if (threadIdx.x) return;
  if (!(finite_(coef) && finite_(norm) && finite_(first) && finite_(second))) coef[0] = as_float(0x7fc00000u);
}

// Copies parts of words to other places: part k is copied by the blocks (x, k).
KERNEL copy_parts(int* to0, const int* from0, int n0, int* to1, const int* from1, int n1,
                  int* to2, const int* from2, int n2, int* to3, const int* from3, int n3,
                  int* to4, const int* from4, int n4, int* to5, const int* from5, int n5,
                  int* to6, const int* from6, int n6, int* to7, const int* from7, int n7,
                  int* to8, const int* from8, int n8, int* to9, const int* from9, int n9) {
  int *to = to0, n = n0;
  const int* from = from0;
  switch (blockIdx.y) {
    case 1: to = to1, from = from1, n = n1; break;
    case 2: to = to2, from = from2, n = n2; break;
    case 3: to = to3, from = from3, n = n3; break;
    case 4: to = to4, from = from4, n = n4; break;
    case 5: to = to5, from = from5, n = n5; break;
    case 6: to = to6, from = from6, n = n6; break;
    case 7: to = to7, from = from7, n = n7; break;
    case 8: to = to8, from = from8, n = n8; break;
    case 9: to = to9, from = from9, n = n9; break;
  }
  EACH(i, n) to[i] = from[i];
}
