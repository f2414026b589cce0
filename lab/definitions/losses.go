package definitions

import (
	"math"

	"vsetrain/internal/compute/device"
)

type losses struct{ *Device }

// square is one direction of a loss over scores [N, N]: anchors are rows.
type square struct {
	n        int
	scores   device.View // [N, N]
	positive device.View // [N]: the diagonal
	others   device.View // [N, N]: 1 off the diagonal, 0 on it
	grad     device.View // [N, N] without the diagonal
	slope    device.View // [N]: its part of the gradient of the diagonal
	part     device.View // [N]: the losses of the anchors
	hard     device.View // int32 [N]
	cost     device.View // [N]
}

// sides returns the two directions; the second sees the scores transposed, and its grad belongs to them.
func (k losses) sides(n int, scores device.View, out *device.LossOut) (rows, columns square) {
	s := square{n: n, scores: scores.Slice(0, n*n), positive: k.Floats(n), others: k.Filled(n*n, 1)}
	k.gather(s.positive, s.scores, 1, k.onDiagonal(n))
	k.diagonal(s.others, k.Filled(n, 1), n, -1)
	side := func(scores, hard, cost device.View) square {
		t := s
		t.scores, t.grad, t.slope, t.part, t.hard, t.cost = scores, k.Floats(n*n), k.Floats(n), k.Floats(n), hard, cost
		if !hard.Present() {
			t.hard = k.Numbers(n).View
		}
		if !cost.Present() {
			t.cost = k.Floats(n)
		}
		t.hard, t.cost = t.hard.Slice(0, n), t.cost.Slice(0, n)
		return t
	}
	transposed := k.Floats(n * n)
	device.Do(k, device.SwapAxes{Dst: transposed, X: s.scores, A: n, B: n, Inner: 1})
	return side(s.scores, out.HardCaption, out.CostCaption), side(transposed, out.HardImage, out.CostImage)
}

// diagonal adds factor·values to the diagonal of x [N, N].
func (k losses) diagonal(x, values device.View, n int, factor float64) {
	defer k.Give(k.Use())
	all := k.Floats(n * n)
	k.scatter(all, values, 1, k.onDiagonal(n))
	k.combine(x, x, all, 1, factor)
}

// onDiagonal returns the indices of the diagonal of a matrix [N, N].
func (k losses) onDiagonal(n int) device.Ints {
	at := k.Numbers(n)
	for i := range at.Host {
		at.Host[i] = int32(i * (n + 1))
	}
	return k.Send(at)
}

// finish adds the two directions.
func (k losses) finish(rows, columns *square, out *device.LossOut, scale float64) {
	defer k.Give(k.Use())
	n, grad, loss := rows.n, out.Grad, out.Loss
	device.Do(k, device.SwapAxes{Dst: grad, X: columns.grad, A: n, B: n, Inner: 1})
	k.combine(grad, grad, rows.grad, scale, scale)
	k.diagonal(grad, rows.slope, n, scale)
	k.diagonal(grad, columns.slope, n, scale)
	k.sumRows(loss.Slice(1, 2), rows.part, 1, n)
	k.sumRows(loss.Slice(2, 3), columns.part, 1, n)
	k.times(loss.Slice(1, 3), loss.Slice(1, 3), scale)
	k.combine(loss.Slice(0, 1), loss.Slice(1, 2), loss.Slice(2, 3), 1, 1)
}

func (k losses) Hinge(a device.Hinge) {
	defer k.Give(k.Use())
	n := a.N
	rows, columns := k.sides(n, a.Scores, &a.LossOut)
	margins := k.Filled(n*n, a.Margin)
	if a.Margins.Present() {
		margins = a.Margins
	}
	k.hinge(&rows, margins, a.Max)
	if a.Margins.Present() {
		turned := k.Floats(n * n)
		device.Do(k, device.SwapAxes{Dst: turned, X: margins, A: n, B: n, Inner: 1})
		margins = turned
	}
	k.hinge(&columns, margins, a.Max)
	k.finish(&rows, &columns, &a.LossOut, 1)
}

// hinge computes cost_ij = [M_ij + S_ij - S_ii]+ of one direction; its gradient at 0 is 1.
func (k losses) hinge(s *square, margins device.View, hardest bool) {
	defer k.Give(k.Use())
	n := s.n
	cost, open := k.Floats(n*n), k.Floats(n*n)
	k.spreadRows(cost, s.positive, n, n)
	k.combine(cost, s.scores, cost, 1, -1)
	k.combine(cost, cost, margins, 1, 1)
	k.notNegative(open, cost)
	device.Do(k, device.Multiply{Dst: open, A: open, B: s.others})
	device.Do(k, device.Multiply{Dst: cost, A: cost, B: open})
	best := device.Reduce{Max: true, N: n, D: n, X: cost, Y: s.cost, Index: s.hard}
	device.Do(k, best)
	if !hardest {
		k.sumRows(s.part, cost, n, n)
		device.Do(k, device.Copy{Dst: s.grad, Src: open})
	} else {
		device.Do(k, device.Copy{Dst: s.part, Src: s.cost})
		best.X, best.Y = s.grad, k.Filled(n, 1)
		device.DoGrad(k, best)
		device.Do(k, device.Multiply{Dst: s.grad, A: s.grad, B: open})
	}
	k.sumRows(s.slope, s.grad, n, n)
	k.times(s.slope, s.slope, -1)
}

// SemanticMargins compares the identities of images on the host.
func (k losses) SemanticMargins(a device.SemanticMargins) {
	defer k.Give(k.Use())
	n := a.N
	gram, m := a.Gram, a.Margins
	each := k.Floats(n)
	if a.Cosine {
		k.cosines(m, gram, n)
	} else {
		device.Do(k, device.Reduce{Max: true, N: n, D: n, X: gram, Y: each, Index: k.Numbers(n).View})
		zero := k.Floats(n) // 1 where the largest is 0
		device.Do(k, device.Multiply{Dst: zero, A: each, B: each})
		k.positive(zero, zero)
		k.times(zero, zero, -1)
		k.plus(zero, zero, 1)
		k.combine(each, each, zero, 1, 1)
		k.apply(device.Reciprocal, 0, each, each)
		k.timesRows(m, gram, each, n, n)
	}
	k.times(m, m, a.Lambda)
	k.plus(m, m, a.Alpha)
	device.Do(k, device.Multiply{Dst: m, A: m, B: k.others(&a)})
}

// cosines computes Gram_ij / √(Gram_ii Gram_jj), 0 for a zero vector.
func (k losses) cosines(c, gram device.View, n int) {
	defer k.Give(k.Use())
	norm, each, all := k.Floats(n), k.Floats(n), k.Floats(n*n)
	k.gather(norm, gram, 1, k.onDiagonal(n))
	k.apply(device.Sqrt, 0, norm, norm)
	k.apply(device.Inverse, nothing, each, norm)
	device.Do(k, device.Multiply{Dst: norm, A: norm, B: each}) // 1, and 0 for a zero vector
	device.Do(k, device.Multiply{Dst: each, A: each, B: norm})
	k.timesRows(c, gram, each, n, n)
	k.repeat(all, each, n, n)
	device.Do(k, device.Multiply{Dst: c, A: c, B: all})
}

// others is 0 for pairs without a margin, on the diagonal and of the same image, and 1 elsewhere.
func (k losses) others(a *device.SemanticMargins) device.View {
	n := a.N
	images, captions, h := k.Numbers(n), k.Numbers(n), k.Host(n*n)
	if a.ZeroSameImage {
		k.DownloadInts(images.Host, a.Images)
		k.DownloadInts(captions.Host, a.Captions)
	}
	for i := range h {
		if h[i] = 1; i/n == i%n || a.ZeroSameImage && images.Host[i/n] == captions.Host[i%n] {
			h[i] = 0
		}
	}
	return k.Upload(h)
}

func (k losses) UniversalWeighting(a device.UniversalWeighting) {
	defer k.Give(k.Use())
	rows, columns := k.sides(a.N, a.Scores, &a.LossOut)
	for _, s := range [...]*square{&rows, &columns} {
		k.universal(s, &a)
	}
	k.finish(&rows, &columns, &a.LossOut, 1/float64(a.N))
}

// universal is one direction. It skips anchors without another caption, with a good positive or with an easy negative.
func (k losses) universal(s *square, a *device.UniversalWeighting) {
	defer k.Give(k.Use())
	n := s.n
	x, v, active, y, slope := k.Floats(n*n), k.Floats(n), k.Floats(n), k.Floats(n), k.Floats(n)
	if n == 1 {
		for _, r := range [...]device.View{s.grad, s.slope, s.part, s.cost} {
			device.Do(k, device.Fill{Dst: r})
		}
		k.UploadInts(s.hard, k.Each(1, 0).Host)
		return
	}
	device.Do(k, device.Copy{Dst: x, Src: s.scores})
	k.diagonal(x, k.Filled(n, unattended), n, 1)
	best := device.Reduce{Max: true, N: n, D: n, X: x, Y: v, Index: s.hard}
	device.Do(k, best)
	k.times(active, s.positive, -1)
	k.plus(active, active, 1-1e-5)
	k.positive(active, active)
	k.combine(y, v, s.positive, 1, -1)
	k.plus(y, y, a.Margin)
	k.positive(y, y)
	device.Do(k, device.Multiply{Dst: active, A: active, B: y})

	k.quadratic(s.part, s.slope, s.positive, active, a.Positive)
	k.quadratic(s.cost, slope, v, active, a.Negative)
	k.combine(s.part, s.part, s.cost, 1, 1)
	best.X, best.Y = s.grad, slope
	device.DoGrad(k, best)
	best.X, best.Y = x, active // the index of the passed over becomes 0
	device.DoGrad(k, best)
	device.Do(k, device.Reduce{Max: true, N: n, D: n, X: x, Y: y, Index: s.hard})
}

// quadratic computes [c0 + c1·x + c2·x²]+ and its derivative for what is active.
func (k losses) quadratic(y, slope, x, active device.View, c [3]float64) {
	defer k.Give(k.Use())
	open := k.Floats(x.N)
	k.times(y, x, c[2])
	k.plus(y, y, c[1])
	device.Do(k, device.Multiply{Dst: y, A: y, B: x})
	k.plus(y, y, c[0])
	k.notNegative(open, y)
	device.Do(k, device.Multiply{Dst: open, A: open, B: active})
	device.Do(k, device.Multiply{Dst: y, A: y, B: open})
	k.times(slope, x, 2*c[2])
	k.plus(slope, slope, c[1])
	device.Do(k, device.Multiply{Dst: slope, A: slope, B: open})
}

// Guard checks the numbers on the host.
func (k losses) Guard(a device.Guard) {
	defer k.Give(k.Use())
	ok := k.finite(a.Coefficient) && k.finite(a.Norm)
	for _, v := range a.Losses {
		ok = ok && k.finite(v)
	}
	if !ok {
		device.Do(k, device.Fill{Dst: a.Coefficient, Value: math.NaN()})
	}
}

// finite reports whether a number on the device is finite or absent.
func (k losses) finite(v device.View) bool {
	x := k.Host(1)
	if x[0] = 0; v.Present() {
		k.DownloadDoubles(x, v.Slice(0, 1))
	}
	return !math.IsNaN(x[0]) && !math.IsInf(x[0], 0)
}
