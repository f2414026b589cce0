// The steps of a decoder with attention (device.Decoder): all steps one way are one kernel, whose blocks run at
// once, with barriers of all of them between the parts of a step (decoder_steps, decoder_grads). H, A and E are the
// same h.
//
//   forward   the products of the states before the step with the weights of query and gates · attention, a block for
//             each sequence · the product of the contexts with the weights of the gates, and the gates
//   back      the slopes of the gates · their products with the weights of states and contexts · the gradient of the
//             attention as far as query and context go · its product with the weights of the query
//
// What steps add up to the gradients of regions and keys takes one more kernel after them (decoder_sums). A block of
// the products has some units and a part of the sequences, in every step the same, with its columns of the weights in
// shared memory.
#include "gru.cuh"
#include "philox.cuh"
#include "recurrent.cuh"

enum {
  kTall = 2,      // tiles of 16 sequences that a warp multiplies at a time
  kUnits = 16,    // of a block, forward (Go: tensorUnits)
  kSlopes = 32,   // of a block, back (Go: tensorSlopes)
  kState = 4 * kUnits / 8,    // tiles of 8 columns of a block: gates and query of the state
  kContext = 3 * kUnits / 8,  // gates of the context
  kBack = kSlopes / 8,
  kRegions = 64,  // of an image, at most (Go: decoderRegions)
  kLane = 16,     // values of a row of h that a lane has, at most (Go: decoderWidth)
  kColumn = 12,   // values of a column that a thread asks for before it waits
};

// The weights as operands, one matrix after the other, and 0 for arrived. Forward: [4h, h], the gates r, z, n and the
// query of the state, and [3h, h], the gates of the context. Back: [h, 3h], the state of the slopes hn, r, z; [h, 3h],
// the context of r, z, n; [h, h], the state of the query. Rows of wih lie in apart, the rows of attend width apart.
KERNEL decoder_weights(bf16* to, const float* whh, const float* wih, const float* attend, u32* arrived, int h, int in,
                       int width, int back) {
  if (blockIdx.x + threadIdx.x == 0) *arrived = 0;
  i64 eighth = (i64)h * h / 8, first = (back ? 3 : 4) * eighth, second = first + 3 * eighth;
  EACH(i, 7 * eighth) {
    int which = (i >= first) + (i >= second), rows = back ? h : which ? 3 * h : 4 * h;
    i64 at = i - (which == 2 ? second : which ? first : 0);
    i64 row = at / 4 % rows, column = at / 4 / rows * 32 + at % 4 * 8;
    int part = (int)((back ? column : row) / h);
    i64 down = 1;
    const float* x;
    if (!back) {
      x = which ? wih + row * in : part == 3 ? attend + (row - 3 * h) * width : whh + row * h;
      x += column;
    } else {
      down = which == 0 ? h : which == 1 ? in : width;
      i64 from = which == 0 ? column + (part == 0 ? 2 : -1) * (i64)h : column;  // hn, r, z lie as r, z, hn
      x = (which == 0 ? whh : which == 1 ? wih : attend) + from * down + row;
    }
    float v[8];
    UNROLL for (int j = 0; j < 8; j++) v[j] = x[j * down];
    write_eight_halves(to + 8 * i, v, 0, 8);
  }
}

// Own are the sequences and units of a thread: of each tile of 16 sequences sequence of it, and unit k of all.
struct Own { Sequences s; int half, sequence, at, k; };

VSE_INLINE Own own_(int b, int units, int h) {
  int groups = h / units, thread = threadIdx.x % kTile;
  Own o = {sequences_(b, blockIdx.x / groups, gridDim.x / groups), (int)threadIdx.x / kTile, thread / 8, thread,
           (int)blockIdx.x % groups * units + (int)threadIdx.x / kTile * 8 + thread % 8};
  return o;
}

// until_ is s as far as the first n sequences go.
VSE_INLINE int until_(const Sequences& s, int n) { return s.last < n ? s.last : n; }

// products_ multiplies the sequences of a block, of those before last, with columns, and calls use for each one of the
// thread; total_ of part has its products then.
template <int columns, int near, class Use>
VSE_INLINE void products_(float* part, const bf16* operand, const Columns<columns, near>& of, int depth, const Own& o,
                          int last, int rows, Use use) {
  for (int row = o.s.first; row < last; row += 16 * kTall) {
    float x[kTall][columns][4];
    multiply_<false>(x, operand + 32 * row, rows, of, depth, (last - row + 15) / 16);
    UNROLL for (int i = 0; i < kTall; i++) {
      int q = row + 16 * i + o.sequence;
      if (row + 16 * i >= last) continue;
      give_<columns>(part, x[i]);
      if (q < last) use(q);
    }
  }
}

// Masks are the masks of the dropout of contexts, whose rows have numbers. factor 0 is not dropout.
struct Masks {
  const int *step, *numbers;
  u32 key0, key1, limit;
  float factor;
};

// dropped_ is value k of a row of contexts, with dropout.
VSE_INLINE float dropped_(const Masks& m, float x, i64 row, int k) {
  if (m.factor == 0) return x;
  float f = dropout_factor(m.numbers[row], k, m.step, m.key0, m.key1, m.limit, m.factor);
  return f == 0 ? 0 : x * f;
}

// lane_ reads what a lane has of a row of h values, 0 after it.
VSE_INLINE void lane_(float* v, const float* x, int h) {
  int lane = threadIdx.x & 31;
  UNROLL for (int j = 0; j < kLane; j++) v[j] = lane + 32 * j < h ? x[lane + 32 * j] : 0;
}

// column_ reads the next kColumn values of a column of r rows of h values from row i on, 0 after them.
VSE_INLINE void column_(float* v, const float* x, int i, int r, int h) {
  UNROLL for (int j = 0; j < kColumn; j++) v[j] = i + j < r ? x[(i64)(i + j) * h] : 0;
}

// attend_ makes the weights of sequence q and its context, also as an operand, from its query: a block.
VSE_INLINE void attend_(float* weights, float* context, bf16* operand, const float* keys, const float* values,
                        const float* query, const float* vector, const Masks& m, i64 row, int q, int b, int r,
                        int h) {
  __shared__ float w[kRegions];
  keys += (i64)q * r * h;
  values += (i64)q * r * h;
  float x[kLane], y[kLane], z[kLane];
  lane_(y, query + row * h, h);
  lane_(z, vector, h);
  for (int i = threadIdx.x / 32; i < r; i += kWarps) {
    lane_(x, keys + (i64)i * h, h);
    float s = 0;
    UNROLL for (int j = 0; j < kLane; j++) s += z[j] * tanh_(x[j] + y[j]);
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) w[i] = s;
  }
  __syncthreads();
  float most = w[0], sum = 0;
  for (int i = 1; i < r; i++)
    if (w[i] > most || w[i] != w[i]) most = w[i];
  float mine = (int)threadIdx.x < r ? exp_(w[threadIdx.x] - most) : 0;
  __syncthreads();
  if ((int)threadIdx.x < r) w[threadIdx.x] = mine;
  __syncthreads();
  for (int i = 0; i < r; i++) sum += w[i];
  if ((int)threadIdx.x < r) weights[row * r + threadIdx.x] = mine / sum;
  for (int k = threadIdx.x; k < h; k += blockDim.x) {
    float s = 0, v[kColumn];
    for (int i = 0; i < r; i += kColumn) {
      column_(v, values + k, i, r, h);
      UNROLL for (int j = 0; j < kColumn; j++)
        if (i + j < r) s += w[i + j] / sum * v[j];
    }
    s = dropped_(m, s, row, k);
    context[row * h + k] = s;
    operand[tiled(q, k, sixteens(b))] = bf16_of(s);
  }
  __syncthreads();  // w has been read
}

// All steps forward. The gates hold W_i x + b_i of the words. state_columns and context_columns are the columns of
// decoder_weights, state and context_operand [b, h], in tiles, b rounded up to 16, what the last step left for them.
//
// Three barriers a step take four accesses of the L2 cache each. A multiprocessor gets some 13 kB from that cache in a
// turn: the operands of its sequences, and its own keys and values.
KERNEL decoder_steps(float* gates, float* y, float* prev, float* query, float* weights, float* context,
                     const float* keys, const float* values, const float* vector, const float* initial,
                     const float* bhh, const bf16* state_columns, const bf16* context_columns, bf16* state,
                     bf16* context_operand, u32* arrived, const int* starts, const int* step, const int* numbers,
                     u32 key0, u32 key1, u32 limit, float factor, int steps, int b, int r, int h) {
  Masks m = {step, numbers, key0, key1, limit, factor};
  Own o = own_(b, kUnits, h);
  int k = o.k, rows = sixteens(b);
  i64 first = 32 * ((i64)blockIdx.x % (h / kUnits)) * kUnits;
  Columns<kState, 2> of_state = {state_columns + first, 4 * h, h};
  Columns<kContext, 2> of_context = {context_columns + first, 3 * h, h};
  of_state = keep_(shared_quads, of_state, h);
  of_context = keep_(shared_quads + kState * h, of_context, h);
  float* part = (float*)(shared_quads + (kState + kContext) * h);
  float br = bhh[k], bz = bhh[h + k], bn = bhh[2 * h + k];
  for (int q = o.s.first + o.sequence; q < o.s.last; q += 16) state[tiled(q, k, rows)] = bf16_of(initial[q * h + k]);
  u32 barriers = 0;
  for (int t = 0; t < steps; t++) {
    i64 start = starts[t];
    int active = starts[t + 1] - (int)start, last = until_(o.s, active);
    grid_barrier(arrived, ++barriers);
    products_(part, state, of_state, h, o, last, rows, [&](int q) {
      float* g = gates + (start + q) * 4 * h + k;
      g[0] += total_<kState>(part, o.half, o.at) + br;
      g[h] += total_<kState>(part, 2 + o.half, o.at) + bz;
      g[3 * h] = total_<kState>(part, 4 + o.half, o.at) + bn;
      query[(start + q) * h + k] = total_<kState>(part, 6 + o.half, o.at);
    });
    grid_barrier(arrived, ++barriers);
    for (int q = blockIdx.x; q < active; q += gridDim.x)
      attend_(weights, context, context_operand, keys, values, query, vector, m, start + q, q, b, r, h);
    grid_barrier(arrived, ++barriers);
    products_(part, context_operand, of_context, h, o, last, rows, [&](int q) {
      i64 at = (start + q) * h + k;
      float* g = gates + (start + q) * 4 * h + k;
      float before = t == 0 ? initial[q * h + k] : y[((i64)starts[t - 1] + q) * h + k];
      Gates v = gates_(g[0] + total_<kContext>(part, o.half, o.at), g[h] + total_<kContext>(part, 2 + o.half, o.at),
                       g[2 * h] + total_<kContext>(part, 4 + o.half, o.at), g[3 * h], before);
      g[0] = v.r;
      g[h] = v.z;
      g[2 * h] = v.m;
      prev[at] = before;
      y[at] = v.after;
      state[tiled(q, k, rows)] = bf16_of(v.after);
    });
  }
}

// attend_back_ makes the gradients of the scores and of the query of sequence q, also as an operand, from the gradient
// of its context: a block.
VSE_INLINE void attend_back_(float* dscores, float* dquery, bf16* operand, const float* dcontext, const float* keys,
                             const float* values, const float* query, const float* vector, const float* weights,
                             i64 row, int q, int b, int r, int h) {
  __shared__ float dots[kRegions], w[kRegions];
  keys += (i64)q * r * h;
  values += (i64)q * r * h;
  float x[kLane], y[kLane], mean = 0;
  lane_(y, dcontext + row * h, h);
  if ((int)threadIdx.x < r) w[threadIdx.x] = weights[row * r + threadIdx.x];
  for (int i = threadIdx.x / 32; i < r; i += kWarps) {
    lane_(x, values + (i64)i * h, h);
    float s = 0;
    UNROLL for (int j = 0; j < kLane; j++) s += y[j] * x[j];
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) dots[i] = s;
  }
  __syncthreads();
  for (int i = 0; i < r; i++) mean += w[i] * dots[i];
  if ((int)threadIdx.x < r) dscores[row * r + threadIdx.x] = w[threadIdx.x] * (dots[threadIdx.x] - mean);
  for (int k = threadIdx.x; k < h; k += blockDim.x) {
    float c = query[row * h + k], u = vector[k], dq = 0, v[kColumn];
    for (int i = 0; i < r; i += kColumn) {
      column_(v, keys + k, i, r, h);
      UNROLL for (int j = 0; j < kColumn; j++)
        if (i + j < r) {
          float a = tanh_(v[j] + c);
          dq += w[i + j] * (dots[i + j] - mean) * u * (1 - a * a);
        }
    }
    dquery[row * h + k] = dq;
    operand[tiled(q, k, sixteens(b))] = bf16_of(dq);
  }
  __syncthreads();  // dots and w have been read
}

// The gradients of all steps. Blocks of blockIdx.y 0 have states, the blocks of 1 contexts. carry [b, h], 0 where a
// sequence has no step, becomes the gradient of the initial states; the gates become the gradients of their inputs, n,
// r, z, hn; dcontext, dscores and dquery are the gradients of every row. columns are the columns of decoder_weights,
// slopes [b, 4h], of hn, r, z, n, and query_operand [b, h] lie in tiles.
KERNEL decoder_grads(float* gates, float* carry, float* dcontext, float* dscores, float* dquery, const float* prev,
                     const float* dy, const float* keys, const float* values, const float* query, const float* vector,
                     const float* weights, const bf16* columns, bf16* slopes, bf16* query_operand, u32* arrived,
                     const int* starts, const int* step, const int* numbers, u32 key0, u32 key1, u32 limit,
                     float factor, int steps, int b, int r, int h) {
  enum { kOwn = kSlopes / 16 };
  Masks m = {step, numbers, key0, key1, limit, factor};
  Own o = own_(b, kSlopes, h);
  int k = o.k, rows = sixteens(b), of_contexts = blockIdx.y;
  i64 all = (i64)h * rows, first = 32 * ((i64)blockIdx.x % (h / kSlopes)) * kSlopes;
  Columns<kBack, kBack> of = {columns + of_contexts * 3 * (i64)h * h + first, h, 0},
                        of_query = {columns + 6 * (i64)h * h + first, h, 0};
  of = keep_(shared_quads, of, 3 * h);
  of_query = keep_(shared_quads + kBack * 3 * h, of_query, h);
  float* part = (float*)(shared_quads + kBack * 4 * h);
  u32 barriers = 0;
  for (int t = steps - 1; t >= 0; t--) {
    i64 start = starts[t];
    int active = starts[t + 1] - (int)start, last = until_(o.s, active);
    for (int q = o.s.first + o.sequence; q < last && !of_contexts; q += 16)
      UNROLL for (int u = 0; u < kOwn; u++) {
        int unit = k + 16 * u;
        i64 at = (start + q) * h + unit;
        float *g = gates + (start + q) * 4 * h + unit, *c = carry + (i64)q * h + unit, d = *c + dy[at], z = g[h];
        Slopes v = slopes_(d, g[0], z, g[2 * h], g[3 * h], prev[at]);
        g[0] = v.dn;
        g[h] = v.dr;
        g[2 * h] = v.dz;
        g[3 * h] = v.dh;
        *c = d * z;
        bf16* to = slopes + tiled(q, unit, rows);
        to[0] = bf16_of(v.dh);
        to[all] = bf16_of(v.dr);
        to[2 * all] = bf16_of(v.dz);
        to[3 * all] = bf16_of(v.dn);
      }
    grid_barrier(arrived, ++barriers);
    products_(part, slopes + of_contexts * all, of, 3 * h, o, last, rows, [&](int q) {
      UNROLL for (int u = 0; u < kOwn; u++) {
        float s = total_<kBack>(part, 2 * u + o.half, o.at);
        if (of_contexts)
          dcontext[(start + q) * h + k + 16 * u] = dropped_(m, s, start + q, k + 16 * u);
        else
          carry[(i64)q * h + k + 16 * u] += s;
      }
    });
    grid_barrier(arrived, ++barriers);
    for (int q = blockIdx.x + gridDim.x * blockIdx.y; q < active; q += gridDim.x * gridDim.y)
      attend_back_(dscores, dquery, query_operand, dcontext, keys, values, query, vector, weights, start + q, q, b, r,
                   h);
    grid_barrier(arrived, ++barriers);
    if (of_contexts) continue;
    products_(part, query_operand, of_query, h, o, last, rows, [&](int q) {
      UNROLL for (int u = 0; u < kOwn; u++)
        carry[(i64)q * h + k + 16 * u] += total_<kBack>(part, 2 * u + o.half, o.at);
    });
  }
}

// The gradients of keys, values and vector, from the gradients of all steps: a block for each sequence (blockIdx.y) and
// its columns.
KERNEL decoder_sums(float* dkeys, float* dvalues, float* dvector, const float* keys, const float* query,
                    const float* vector, const float* weights, const float* dscores, const float* dcontext,
                    const int* starts, int steps, int r, int h) {
  enum { kSteps = 4, kRows = 4 };
  int b = blockIdx.y, k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= h) return;
  float u = vector[k], dv = 0;
  while (steps > 0 && starts[steps] - starts[steps - 1] <= b) steps--;
  for (int i = 0; i < r; i += kRows) {
    float key[kRows], dk[kRows], dx[kRows];
    i64 at = ((i64)b * r + i) * h + k;
    UNROLL for (int j = 0; j < kRows; j++) {
      key[j] = i + j < r ? keys[at + (i64)j * h] : 0;
      dk[j] = dx[j] = 0;
    }
    for (int t = 0; t < steps; t += kSteps) {
      i64 row[kSteps];
      float q[kSteps], dc[kSteps];
      UNROLL for (int s = 0; s < kSteps; s++) {
        row[s] = (i64)starts[t + s < steps ? t + s : t] + b;
        q[s] = query[row[s] * h + k];
        dc[s] = dcontext[row[s] * h + k];
      }
      UNROLL for (int s = 0; s < kSteps; s++)
        UNROLL for (int j = 0; j < kRows; j++) {
          if (t + s >= steps || i + j >= r) continue;
          float e = dscores[row[s] * r + i + j], a = tanh_(key[j] + q[s]);
          dv += e * a;
          dk[j] += e * u * (1 - a * a);
          dx[j] += weights[row[s] * r + i + j] * dc[s];
        }
    }
    UNROLL for (int j = 0; j < kRows; j++)
      if (i + j < r) {
        dkeys[at + (i64)j * h] = dk[j];
        dvalues[at + (i64)j * h] = dx[j];
      }
  }
  dvector[(i64)b * h + k] = dv;
}
