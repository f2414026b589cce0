package cpu

import (
	"math"

	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// Layer normalisation of rows (device.LayerNormArgs; Ba, Kiros, Hinton: "Layer Normalization", 2016), with x̂ = (s - μ)/√(σ² + ε):
//
//	y = w∘x̂ + b    ds = (g - mean(g) - x̂·mean(g∘x̂))/√(σ² + ε), g = w∘dy    dw = Σ dy∘x̂    db = Σ dy
//
// A piece is a block of rows that depends on the sizes alone; the sums over rows are made in each block, then over the blocks
// in order.
type layerNormLoop[T vec.Float] struct {
	ops                  *vec.Ops[T]
	a                    device.LayerNormArgs
	drop                 drops[T]
	back                 bool
	per                  int
	x, branch, sum, y    []T
	mean, inv            []T
	weight, bias         []T
	dy, dx, dBranch      []T
	dWeight, dBias       []T
	ones, partial, local []T      // [D], [blocks, 2, D], [workers, D]
	words                []uint32 // [workers, D]
}

const normBlocks = 32 // of a gradient

func (d *dev[T]) layerNorms(what string, a device.LayerNormArgs) *layerNormLoop[T] {
	positive(what, a.D)
	n, l := a.N*a.D, &d.layerNorm
	ones := scratch(&l.ones, a.D)
	d.ops.Fill(ones, 1)
	*l = layerNormLoop[T]{ops: d.ops, a: a, drop: d.drops(what, a.Drop), ones: ones, partial: l.partial, local: l.local, words: l.words,
		sum: d.optional("LayerNorm Sum", a.Sum, n), mean: d.floats("LayerNorm Mean", a.Mean, a.N), inv: d.floats("LayerNorm InvStd", a.InvStd, a.N),
		weight: d.floats("LayerNorm Weight", a.Weight, a.D)}
	if l.sum == nil {
		l.x = d.floats("LayerNorm X", a.X, n)
	}
	if l.drop.active() {
		wordScratch(&l.words, d.pool.Threads()*a.D)
	}
	return l
}

// LayerNorm implements device.Transformer.
func (d *dev[T]) LayerNorm(a device.LayerNormArgs) {
	l, n := d.layerNorms("LayerNorm", a), a.N*a.D
	l.x, l.y, l.bias = d.floats("LayerNorm X", a.X, n), d.floats("LayerNorm Y", a.Y, n), d.floats("LayerNorm Bias", a.Bias, a.D)
	if l.branch = d.optional("LayerNorm Branch", a.Branch, n); l.branch != nil && l.sum == nil {
		panic("cpu: LayerNorm: a branch needs a Sum to keep")
	}
	l.per = group(a.D)
	d.pool.For(pieces(a.N, l.per), l)
}

// LayerNormGrad implements device.Transformer.
func (d *dev[T]) LayerNormGrad(a device.LayerNormArgs) {
	l, n := d.layerNorms("LayerNormGrad", a), a.N*a.D
	l.back, l.dy = true, d.floats("LayerNormGrad DY", a.DY, n)
	l.dx, l.dBranch = d.floats("LayerNormGrad DX", a.DX, n), d.optional("LayerNormGrad DBranch", a.DBranch, n)
	l.dWeight, l.dBias = d.optional("LayerNormGrad DWeight", a.DWeight, a.D), d.optional("LayerNormGrad DBias", a.DBias, a.D)
	l.per = max(1, pieces(a.N, normBlocks))
	blocks := pieces(a.N, l.per)
	scratch(&l.partial, blocks*2*a.D)
	scratch(&l.local, d.pool.Threads()*2*a.D)
	d.pool.For(blocks, l)
	for k, sum := range [][]T{l.dWeight, l.dBias} {
		if sum == nil {
			continue
		}
		l.ops.Fill(sum, 0)
		for i := range blocks {
			l.ops.Add(sum, sum, l.partial[(2*i+k)*a.D:][:a.D])
		}
	}
}

func (l *layerNormLoop[T]) Do(worker, i int) {
	lo, hi := i*l.per, min(l.a.N, (i+1)*l.per)
	if l.back {
		l.backward(worker, i, lo, hi)
		return
	}
	n := l.a.D
	words := l.drawn(worker)
	for r := lo; r < hi; r++ {
		s, y := l.x[r*n:(r+1)*n], l.y[r*n:(r+1)*n]
		if l.branch != nil {
			sum := l.sum[r*n : (r+1)*n]
			if l.drop.active() {
				l.drop.draw(words, r*n)
				l.drop.apply(l.ops, sum, l.branch[r*n:(r+1)*n], words)
				l.ops.Add(sum, sum, s)
			} else {
				l.ops.Add(sum, l.branch[r*n:(r+1)*n], s)
			}
			s = sum
		}
		mean := l.ops.Dot(s, l.ones) / float64(n)
		l.ops.Sum2(y, s, l.ones, 1, T(-mean))
		inv := 1 / math.Sqrt(l.ops.Sumsq(y)/float64(n)+l.a.Eps)
		l.mean[r], l.inv[r] = T(mean), T(inv)
		l.ops.Scale(y, y, T(inv))
		l.ops.Mul(y, y, l.weight)
		l.ops.Add(y, y, l.bias)
	}
}

// drawn is the memory of a worker for the draws of a row.
func (l *layerNormLoop[T]) drawn(worker int) []uint32 {
	if !l.drop.active() {
		return nil
	}
	return l.words[worker*l.a.D:][:l.a.D]
}

func (l *layerNormLoop[T]) backward(worker, block, lo, hi int) {
	n := l.a.D
	dw, db := l.partial[2*block*n:][:n], l.partial[(2*block+1)*n:][:n]
	l.ops.Fill(dw, 0)
	l.ops.Fill(db, 0)
	hat, g := l.local[2*worker*n:][:n], l.local[(2*worker+1)*n:][:n]
	words := l.drawn(worker)
	s := l.sum
	if s == nil {
		s = l.x
	}
	for r := lo; r < hi; r++ {
		dy, dx, inv := l.dy[r*n:(r+1)*n], l.dx[r*n:(r+1)*n], l.inv[r]
		l.ops.Sum2(hat, s[r*n:(r+1)*n], l.ones, inv, -l.mean[r]*inv)
		l.ops.MAdd(dw, dy, hat)
		l.ops.Add(db, db, dy)
		l.ops.Mul(g, dy, l.weight)
		mean, along := l.ops.Dot(g, l.ones)/float64(n), l.ops.Dot(g, hat)/float64(n)
		l.ops.Sum2(dx, g, hat, inv, T(-along)*inv)
		l.ops.Axpy(dx, l.ones, T(-mean)*inv)
		if l.dBranch == nil {
			continue
		}
		if !l.drop.active() {
			copy(l.dBranch[r*n:(r+1)*n], dx)
			continue
		}
		l.drop.draw(words, r*n)
		l.drop.apply(l.ops, l.dBranch[r*n:(r+1)*n], dx, words)
	}
}
