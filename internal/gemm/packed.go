package gemm

import "fmt"

// Packed is op(B) in the layout of a kernel, for weights that meet many left-hand sides. Its memory is reused by
// the next PackB. With a library in place of our kernels it remembers B instead of packing it: B must then stay
// unchanged until the last GemmPacked.
type Packed struct {
	data []float32
	kn   *kernel // nil: lib
	k, n int
	lib  Args // B, LDB, TransB for a library
}

// PackB packs op(B) [K, N] into p. TransB: B is stored [N, K]. It panics when b is too short.
func (e *Engine) PackB(p *Packed, transB bool, k, n int, b []float32, ldb int, bf16 bool) {
	a := Args{TransB: transB, K: k, N: n, B: b, LDB: ldb}
	a.checkB()
	p.k, p.n, p.kn, p.lib = k, n, e.kernel(bf16, k), Args{}
	if e.lib != nil && !bf16 {
		p.kn, p.lib = nil, a
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

// ReserveB makes room in p for an operand [K, N], so that packing it does not allocate.
func (e *Engine) ReserveB(p *Packed, k, n int, bf16 bool) {
	if kn := e.kernel(bf16, k); k > 0 && (e.lib == nil || bf16) {
		blocks, size := kn.blocks(k)
		p.data = grow(p.data, roundUp(n, kn.nr)*blocks*kn.words(size))
	}
}

// Reserve makes room for the blocks of products with M and N up to 512, so that they do not allocate.
func (e *Engine) Reserve() {
	for i := range e.workers {
		w := &e.workers[i]
		for _, kn := range []*kernel{e.f32, e.split, e.bf16} {
			if kn == nil {
				continue
			}
			words := kn.words(kn.kc)
			w.a, w.b = grow(w.a, kn.paddedM(kn.rows)*words), grow(w.b, blockCols*words)
			e.shared = grow(e.shared, blockCols*words)
		}
	}
}

// GemmPacked computes the product a with op(B) from p; a.B, a.LDB, a.TransB are ignored. It panics when p holds
// another shape or precision.
func (e *Engine) GemmPacked(a *Args, p *Packed) {
	a.checkC()
	if a.scaleOnly() {
		return
	}
	a.checkA()
	if p.k != a.K || p.n != a.N {
		panic(fmt.Sprintf("gemm: packed B is [%d, %d], the product needs [%d, %d]", p.k, p.n, a.K, a.N))
	}
	if p.kn == nil && !a.BF16 && e.lib != nil {
		e.product = *a
		e.product.B, e.product.LDB, e.product.TransB = p.lib.B, p.lib.LDB, p.lib.TransB
		e.lib.gemm(e, &e.product)
		e.product = Args{}
		return
	}
	if p.kn != e.kernel(a.BF16, a.K) {
		panic(fmt.Sprintf("gemm: B was packed for another kernel or precision than %q", e.kernel(a.BF16, a.K).name))
	}
	e.multiply(a, p)
}
