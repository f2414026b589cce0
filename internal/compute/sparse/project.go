package sparse

import (
	"math"

	"vsetrain/internal/compute/par"
)

// projectRows is the number of rows that one task projects.
const projectRows = 1024

// Project writes rows [lo, hi) of B = A V to dst [hi-lo, k]. dst is rounded from float64.
func (s *SVD) Project(pool *par.Pool, a *CSR, lo, hi int, dst []float32) {
	k := len(s.Sigma)
	s.project(pool, a, lo, hi, func(r, c int, values []float64) {
		to := dst[(r-lo)*k+c : (r-lo)*k+min(k, c+panelWidth)]
		for i := range to {
			to[i] = float32(values[i])
		}
	})
}

// project calls use for each row r and panel of B, c being the first column of the panel; calls for the rows of one
// task of the pool are made by one worker in order.
func (s *SVD) project(pool *par.Pool, a *CSR, lo, hi int, use func(r, c int, values []float64)) {
	scratch := make([][]float64, pool.Threads())
	pool.For((hi-lo+projectRows-1)/projectRows, par.Func(func(worker, task int) {
		if scratch[worker] == nil {
			scratch[worker] = make([]float64, projectRows*panelWidth)
		}
		y, from := scratch[worker], lo+task*projectRows
		to := min(hi, from+projectRows)
		for p := range s.v.panels {
			s.kernels.gather(a.RowPtr[from:to+1], a.Col, a.Val, s.v.panel(p), y, 1, 0, 0, true)
			for r := from; r < to; r++ {
				use(r, p*panelWidth, y[(r-from)*panelWidth:][:panelWidth])
			}
		}
	}))
}

// finish fixes the signs of the columns of V and sets Sigma to the norms of the columns of B, which are accurate
// relative to themselves even where sigma is as small as the rounding of sigma_1^2.
func (s *SVD) finish(pool *par.Pool, a *CSR) {
	cols := s.v.cols()
	tasks := (a.Rows + projectRows - 1) / projectRows
	extreme := make([]float64, tasks*cols) // the first largest entry of each column of B, by task
	squares := make([]float64, tasks*cols)
	s.project(pool, a, 0, a.Rows, func(r, c int, values []float64) {
		at := r/projectRows*cols + c
		best, sum := extreme[at:at+panelWidth], squares[at:at+panelWidth]
		for i, v := range values {
			sum[i] += v * v
			if math.Abs(v) > math.Abs(best[i]) {
				best[i] = v
			}
		}
	})
	for c := range cols {
		top, sum := 0.0, 0.0
		for t := range tasks {
			sum += squares[t*cols+c]
			if v := extreme[t*cols+c]; math.Abs(v) > math.Abs(top) {
				top = v
			}
		}
		if c < len(s.Sigma) {
			s.Sigma[c] = math.Sqrt(sum)
		}
		if top < 0 {
			panel := s.v.panel(c / panelWidth)
			s.v.setColumn(c, func(r int) float64 { return -panel[r*panelWidth+c%panelWidth] })
		}
	}
}
