package cpu

import (
	"math"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// wordGraphLoop is softmax_l λ w_j·w_l over the neighbours of each word of a caption.
type wordGraphLoop[T vec.Float] struct {
	ops                     *vec.Ops[T]
	a                       device.WordGraph
	first, at               []int // of each caption its first word and weight, and their number
	words, weights, dw, out []T
	logits                  [][]T // of each worker
}

func (d *dev[T]) WordGraphGrad(a device.WordGraph) { d.WordGraph(a) }

func (d *dev[T]) WordGraph(a device.WordGraph) {
	l := &d.wordGraph
	l.ops, l.a, l.first = d.ops, a, starts(l.first, a.Lengths.Host, same)
	l.at = starts(l.at, a.Lengths.Host, func(n int) int { return n * n })
	for len(l.logits) < d.pool.Threads() {
		l.logits = append(l.logits, nil)
	}
	longest := int(slices.Max(a.Lengths.Host))
	for w := range l.logits {
		l.logits[w] = scratch(&l.logits[w], longest*longest)
	}
	l.words, l.weights = d.values(a.Words), d.values(a.Weights)
	l.dw, l.out = d.values(a.DWeights), d.values(a.DWords)
	d.pool.For(len(a.Lengths.Host), l)
}

func (l *wordGraphLoop[T]) Do(worker, c int) {
	lo, n, e := l.first[c], l.first[c+1]-l.first[c], l.a.E
	w := l.weights[l.at[c]:l.at[c+1]]
	row := func(x []T, j int) []T { return x[(lo+j)*e:][:e] }
	if !l.a.Grad {
		for j := range n {
			for m := range j + 1 {
				s := T(l.a.Lambda * l.ops.Dot(row(l.words, j), row(l.words, m)))
				w[j*n+m], w[m*n+j] = s, s
			}
		}
		l.restrict(l.logits[worker][:n*n], c, n)
		for j := range n {
			softmax(w[j*n:(j+1)*n], l.logits[worker][j*n:(j+1)*n])
		}
		return
	}
	ds := l.logits[worker][:n*n]
	for j := range n {
		mean := l.ops.Dot(w[j*n:(j+1)*n], l.dw[l.at[c]+j*n:][:n])
		for m := range n {
			ds[j*n+m] = T(l.a.Lambda * float64(w[j*n+m]) * (float64(l.dw[l.at[c]+j*n+m]) - mean))
		}
	}
	for j := range n {
		l.ops.Fill(row(l.out, j), 0)
		for m := range n {
			l.ops.Axpy(row(l.out, j), row(l.words, m), ds[j*n+m]+ds[m*n+j])
		}
	}
}

// restrict marks the neighbours of each word of a caption by 1, others by 0.
func (l *wordGraphLoop[T]) restrict(near []T, c, n int) {
	if !l.a.Sparse {
		l.ops.Fill(near, 1)
		return
	}
	l.ops.Fill(near, 0)
	for j := range n {
		near[j*n+j] = 1
	}
	for e := l.a.EdgeStart.Host[c]; e < l.a.EdgeStart.Host[c+1]; e++ {
		i, j := int(l.a.Edges.Host[2*e]), int(l.a.Edges.Host[2*e+1])
		near[i*n+j], near[j*n+i] = 1, 1
	}
}

// softmax turns logits into weights, 0 where near is 0.
func softmax[T vec.Float](x, near []T) {
	top := math.Inf(-1)
	for j, v := range x {
		if near[j] != 0 {
			top = max(top, float64(v))
		}
	}
	var sum float64
	for j, v := range x {
		p := 0.0
		if near[j] != 0 {
			p = math.Exp(float64(v) - top)
		}
		x[j] = T(p)
		sum += p
	}
	for j := range x {
		x[j] = T(float64(x[j]) / sum)
	}
}
