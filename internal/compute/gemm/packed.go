package gemm

import "fmt"

// Packed is op(B) in the layout of a kernel, for weights that are multiplied many times. The next PackB reuses its
// memory. With a library in place of our kernels, it refers to B: B must not change until the last GemmPacked.
type Packed struct {
	data []float32
	kn   *kernel // nil: stored
	k, n int
	// stored is B as it was given, in B, LDB, TransB, where kn is nil.
	stored Args
}

// PackB packs op(B) [K, N] into p. TransB: B is stored [N, K]. It panics when b is too short.
func (e *Engine) PackB(p *Packed, transB bool, k, n int, b []float32, ldb int, precision Precision) {
	a := Args{TransB: transB, K: k, N: n, B: b, LDB: ldb}
	a.checkB()
	p.k, p.n, p.kn, p.stored = k, n, e.kernel(precision, k), Args{}
	if e.external(precision) {
		p.kn, p.stored = nil, a
		return
	}
	if k == 0 || n == 0 {
		return
	}
	j := &e.job
	*j = job{a: a, kn: p.kn, opB: operand{b, ldb, !transB}, sharedB: true, n1: n}
	j.nkb, j.kSize = p.kn.blocks(k)
	j.kb1 = j.nkb
	_, last := j.kRange(j.nkb - 1)
	cols := roundUp(n, p.kn.nr)
	p.data = grow(p.data, cols*((j.nkb-1)*p.kn.words(j.kSize)+p.kn.words(last)))
	e.pack(p.data, cols, k*n < 1<<14)
	j.a, j.opB, j.dst = Args{}, operand{}, nil
}

// ReserveB allocates memory in p for an operand [K, N], so that packing it does not allocate.
func (e *Engine) ReserveB(p *Packed, k, n int, precision Precision) {
	if kn := e.kernel(precision, k); k > 0 && !e.external(precision) {
		blocks, size := kn.blocks(k)
		p.data = grow(p.data, roundUp(n, kn.nr)*blocks*kn.words(size))
	}
}

// Reserve allocates the workspaces of products with M and N up to 512, so that these do not allocate.
func (e *Engine) Reserve() {
	for i := range e.workers {
		w := &e.workers[i]
		for _, kn := range []*kernel{e.f32, e.split, e.fixed, e.bf16} {
			if kn == nil {
				continue
			}
			blocks := max(1, nearTerms/kn.kc)
			w.a = grow(w.a, kn.paddedM(kn.rows)*blocks*kn.wordsA(kn.kc))
			w.b = grow(w.b, blockCols*blocks*kn.words(kn.kc))
			e.shared = grow(e.shared, blockCols*blocks*kn.wordsA(kn.kc))
		}
	}
}

// GemmPacked computes the product a with op(B) from p; it ignores a.B, a.LDB and a.TransB. It panics if p has another
// shape or precision.
func (e *Engine) GemmPacked(a *Args, p *Packed) {
	a.checkC()
	if a.scaleOnly() {
		return
	}
	a.checkA()
	if p.kn == nil {
		p.check(a, nil)
		e.product = *a
		e.product.B, e.product.LDB, e.product.TransB = p.stored.B, p.stored.LDB, p.stored.TransB
		if e.external(a.Precision) {
			e.lib.gemm(e, &e.product)
		} else {
			e.multiply(&e.product, nil, nil)
		}
		e.product = Args{}
		return
	}
	p.check(a, e.kernel(a.Precision, a.K))
	e.multiply(a, nil, p)
}

// check panics when p is not op(B) of a in the layout of kn.
func (p *Packed) check(a *Args, kn *kernel) {
	if p.k != a.K || p.n != a.N {
		panic(fmt.Sprintf("gemm: packed B is [%d, %d], the product needs [%d, %d]", p.k, p.n, a.K, a.N))
	}
	if p.kn != kn {
		panic(fmt.Sprintf("gemm: B was packed for another kernel or precision than %q", kn.name))
	}
}
