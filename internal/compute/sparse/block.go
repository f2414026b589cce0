package sparse

import (
	"vsetrain/internal/compute/par"
)

// block is a dense matrix [rows, 16 panels] of column vectors, cut into panels of 16 columns. Element (r, c) is
// data[(c/16 rows + r) 16 + c%16].
type block struct {
	rows, panels int
	data         []float64
}

func newBlock(rows, panels int) *block {
	return &block{rows, panels, make([]float64, rows*panels*panelWidth)}
}

func (b *block) cols() int { return b.panels * panelWidth }

// panel returns panel p, [rows, 16].
func (b *block) panel(p int) []float64 {
	n := b.rows * panelWidth
	return b.data[p*n : (p+1)*n : (p+1)*n]
}

// algebra runs the dense products of blocks on a pool. Every element of a result is summed in one fixed order.
type algebra struct {
	pool    *par.Pool
	k       kernels
	scratch [][]float64 // per worker
}

func newAlgebra(pool *par.Pool, k kernels) *algebra {
	return &algebra{pool, k, make([][]float64, pool.Threads())}
}

// work returns n elements of scratch memory of a worker.
func (l *algebra) work(worker, n int) []float64 {
	if cap(l.scratch[worker]) < n {
		l.scratch[worker] = make([]float64, n)
	}
	return l.scratch[worker][:n]
}

// Panels of one task and rows of one step of inner: the operands of a step stay in the second-level cache.
const (
	innerGroup = 4
	innerRows  = 128
)

// inner writes X^T Y, known to be symmetric, to m [cols, cols]: the upper blocks are computed and mirrored.
func (l *algebra) inner(x, y *block, m []float64) {
	groups := (x.panels + innerGroup - 1) / innerGroup
	var pairs [][2]int
	for i := range groups {
		for j := i; j < groups; j++ {
			pairs = append(pairs, [2]int{i, j})
		}
	}
	p := x.cols()
	l.pool.For(len(pairs), par.Func(func(worker, task int) {
		pi, pj := pairs[task][0]*innerGroup, pairs[task][1]*innerGroup
		ni, nj := min(innerGroup, x.panels-pi), min(innerGroup, x.panels-pj)
		const square = panelWidth * panelWidth
		acc := l.work(worker, innerGroup*innerGroup*square)
		clear(acc)
		for lo := 0; lo < x.rows; lo += innerRows {
			n := min(innerRows, x.rows-lo)
			for i := range ni {
				a := x.panel(pi + i)[lo*panelWidth:]
				for j := range nj {
					b, c := y.panel(pj + j)[lo*panelWidth:], acc[(i*innerGroup+j)*square:]
					l.k.tile(n, a, panelWidth, b, c)
					l.k.tile(n, a[tileRows:], panelWidth, b, c[tileRows*panelWidth:])
				}
			}
		}
		for i := range ni * panelWidth {
			for j := range nj * panelWidth {
				v := acc[(i/panelWidth*innerGroup+j/panelWidth)*square+i%panelWidth*panelWidth+j%panelWidth]
				r, c := pi*panelWidth+i, pj*panelWidth+j
				if c >= r {
					m[r*p+c], m[c*p+r] = v, v
				}
			}
		}
	}))
}

// mulRows is the number of rows that one task of mul transforms.
const mulRows = 64

// mul replaces X by X C, C [cols, cols] row by row; where upper, C is zero below its diagonal.
func (l *algebra) mul(x *block, c []float64, upper bool) {
	p := x.cols()
	packed := make([]float64, len(c)) // panels of C
	for b := range x.panels {
		for t := range p {
			copy(packed[(b*p+t)*panelWidth:][:panelWidth], c[t*p+b*panelWidth:])
		}
	}
	l.pool.For((x.rows+mulRows-1)/mulRows, par.Func(func(worker, task int) {
		rows := l.work(worker, (p+panelWidth)*tileRows)
		tile := rows[p*tileRows:]
		for lo := task * mulRows; lo < min(x.rows, (task+1)*mulRows); lo += tileRows {
			n := min(tileRows, x.rows-lo)
			for a := range x.panels { // 8 rows of X, transposed
				from := x.panel(a)[lo*panelWidth:]
				for j := range panelWidth {
					to := rows[(a*panelWidth+j)*tileRows:][:tileRows]
					for i := range n {
						to[i] = from[i*panelWidth+j]
					}
				}
			}
			for b := range x.panels {
				depth := p
				if upper {
					depth = (b + 1) * panelWidth
				}
				clear(tile)
				l.k.tile(depth, rows, tileRows, packed[b*p*panelWidth:], tile)
				copy(x.panel(b)[lo*panelWidth:], tile[:n*panelWidth])
			}
		}
	}))
}
