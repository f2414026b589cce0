package sparse

import "vsetrain/internal/compute/par"

// operator is the matrix G = A^T A [w, w] whose eigenvectors are the right singular vectors of A.
type operator struct {
	gram  *CSR // G itself, or nil:
	a, at *CSR // A and its transpose, applied one after the other
	k     kernels
	tmp   [][]float64 // per worker: A x and A^T A x for one panel
}

// maxGramWork bounds the multiplications spent on forming G, and with them its size (16 bytes for each entry).
const maxGramWork = 64 << 20

// newOperator forms G where that is cheap: documents of n terms cost n^2 multiplications, and G, which has many fewer
// entries than that when documents share terms, makes a product cheaper than two passes over A.
func newOperator(pool *par.Pool, a *CSR, k kernels, limit int) *operator {
	o := &operator{a: a, at: a.Transpose(), k: k}
	work := 0
	for r := range a.Rows {
		n := a.RowPtr[r+1] - a.RowPtr[r]
		work += n * n
	}
	if work <= limit {
		o.gram = gramOf(pool, a, o.at)
		o.a, o.at = nil, nil
		return o
	}
	o.tmp = make([][]float64, pool.Threads())
	return o
}

// apply computes y = alpha G x + beta x + gamma y for one panel; where plain, y = alpha G x.
func (o *operator) apply(worker int, x, y []float64, alpha, beta, gamma float64, plain bool) {
	if g := o.gram; g != nil {
		o.k.gather(g.RowPtr, g.Col, g.Val, x, y, alpha, beta, gamma, plain)
		return
	}
	n := o.a.Rows * panelWidth
	if o.tmp[worker] == nil {
		o.tmp[worker] = make([]float64, n+o.a.Cols*panelWidth)
	}
	z, sum := o.tmp[worker][:n], o.tmp[worker][n:]
	o.k.gather(o.a.RowPtr, o.a.Col, o.a.Val, x, z, 1, 0, 0, true)
	o.k.gather(o.at.RowPtr, o.at.Col, o.at.Val, z, sum, 1, 0, 0, true)
	for i, g := range sum {
		if plain {
			y[i] = alpha * g
		} else {
			y[i] = alpha*g + beta*x[i] + gamma*y[i]
		}
	}
}

// applyAll computes Y = G X.
func (o *operator) applyAll(pool *par.Pool, x, y *block) {
	pool.For(x.panels, par.Func(func(worker, p int) { o.apply(worker, x.panel(p), y.panel(p), 1, 0, 0, true) }))
}
