package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Layer normalisation of rows (device.LayerNorm; Ba, Kiros, Hinton: "Layer Normalization", 2016), with x̂ = (s -
// μ)/√(σ² + ε):
//
//	y = w∘x̂ + b    ds = (g - mean(g) - x̂·mean(g∘x̂))/√(σ² + ε), g = w∘dy    dw = Σ dy∘x̂    db = Σ dy
//
// A piece is a block of rows that depends on the sizes alone; the sums over rows are made in each block, then over the
// blocks in order.
type layerNormLoop[T vec.Float] struct {
	ops               *vec.Ops[T]
	a                 device.LayerNorm
	drop              drops[T]
	per               int
	x, branch, sum, y []T
	mean, inv         []T
	weight, bias      []T
	dy, dx, dBranch   []T
	dWeight, dBias    []T
	partial, sums     []T      // [blocks, 2, D], [workers, apart]
	words             []uint32 // [workers, D]
}

const (
	normBlocks = 32 // of a gradient
	apart      = 16 // elements between the counters of two workers, which write them often
)

func (d *dev[T]) layerNorms(a device.LayerNorm) *layerNormLoop[T] {
	l := &d.layerNorm
	*l = layerNormLoop[T]{ops: d.ops, a: a, drop: d.drops(a.Drop), partial: l.partial, sums: l.sums, words: l.words,
		x: d.values(a.X), branch: d.values(a.Branch), sum: d.values(a.Sum), y: d.values(a.Y), mean: d.values(a.Mean),
		inv: d.values(a.InvStd), weight: d.values(a.Weight), bias: d.values(a.Bias), dy: d.values(a.DY),
		dx: d.values(a.DX), dBranch: d.values(a.DBranch), dWeight: d.values(a.DWeight), dBias: d.values(a.DBias)}
	if l.drop.active() {
		reserve(&l.words, d.pool.Threads()*a.D)
	}
	return l
}

func (d *dev[T]) LayerNorm(a device.LayerNorm) {
	l := d.layerNorms(a)
	l.per = group(a.D)
	d.pool.For(pieces(a.N, l.per), l)
}

func (d *dev[T]) LayerNormGrad(a device.LayerNorm) {
	l := d.layerNorms(a)
	l.per = max(1, pieces(a.N, normBlocks))
	blocks := pieces(a.N, l.per)
	scratch(&l.partial, blocks*2*a.D)
	scratch(&l.sums, d.pool.Threads()*apart)
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
	if a.DBranchBias.Present() {
		d.ColumnSum(device.ColumnSum{Dst: a.DBranchBias, X: a.DBranch.Slice(0, a.N*a.D), Rows: a.N, Columns: a.D})
	}
}

func (l *layerNormLoop[T]) Do(worker, i int) {
	lo, hi := i*l.per, min(l.a.N, (i+1)*l.per)
	if l.a.Grad {
		l.backward(worker, i, lo, hi)
		return
	}
	n := l.a.D
	words := l.drawn(worker)
	for r := lo; r < hi; r++ {
		s, total := l.summed(r, words)
		mean := total / float64(n)
		inv := 1 / math.Sqrt(l.ops.Spread(s, T(mean))/float64(n)+l.a.Eps)
		l.mean[r], l.inv[r] = T(mean), T(inv)
		l.ops.Norm(l.y[r*n:(r+1)*n], s, l.weight, l.bias, T(inv), T(-mean*inv))
	}
}

// summed returns row r of s, with the branch, and its sum.
func (l *layerNormLoop[T]) summed(r int, words []uint32) (s []T, total float64) {
	n := l.a.D
	s = l.x[r*n : (r+1)*n]
	if l.branch == nil {
		return s, l.ops.Sum(s)
	}
	sum, branch := l.sum[r*n:(r+1)*n], l.branch[r*n:(r+1)*n]
	if !l.drop.active() {
		l.ops.Add(sum, branch, s)
		return sum, l.ops.Sum(sum)
	}
	l.drop.draw(words, r, 0)
	return sum, l.ops.SumDropped(sum, s, branch, words, l.drop.limit, l.drop.factor)
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
	words := l.drawn(worker)
	s := l.sum
	if s == nil {
		s = l.x
	}
	sums := l.sums[worker*apart:][:2] // of g and of g∘x̂
	for r := lo; r < hi; r++ {
		s, dy, dx := s[r*n:(r+1)*n], l.dy[r*n:(r+1)*n], l.dx[r*n:(r+1)*n]
		inv, shift := l.inv[r], -l.mean[r]*l.inv[r] // x̂ = inv·s + shift
		l.ops.NormSums(s, dy, l.weight, dw, db, inv, shift, sums)
		mean, along := sums[0]/T(n), sums[1]/T(n)
		l.ops.NormGrad(dx, s, dy, l.weight, inv, -inv*along*inv, -inv*(mean+along*shift))
		if l.dBranch == nil {
			continue
		}
		if !l.drop.active() {
			copy(l.dBranch[r*n:(r+1)*n], dx)
			continue
		}
		l.drop.draw(words, r, 0)
		l.drop.apply(l.ops, l.dBranch[r*n:(r+1)*n], dx, words)
	}
}
