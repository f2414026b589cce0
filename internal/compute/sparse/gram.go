package sparse

import (
	"slices"

	"vsetrain/internal/compute/par"
)

// gramOf returns A^T A [Cols, Cols] of a, whose transpose the caller has at hand. Each entry is summed in the order of
// the rows of a.
func gramOf(pool *par.Pool, a, transposed *CSR) *CSR {
	n := a.Cols
	g := &gramBody{a: a, t: transposed, rows: make([]gramRow, n), scratch: make([]gramScratch, pool.Threads())}
	pool.For(n, g)
	out := &CSR{Rows: n, Cols: n, RowPtr: make([]int, n+1)}
	for i := range g.rows {
		out.RowPtr[i+1] = out.RowPtr[i] + len(g.rows[i].col)
	}
	out.Col, out.Val = make([]int32, out.RowPtr[n]), make([]float64, out.RowPtr[n])
	for i, r := range g.rows {
		copy(out.Col[out.RowPtr[i]:], r.col)
		copy(out.Val[out.RowPtr[i]:], r.val)
		g.rows[i] = gramRow{}
	}
	return out
}

type gramRow struct {
	col []int32
	val []float64
}

type gramScratch struct {
	sum  []float64
	seen []bool
	col  []int32
}

type gramBody struct {
	a, t    *CSR
	rows    []gramRow
	scratch []gramScratch
}

// Do computes row i of the product.
func (g *gramBody) Do(worker, i int) {
	s := &g.scratch[worker]
	if s.sum == nil {
		s.sum, s.seen = make([]float64, g.a.Cols), make([]bool, g.a.Cols)
	}
	s.col = s.col[:0]
	docs, weights := g.t.Row(i)
	for d, r := range docs {
		cols, vals := g.a.Row(int(r))
		for j, c := range cols {
			if !s.seen[c] {
				s.seen[c] = true
				s.col = append(s.col, c)
			}
			s.sum[c] += weights[d] * vals[j]
		}
	}
	slices.Sort(s.col)
	row := gramRow{col: slices.Clone(s.col), val: make([]float64, len(s.col))}
	for j, c := range s.col {
		row.val[j] = s.sum[c]
		s.sum[c], s.seen[c] = 0, false
	}
	g.rows[i] = row
}
