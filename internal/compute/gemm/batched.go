package gemm

import "fmt"

// Batched computes count products of the shape of a; product i uses A[i*strideA:], B[i*strideB:], C[i*strideC:]
// (strides in elements; 0 shares an operand) and the same bias. It is for many small products: each runs on one thread.
// It panics if a slice is too short for the last product.
func (e *Engine) Batched(a *Args, count, strideA, strideB, strideC int) {
	if count <= 0 {
		return
	}
	if strideA < 0 || strideB < 0 || strideC < 0 {
		panic(fmt.Sprintf("gemm: negative batch stride: A %d, B %d, C %d", strideA, strideB, strideC))
	}
	e.product = *a
	last := &e.product
	last.advance(count-1, strideA, strideB, strideC)
	last.checkC()
	terms := a.M > 0 && a.N > 0 && a.K > 0 && a.Alpha != 0
	if terms {
		last.checkA()
		last.checkB()
	}
	if !terms || e.external(a.Precision) {
		for i := range count {
			e.product = *a
			e.product.advance(i, strideA, strideB, strideC)
			e.Gemm(&e.product)
		}
		e.product = Args{}
		return
	}
	j := &e.job
	*j = job{a: *a, kn: e.kernel(a.Precision, a.K), m1: a.M, n1: a.N}
	j.nkb, j.kSize = j.kn.blocks(a.K)
	e.batch.strideA, e.batch.strideB, e.batch.strideC = strideA, strideB, strideC
	e.pool.For(count, &e.batch)
	j.a, e.product = Args{}, Args{}
}

// advance moves the slices to product i of a batch.
func (a *Args) advance(i, strideA, strideB, strideC int) {
	if len(a.A) < i*strideA || len(a.B) < i*strideB || len(a.C) < i*strideC {
		panic(fmt.Sprintf("gemm: product %d of a batch starts beyond its operands: A %d of %d, B %d of %d, C %d of "+
			"%d elements",
			i, i*strideA, len(a.A), i*strideB, len(a.B), i*strideC, len(a.C)))
	}
	a.A, a.B, a.C = a.A[i*strideA:], a.B[i*strideB:], a.C[i*strideC:]
}

// batchPhase computes whole products, one per index.
type batchPhase struct {
	e                         *Engine
	strideA, strideB, strideC int
}

func (p *batchPhase) Do(worker, i int) {
	e := p.e
	j, w := &e.job, &e.workers[worker]
	kn, a := j.kn, &j.a
	w.c = a.C[i*p.strideC:]
	w.opA = operand{a.A[i*p.strideA:], a.LDA, a.TransA}
	w.opB = operand{a.B[i*p.strideB:], a.LDB, !a.TransB}
	w.a = grow(w.a, kn.paddedM(min(a.M, kn.rows))*kn.wordsA(j.kSize))
	w.b = grow(w.b, roundUp(min(a.N, blockCols), kn.nr)*kn.words(j.kSize))
	for kb := range j.nkb {
		k0, k := j.kRange(kb)
		for n := 0; n < a.N; n += blockCols {
			cols := min(blockCols, a.N-n)
			kn.packB(w, w.b, &w.opB, span{n, cols, k0, k})
			for m := 0; m < a.M; m += kn.rows {
				rows := min(kn.rows, a.M-m)
				_, h := kn.panels(rows)
				kn.packA(w, w.a, &w.opA, span{m, rows, k0, k}, h)
				e.block(w, w.a, w.b, m, rows, h, n, cols, kb, false)
			}
		}
	}
	w.c, w.opA, w.opB = nil, operand{}, operand{}
}
