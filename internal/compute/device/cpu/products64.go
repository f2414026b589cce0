package cpu

import "vsetrain/internal/compute/par"

// products64 computes products in float64 in plain Go, one row of C per loop index. It serves tests, as the definition
// that other products are measured against: every element is a sum over k in rising order, of operands as they lie.
type products64 struct {
	pool   *par.Pool
	p      product[float64]
	packed product[float64] // only b, ldb and transB
}

func (e *products64) external() bool { return false }

func (e *products64) on(pool *par.Pool) products[float64] { return &products64{pool: pool} }

func (e *products64) name() string { return "go" }

func (e *products64) gemm(p *product[float64], count, strideA, strideB, strideC int) {
	for i := range count {
		e.p = *p
		if p.k > 0 && i > 0 {
			e.p.a, e.p.b = p.a[i*strideA:], p.b[i*strideB:]
		}
		e.p.c = p.c[i*strideC:]
		e.pool.For(p.m, e)
	}
	e.p = product[float64]{}
}

func (e *products64) pack(transB bool, _, _ int, b []float64, ldb int, _ bool) {
	e.packed = product[float64]{transB: transB, b: b, ldb: ldb}
}

func (e *products64) forget() {}

func (e *products64) gemmPacked(p *product[float64]) {
	p.transB, p.b, p.ldb = e.packed.transB, e.packed.b, e.packed.ldb
	e.gemm(p, 1, 0, 0, 0)
}

// Do computes row i of C.
func (e *products64) Do(_, i int) {
	p := &e.p
	c := p.c[i*p.ldc:][:p.n]
	for j := range c {
		switch {
		case p.beta == 0:
			c[j] = 0
		default:
			c[j] *= p.beta
		}
		if p.bias != nil {
			c[j] += p.bias[j]
		}
	}
	stepA, a := 1, p.a
	if p.transA {
		stepA, a = p.lda, a[min(i, len(a)):]
	} else {
		a = a[min(i*p.lda, len(a)):]
	}
	if !p.transB {
		for k := range p.k {
			x := p.alpha * a[k*stepA]
			for j, b := range p.b[k*p.ldb:][:p.n] {
				c[j] += x * b
			}
		}
		return
	}
	for j := range c {
		var s float64
		for k, b := range p.b[min(j*p.ldb, len(p.b)):][:p.k] {
			s += a[k*stepA] * b
		}
		c[j] += p.alpha * s
	}
}
