package gemm

import "unsafe"

const (
	sharedWords = 4 << 20 // most words of the shared packed operand: 16 MiB
	blockCols   = 512     // most columns of B a thread packs together
	nearTerms   = 1024    // values of k that a thread packs together if they are several blocks,
	nearOthers  = 256     // and the columns or rows they meet one after another
	serialFlops = 1 << 17 // products smaller than this do not pay for waking other threads
)

// job is the product in work. The shared operand is packed for the k blocks [kb0, kb1); tasks cut the other.
type job struct {
	a          Args
	kn         *kernel
	opA, opB   operand
	nkb, kSize int // blocks of k and their size

	kb0, kb1   int // blocks of k in this pass
	m0, m1     int // rows of C in this pass
	n0, n1     int // columns of C in this pass
	sharedA    bool
	sharedB    bool
	left       []float32 // A packed before
	packed     *Packed   // B packed before
	last       bool      // tasks begin with the last one
	tasks      int
	rowTasks   bool      // tasks cut the rows, else the columns
	dst        []float32 // where the shared operand is packed
	packGroups int       // packing tasks per block of k
}

// multiply runs the blocked product; left and p, when not nil, hold A and op(B) packed before.
func (e *Engine) multiply(a *Args, left *PackedA, p *Packed) {
	j := &e.job
	// Every other product with B packed before begins with the columns that the one before ended with: of a recurrent
	// weight that is larger than the level-2 cache, they are still there.
	*j = job{a: *a, kn: e.kernel(a.Precision, a.K), packed: p, last: p != nil && !j.last}
	if left != nil {
		j.left = left.data
	}
	j.opA = operand{a.A, a.LDA, a.TransA}
	j.opB = operand{a.B, a.LDB, !a.TransB}
	j.nkb, j.kSize = j.kn.blocks(a.K)
	if p == nil && j.transposes() {
		e.multiplyTransposed()
		return
	}
	// The smaller operand is packed once for all threads. With B packed before, A is shared when all threads
	// must work on the same few rows.
	j.rowTasks = a.N < a.M || j.kn.byRows && a.M >= 8*j.kn.mr*e.pool.Threads()
	if p != nil {
		j.rowTasks = a.M >= j.kn.rows && left == nil
	}
	j.sharedB = j.rowTasks && p == nil
	j.sharedA = !j.rowTasks && left == nil
	outer := a.M
	if j.rowTasks {
		outer = a.N
	}
	// Passes: blocks of the shared operand small enough for its workspace.
	step := outer
	if (j.sharedA || j.sharedB) && outer*j.kSize > sharedWords {
		step = max(blockCols, sharedWords/j.kSize/blockCols*blockCols)
	}
	kStep := max(1, sharedWords/(min(step, outer)*j.kSize))
	if !j.sharedA && !j.sharedB {
		kStep = j.nkb
	}
	j.m0, j.m1, j.n0, j.n1 = 0, a.M, 0, a.N
	for o := 0; o < outer; o += step {
		if j.rowTasks {
			j.n0, j.n1 = o, min(a.N, o+step)
		} else {
			j.m0, j.m1 = o, min(a.M, o+step)
		}
		for kb := 0; kb < j.nkb; kb += kStep {
			j.kb0, j.kb1 = kb, min(j.nkb, kb+kStep)
			e.pass()
		}
	}
	// keep no caller's memory alive
	j.a, j.opA, j.opB, j.left, j.packed, j.dst = Args{}, operand{}, operand{}, nil, nil, nil
}

// pass packs the shared operand for its part of k and works through the tasks.
func (e *Engine) pass() {
	j := &e.job
	m, n := j.m1-j.m0, j.n1-j.n0
	serial := 2*m*n*j.a.K <= serialFlops
	if j.sharedA || j.sharedB {
		outer, words := j.kn.paddedM(m), j.kn.wordsA(j.kSize)
		if j.sharedB {
			outer, words = roundUp(n, j.kn.nr), j.kn.words(j.kSize)
		}
		words *= outer * (j.kb1 - j.kb0)
		e.shared = grow(e.shared, words)
		e.pack(e.shared, outer, serial || words < 1<<14)
	}
	j.tasks = 1
	if !serial {
		j.tasks = e.taskCount(m, n)
	}
	e.pool.For(j.tasks, &e.working)
}

// pack packs the blocks of the pass of the shared operand, outer rows or columns of it, into dst.
func (e *Engine) pack(dst []float32, outer int, serial bool) {
	j := &e.job
	j.dst, j.packGroups = dst, 1
	if !serial {
		j.packGroups = max(1, outer/128)
	}
	tasks := j.packGroups * (j.kb1 - j.kb0)
	if !serial {
		e.pool.For(tasks, &e.packing)
		return
	}
	for i := range tasks {
		e.packing.Do(0, i)
	}
}

// taskCount cuts the larger dimension: a few tasks a thread to balance uneven cores, none wider than a
// thread's packing buffer, none narrower than a panel.
func (e *Engine) taskCount(m, n int) int {
	j, threads := &e.job, e.pool.Threads()
	outer, limit, unit := n, blockCols, j.kn.nr
	if j.rowTasks {
		outer, limit, unit = m, j.kn.rows, j.kn.mr
	}
	want := threads
	if threads > 1 {
		want = 4 * threads
	}
	tasks := max(want, (outer+limit-1)/limit)
	tasks = roundUp(tasks, threads)
	return max(1, min(tasks, (outer+unit-1)/unit))
}

// kRange returns the first value and the size of block kb.
func (j *job) kRange(kb int) (k0, k int) {
	k0 = kb * j.kSize
	return k0, min(j.kSize, j.a.K-k0)
}

// packPhase packs the shared operand: task i is a group of panels of one block of k.
type packPhase struct{ e *Engine }

func (p *packPhase) Do(worker, i int) {
	e := p.e
	j, w := &e.job, &e.workers[worker]
	kb, g := i/j.packGroups, i%j.packGroups
	k0, k := j.kRange(j.kb0 + kb)
	if j.sharedB {
		n := j.n1 - j.n0
		np := (n + j.kn.nr - 1) / j.kn.nr
		lo, hi := g*np/j.packGroups*j.kn.nr, min(n, (g+1)*np/j.packGroups*j.kn.nr)
		if lo < hi {
			base := kb*j.kn.words(j.kSize)*np*j.kn.nr + lo*j.kn.words(k)
			j.kn.packB(w, j.dst[base:], &j.opB, span{j.n0 + lo, hi - lo, k0, k})
		}
		return
	}
	m := j.m1 - j.m0
	np, h := j.kn.panels(m)
	lo, hi := g*np/j.packGroups*h, min(m, (g+1)*np/j.packGroups*h)
	if lo < hi {
		base := kb*j.kn.wordsA(j.kSize)*j.kn.paddedM(m) + lo*j.kn.wordsA(k)
		j.kn.packA(w, j.dst[base:], &j.opA, span{j.m0 + lo, hi - lo, k0, k}, h)
	}
}

// workPhase computes tasks.
type workPhase struct{ e *Engine }

func (p *workPhase) Do(worker, i int) {
	e := p.e
	j, w := &e.job, &e.workers[worker]
	kn := j.kn
	w.c = j.a.C
	if j.last {
		i = j.tasks - 1 - i
	}
	if j.rowTasks {
		m := j.m1 - j.m0
		np, h := kn.panels(m)
		e.rows(w, j.m0+i*np/j.tasks*h, j.m0+min(m, (i+1)*np/j.tasks*h))
		return
	}
	np := (j.n1 - j.n0 + kn.nr - 1) / kn.nr
	lo, hi := j.n0+i*np/j.tasks*kn.nr, min(j.n1, j.n0+(i+1)*np/j.tasks*kn.nr)
	e.cols(w, lo, hi)
}

// together returns how many blocks of k a thread packs at a time, and with how many columns or rows of the other
// operand it multiplies them one after another, while their part of C is in the level-2 cache.
func (j *job) together() (blocks, others int) {
	if blocks = min(j.kb1-j.kb0, nearTerms/j.kSize); blocks < 2 {
		return 1, 1 << 30
	}
	return blocks, nearOthers
}

// rows computes C[m0:m1, n0:n1] of the pass from B shared, packing its rows of A.
func (e *Engine) rows(w *worker, m0, m1 int) {
	j := &e.job
	kn, m := j.kn, m1-m0
	blocks, others := j.together()
	size := kn.paddedM(m) * kn.wordsA(j.kSize)
	w.a = grow(w.a, blocks*size)
	_, h := kn.panels(m)
	for kb := j.kb0; kb < j.kb1; kb += blocks {
		end := min(j.kb1, kb+blocks)
		for b := kb; b < end; b++ {
			k0, k := j.kRange(b)
			kn.packA(w, w.a[(b-kb)*size:], &j.opA, span{m0, m, k0, k}, h)
		}
		for n := j.n0; n < j.n1; n += others {
			for b := kb; b < end; b++ {
				_, k := j.kRange(b)
				e.block(w, w.a[(b-kb)*size:], j.sharedBlock(e, b)[(n-j.n0)*kn.words(k):], m0, m, h, n,
					min(others, j.n1-n), b, true)
			}
		}
	}
}

// sharedBlock returns the packed columns of B of block kb, from the pass or packed before.
func (j *job) sharedBlock(e *Engine, kb int) []float32 {
	if p := j.packed; p != nil {
		return p.data[kb*j.kn.words(j.kSize)*roundUp(j.a.N, j.kn.nr):]
	}
	return e.shared[(kb-j.kb0)*j.kn.words(j.kSize)*roundUp(j.n1-j.n0, j.kn.nr):]
}

// cols computes C[m0:m1, n0:n1] from A shared, packing its columns of B unless they are packed.
func (e *Engine) cols(w *worker, n0, n1 int) {
	j := &e.job
	kn, m := j.kn, j.m1-j.m0
	_, h := kn.panels(m)
	group := max(1, kn.rows/h) * h
	blocks, width := 1, blockCols
	if together, others := j.together(); together > 1 && j.packed == nil {
		blocks, width = together, others
	}
	for kb := j.kb0; kb < j.kb1; kb += blocks {
		end := min(j.kb1, kb+blocks)
		for n := n0; n < n1; n += width {
			cols := min(width, n1-n)
			if j.packed == nil {
				w.b = grow(w.b, blocks*width*kn.words(j.kSize))
				for b := kb; b < end; b++ {
					k0, k := j.kRange(b)
					kn.packB(w, w.b[(b-kb)*width*kn.words(j.kSize):], &j.opB, span{n, cols, k0, k})
				}
			}
			for g := 0; g < m; g += group {
				for b := kb; b < end; b++ {
					_, k := j.kRange(b)
					cb, far := w.b[(b-kb)*width*kn.words(j.kSize):], false
					if j.packed != nil {
						cb, far = j.sharedBlock(e, b)[n*kn.words(k):], true
					}
					e.block(w, j.leftBlock(e, b)[g*kn.wordsA(k):], cb, j.m0+g, min(group, m-g), h, n, cols, b, far)
				}
			}
		}
	}
}

// leftBlock returns the packed rows of A of block kb, from the pass or packed before.
func (j *job) leftBlock(e *Engine, kb int) []float32 {
	words := j.kn.wordsA(j.kSize) * j.kn.paddedM(j.m1-j.m0)
	if j.left != nil {
		return j.left[kb*words:]
	}
	return e.shared[(kb-j.kb0)*words:]
}

// block multiplies m rows of a (panels of height h, the first row m0 of C) with cols columns of b (the first n0 of C).
// far: b comes from far memory, and its next panel is fetched while one is in work.
func (e *Engine) block(w *worker, a, b []float32, m0, m, h, n0, cols, kb int, far bool) {
	j := &e.job
	kn, t := j.kn, &w.t
	_, k := j.kRange(kb)
	words, wordsA := kn.words(k), kn.wordsA(k)
	t.k, t.ldc, t.alpha, t.beta = words, j.a.LDC, j.a.Alpha, 1
	if kb == 0 {
		t.beta = j.a.Beta
	}
	bias := j.a.Bias != nil && kb == j.nkb-1
	t.tmp = unsafe.Pointer(&w.tmp[0])
	width := kn.nr
	if kn.tall {
		width = cols
	}
	for c := 0; c < cols; c += width {
		t.n = min(width, cols-c)
		t.b = unsafe.Pointer(&b[c*words])
		t.bias = nil
		if bias {
			t.bias = unsafe.Pointer(&j.a.Bias[n0+c])
		}
		next := kn.nr // first column, in panels that follow, whose words are not fetched yet
		step := h
		if kn.tall {
			step = m
		}
		for r := 0; r < m; r += step {
			t.m = min(step, m-r)
			t.lda, t.stepA = 4, 4*t.m
			t.a = unsafe.Pointer(&a[r*wordsA])
			t.c = unsafe.Pointer(&w.c[(m0+r)*j.a.LDC+n0+c])
			t.pf = t.b
			if far && next < 2*kn.nr && c+kn.nr < cols {
				t.pf = unsafe.Pointer(&b[(c+next)*words])
				next += 16 // a call fetches 64 bytes a word: 16 columns
			}
			kn.run(w)
		}
	}
	t.a, t.b, t.c, t.bias, t.pf = nil, nil, nil, nil, nil
}
