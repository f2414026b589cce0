// A GRU of at most 32 units over a packed batch, all steps in one kernel (device.GRU; gru.cu has one step of a
// larger one). A warp, which is a block, has one sequence (blockIdx.x) in one direction (blockIdx.y); lane k has unit k
// and keeps its weights in registers. In precision bf16 weights, states and slopes are rounded like the operands of a
// product.
#include "gru.cuh"
#include "vector.cuh"

enum { kUnits = 32 };

// Walk lists the rows of a sequence in the order in which they are worked on, 32 at a time.
struct Walk {
  const int* starts;
  int sequence, length, backward;
};

VSE_INLINE i64 row_of(const Walk& w, int n) {
  return n < w.length ? (i64)w.starts[w.backward ? w.length - 1 - n : n] + w.sequence : -1;
}

// ask_ sets v to the first many values of a unit in a row of gates, [rows, 4h]; 0 where there is none.
VSE_INLINE void ask_(float* v, int many, const float* gates, i64 row, int k, int h) {
  for (int j = 0; j < many; j++) v[j] = k < h && row >= 0 ? gates[(row * 4 + j) * h + k] : 0;
}

// ask_back sets v to r, z, n, W_hn h + b_hn, the state before and dy, which may be null.
VSE_INLINE void ask_back(float* v, const float* gates, const float* prev, const float* dy, i64 row, int k, int h) {
  ask_(v, 4, gates, row, k, h);
  v[4] = k < h && row >= 0 ? prev[row * h + k] : 0;
  v[5] = k < h && row >= 0 && dy ? dy[row * h + k] : 0;
}

// dot adds Σ_j w_j·x_j over the units, x in shared memory.
VSE_INLINE float dot(const float* w, const float* x, float s) {
  UNROLL for (int j = 0; j < kUnits; j += 4) {
    Four v = four(x + j);
    s += w[j] * v[0];
    s += w[j + 1] * v[1];
    s += w[j + 2] * v[2];
    s += w[j + 3] * v[3];
  }
  return s;
}

// The gates hold W_i x and receive r, z, n and W_hn h + b_hn. They are asked for two steps before they are needed: the
// arithmetic of one step takes less than device memory.
KERNEL gru_small(float* gates0, float* gates1, float* y0, float* y1, float* prev0, float* prev1, const float* whh0,
                 const float* whh1, const float* bih0, const float* bih1, const float* bhh0, const float* bhh1,
                 const int* lengths, const int* starts, int steps, int b, int h, int reverse, int rounded) {
  __shared__ __attribute__((aligned(16))) float state[kUnits];
  int second = blockIdx.y, k = threadIdx.x, own = k < h;
  float *gates = second ? gates1 : gates0, *y = second ? y1 : y0, *prev = second ? prev1 : prev0;
  const float *whh = second ? whh1 : whh0, *bi = second ? bih1 : bih0, *bh = second ? bhh1 : bhh0;
  Walk walk = {starts, (int)blockIdx.x, lengths[blockIdx.x], (reverse != 0) != (second != 0)};
  float wr[kUnits], wz[kUnits], wn[kUnits], before = 0;
  UNROLL for (int j = 0; j < kUnits; j++) {
    int in = own && j < h;
    float r = in ? whh[k * h + j] : 0, z = in ? whh[(h + k) * h + j] : 0, n = in ? whh[(2 * h + k) * h + j] : 0;
    wr[j] = rounded ? to_bf16(r) : r, wz[j] = rounded ? to_bf16(z) : z, wn[j] = rounded ? to_bf16(n) : n;
  }
  float br = own ? bh[k] : 0, bz = own ? bh[h + k] : 0, bn = own ? bh[2 * h + k] : 0;
  float ir = own ? bi[k] : 0, iz = own ? bi[h + k] : 0, in = own ? bi[2 * h + k] : 0;
  i64 row = row_of(walk, 0), next = row_of(walk, 1), behind = row_of(walk, 2);
  float now[3], then[3], later[3];
  ask_(now, 3, gates, row, k, h);
  ask_(then, 3, gates, next, k, h);
  for (int n = 0; n < walk.length; n++) {
    state[k] = rounded ? to_bf16(before) : before;
    __syncthreads();
    i64 last = row_of(walk, n + 3);
    ask_(later, 3, gates, behind, k, h);
    float hr = dot(wr, state, 0) + br, hz = dot(wz, state, 0) + bz, c = dot(wn, state, 0) + bn;
    __syncthreads();
    if (own) {
      float* g = gates + row * 4 * h + k;
      Gates v = gates_(now[0] + ir + hr, now[1] + iz + hz, now[2] + in, c, before);
      g[0] = v.r;
      g[h] = v.z;
      g[2 * h] = v.m;
      g[3 * h] = c;
      prev[row * h + k] = before;
      y[row * h + k] = before = v.after;
    }
    row = next, next = behind, behind = last;
    for (int j = 0; j < 3; j++) now[j] = then[j], then[j] = later[j];
  }
}

// The gradient, in the opposite order: the gates become the gradients of the gate inputs, n, r, z, hn. dy is scaled; it
// and final may be null.
KERNEL gru_small_grad(float* gates0, float* gates1, const float* prev0, const float* prev1, const float* whh0,
                      const float* whh1, const float* dy, const float* final, const int* lengths, const int* starts,
                      float scale, int steps, int b, int h, int reverse, int rounded) {
  __shared__ __attribute__((aligned(16))) float slopes[3 * kUnits];
  int second = blockIdx.y, k = threadIdx.x, own = k < h;
  float* gates = second ? gates1 : gates0;
  const float *prev = second ? prev1 : prev0, *whh = second ? whh1 : whh0;
  Walk walk = {starts, (int)blockIdx.x, lengths[blockIdx.x], (reverse != 0) == (second != 0)};
  float wr[kUnits], wz[kUnits], wn[kUnits];
  UNROLL for (int j = 0; j < kUnits; j++) {
    int in = own && j < h;
    float r = in ? whh[j * h + k] : 0, z = in ? whh[(h + j) * h + k] : 0, n = in ? whh[(2 * h + j) * h + k] : 0;
    wr[j] = rounded ? to_bf16(r) : r, wz[j] = rounded ? to_bf16(z) : z, wn[j] = rounded ? to_bf16(n) : n;
  }
  float carry = own && final ? final[(i64)blockIdx.x * h + k] : 0;
  i64 row = row_of(walk, 0), next = row_of(walk, 1), behind = row_of(walk, 2);
  float now[6], then[6], later[6];
  ask_back(now, gates, prev, dy, row, k, h);
  ask_back(then, gates, prev, dy, next, k, h);
  for (int n = 0; n < walk.length; n++) {
    i64 last = row_of(walk, n + 3);
    ask_back(later, gates, prev, dy, behind, k, h);
    float r = now[0], z = now[1], m = now[2], c = now[3], d = carry + scale * now[5];
    Slopes s = slopes_(d, r, z, m, c, now[4]);
    if (own) {
      float* g = gates + row * 4 * h + k;
      g[0] = s.dn;
      g[h] = s.dr;
      g[2 * h] = s.dz;
      g[3 * h] = s.dh;
    }
    __syncthreads();
    slopes[k] = rounded ? to_bf16(s.dr) : s.dr;
    slopes[kUnits + k] = rounded ? to_bf16(s.dz) : s.dz;
    slopes[2 * kUnits + k] = rounded ? to_bf16(s.dh) : s.dh;
    __syncthreads();
    carry = d * z + dot(wn, slopes + 2 * kUnits, dot(wz, slopes + kUnits, dot(wr, slopes, 0)));
    for (int j = 0; j < 6; j++) now[j] = then[j], then[j] = later[j];
    row = next, next = behind, behind = last;
  }
}
