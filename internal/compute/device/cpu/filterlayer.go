package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// filterLayer is the layer of a filtration on similarity vectors s (device.Filter). It works on a vector while that is
// in the cache:
//
//	z = w·s + b    ds = a dr + dz w    dw = Σ dz s
//
// Where a pair has no dr, as most, ds is a multiple of w and s·ds = dz (z - b).
type filterLayer[T vec.Float] struct {
	w, dw          []T // [S]; w is nil without a layer
	bias           T
	logits         []T // [B·P]
	alpha, dLogits []T // [B·P]
	dSums          []T // [B·C, S]
	lanes          []T // [lanes, S]: sums for dw
}

func (l *filterLayer[T]) set(d *dev[T], a *device.Filter) {
	l.w, l.bias = d.values(a.W), d.values(a.Bias)[0]
	l.logits = d.values(a.Logits)
}

func (l *filterLayer[T]) setGrad(d *dev[T], a *device.Filter, lanes int) {
	l.alpha, l.dLogits = d.values(a.Weights), d.values(a.DLogits)
	l.dSums, l.dw = d.values(a.DSums), d.values(a.DW)
	d.ops.Fill(scratch(&l.lanes, lanes*len(l.w)), 0)
}

// sum is dr of a pair, nil if it is 0.
func (l *filterLayer[T]) sum(ops *vec.Ops[T], pair int) []T {
	if dr := l.dSums[pair*len(l.w):][:len(l.w)]; !ops.Zero(dr) {
		return dr
	}
	return nil
}

// gradient makes dx of a node with the vector y = x/(norm + ε), and adds the node's part of dw to the sum of a lane.
func (l *filterLayer[T]) gradient(ops *vec.Ops[T], dx, y, dr []T, lane, node int, norm float64) {
	dz := l.dLogits[node]
	ops.Axpy(l.lanes[lane*len(l.w):][:len(l.w)], y, dz)
	if dr == nil {
		f, g := unit(norm, float64(dz)*(float64(l.logits[node])-float64(l.bias)))
		ops.Sum2(dx, l.w, y, T(f*float64(dz)), T(g))
		return
	}
	ops.Sum2(dx, dr, l.w, l.alpha[node], dz)
	f, g := unit(norm, ops.Dot(y, dx))
	ops.Sum2(dx, dx, y, T(f), T(g))
}
