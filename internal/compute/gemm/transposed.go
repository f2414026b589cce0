package gemm

import "unsafe"

// A product of few rows with a large stored [N, K] operand, such as the forward pass of a linear layer on wide inputs:
// C = A Bᵀ is computed as Cᵀ = B Aᵀ. The kernel then reads the rows of B where they are, and only the small A is
// packed; packing B takes a third of such a product, for each of its elements is used but M times. Every element is
// computed by the same operations as otherwise.

const (
	transposedRows   = 256 // most rows of A: they stay in the level-2 cache, 512 values of k each
	transposedBlocks = 8   // fewest blocks of k
)

// transposes reports whether the product is done this way.
func (j *job) transposes() bool {
	a := &j.a
	return j.kn.inPlace && !a.TransA && a.TransB && a.Alpha == 1 && a.M <= transposedRows && a.N >= 4*a.M &&
		j.nkb >= transposedBlocks
}

// transposedPhase computes rows of Cᵀ; task i is a part of the rows. sum holds the blocks of k done, [N, wide], last
// the last block, which the bias joins before it is added.
type transposedPhase struct {
	e         *Engine
	wide      int // M rounded up
	sum, last []float32
	finish    bool
}

func (e *Engine) multiplyTransposed() {
	j, s := &e.job, &e.transposed
	a := &j.a
	j.opB = operand{a.A, a.LDA, false}
	j.sharedB, j.n1 = true, a.M
	s.wide = roundUp(a.M, j.kn.nr)
	s.sum, s.last = grow(s.sum, a.N*s.wide), grow(s.last, a.N*s.wide)
	panels := (a.N + j.kn.mr - 1) / j.kn.mr
	j.tasks = min(panels, 4*e.pool.Threads())
	s.finish = false
	kStep := max(1, sharedWords/(s.wide*j.kSize))
	for j.kb0 = 0; j.kb0 < j.nkb; j.kb0 += kStep {
		j.kb1 = min(j.nkb, j.kb0+kStep)
		e.shared = grow(e.shared, s.wide*j.kSize*(j.kb1-j.kb0))
		e.pack(e.shared, s.wide, false)
		e.pool.For(j.tasks, s)
	}
	s.finish = true
	e.pool.For(j.tasks, s)
	j.a, j.opA, j.opB, j.dst = Args{}, operand{}, operand{}, nil
}

func (s *transposedPhase) Do(worker, i int) {
	j, w := &s.e.job, &s.e.workers[worker]
	mr := j.kn.mr
	panels := (j.a.N + mr - 1) / mr
	lo, hi := i*panels/j.tasks*mr, min(j.a.N, (i+1)*panels/j.tasks*mr)
	if s.finish {
		s.store(lo, hi)
		return
	}
	if j.kb0 == 0 && j.a.Beta != 0 {
		for n := lo; n < hi; n++ {
			for m := range j.a.M {
				s.sum[n*s.wide+m] = j.a.C[m*j.a.LDC+n]
			}
		}
	}
	t := &w.t
	t.ldc, t.alpha, t.tmp, t.lda, t.stepA = s.wide, 1, unsafe.Pointer(&w.tmp[0]), 4*j.a.LDB, 4
	for kb := j.kb0; kb < j.kb1; kb++ {
		k0, k := j.kRange(kb)
		b := s.e.shared[(kb-j.kb0)*j.kSize*s.wide:]
		out := s.sum
		t.k, t.beta = k, 1
		if kb == 0 {
			t.beta = j.a.Beta
		}
		if kb == j.nkb-1 {
			out, t.beta = s.last, 0
		}
		for n := lo; n < hi; n += mr {
			t.m, t.a = min(mr, hi-n), unsafe.Pointer(&j.a.B[n*j.a.LDB+k0])
			for m := 0; m < j.a.M; m += j.kn.nr {
				t.n = min(j.kn.nr, j.a.M-m)
				t.b, t.c = unsafe.Pointer(&b[m*k]), unsafe.Pointer(&out[n*s.wide+m])
				t.pf = t.b
				j.kn.run(w)
			}
		}
	}
	t.a, t.b, t.c, t.pf = nil, nil, nil, nil
}

// store turns rows [lo, hi) of Cᵀ into columns of C, eight at a time for whole cache lines.
func (s *transposedPhase) store(lo, hi int) {
	a := &s.e.job.a
	for ; lo < hi; lo += 8 {
		for m := range a.M {
			for n := lo; n < min(hi, lo+8); n++ {
				last := s.last[n*s.wide+m]
				if a.Bias != nil {
					last += a.Bias[n]
				}
				a.C[m*a.LDC+n] = s.sum[n*s.wide+m] + last
			}
		}
	}
}
