// What the kernels of a GRU share: the formulas of internal/compute/vec (gruCell), and the order of the steps.
#pragma once
#include "common.cuh"

// Gates are the gates of a unit and its state after the step.
struct Gates { float r, z, m, after; };

// gates_ takes the inputs of the gates: the inputs of r and z whole, the input of n without the part c = W_hn h + b_hn
// that r scales.
VSE_INLINE Gates gates_(float r, float z, float n, float c, float before) {
  Gates g;
  g.r = sigmoid_(r);
  g.z = sigmoid_(z);
  g.m = tanh_(n + g.r * c);
  g.after = (1 - g.z) * g.m + g.z * before;
  return g;
}

// Slopes are the gradients of the inputs of the gates, dh the gradient of c, from the gradient of the state after the
// step.
struct Slopes { float dn, dr, dz, dh; };

VSE_INLINE Slopes slopes_(float d, float r, float z, float m, float c, float before) {
  Slopes s;
  s.dn = d * (1 - z) * (1 - m * m);
  s.dr = s.dn * c * (r * (1 - r));
  s.dz = d * (before - m) * (z * (1 - z));
  s.dh = s.dn * r;
  return s;
}

// word returns the step in the sequences that is worked on when n of all steps are done. blockIdx.y counts directions,
// of which the second one reads the other way round than the first, which reads backwards with reverse.
VSE_INLINE int word(int n, int steps, int reverse) { return (reverse != 0) != (blockIdx.y != 0) ? steps - 1 - n : n; }
