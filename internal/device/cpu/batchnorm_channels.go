package cpu

import "vsetrain/internal/vec"

// normChannels is batch normalisation over channels of several values in a row: x [Outer, C, Inner], one channel per index.
type normChannels[T vec.Float] struct{ *batchNorm[T] }

func (l *normChannels[T]) Do(worker, c int) {
	n, ops, ones := l.a.Inner, l.ops, l.ones[:l.a.Inner]
	free, share := l.scratch[worker*2*n:][:n], l.scratch[(worker*2+1)*n:][:n]
	var first, second float64
	mean, s := l.mean[c], l.invStd[c]
	for o := range l.a.Outer {
		at := (o*l.a.C + c) * n
		x := l.x[at : at+n]
		switch l.phase {
		case normMean:
			first += ops.Dot(x, ones)
		case normVariance:
			ops.Sum2(free, x, ones, 1, -mean)
			first += ops.Sumsq(free)
		case normApply:
			y := l.y[at : at+n]
			ops.Sum2(y, x, ones, 1, -mean)
			ops.Sum2(y, y, ones, l.gain[c], l.bias[c])
		case normGrads:
			dy := l.dy[at : at+n]
			ops.Sum2(free, x, ones, 1, -mean)
			first += ops.Dot(dy, ones)
			second += ops.Dot(dy, free) * float64(s)
		case normInput:
			dx := l.dx[at : at+n]
			ops.Sum2(free, x, ones, 1, -mean)
			ops.Sum2(share, free, ones, s*l.meanDW[c], l.meanDB[c])
			ops.Sum2(dx, l.dy[at:at+n], share, l.gain[c], -l.gain[c])
		}
	}
	switch l.phase {
	case normMean, normVariance:
		l.sums[c] = first
	case normGrads:
		l.sums[c], l.sums[l.a.C+c] = first, second
	}
}
