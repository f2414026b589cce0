package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Batch normalisation (Ioffe, Szegedy 2015; torch.nn.BatchNorm1d) over x [Outer, C, Inner] and its gradient. With n
// values a channel, x' = x - μ, x̂ = x'/√(σ² + ε) and k = w/√(σ² + ε):
//
//	dw = Σ dy·x̂    db = Σ dy    dx = k·(dy - db/n - x̂·dw/n)    evaluation: dx = k·dy
//
// Rows (Inner = 1) are worked on in strips of channels, otherwise channel by channel. Sums are float64: of blocks of
// rows, each in the device's type, or of whole segments.

const (
	normStrip = 512 // most channels of one piece
	leastNorm = 128 // and fewest: each is one call of a vector kernel, so few are slow
	normSplit = 8   // pieces between the two
	normBlock = 32  // rows whose sum is kept in the device's type
	normParts = 7   // rows of scratch a worker needs
)

type batchNormLoop[T vec.Float] struct {
	ops              *vec.Ops[T]
	a                device.BatchNorm
	n                float64 // values in the statistics of a channel
	per              int     // channels of one piece
	x, y, w, b, plus []T
	rmean, rvar      []T
	mean, inv        []T
	pad, dpad        []T
	dy, dx, dw, db   []T
	scratch          []T       // [workers, normParts, width]
	sums             []float64 // [workers, 2, normStrip]
	width, perWorker int
}

func (d *dev[T]) BatchNormGrad(a device.BatchNorm) { d.BatchNorm(a) }

func (d *dev[T]) BatchNorm(a device.BatchNorm) {
	l, strip := &d.batchNorms, min(normStrip, max(leastNorm, pieces(a.C, normSplit)))
	*l = batchNormLoop[T]{ops: d.ops, a: a, n: float64(a.Outer*a.Inner + a.Pads), per: strip, width: strip,
		scratch: l.scratch, sums: l.sums, x: d.values(a.X), y: d.values(a.Y), w: d.values(a.Weight),
		b: d.values(a.Bias), plus: d.values(a.Plus), rmean: d.values(a.RunningMean), rvar: d.values(a.RunningVar),
		mean: d.values(a.Mean), inv: d.values(a.InvStd), dpad: d.values(a.DPad), dy: d.values(a.DY), dx: d.values(a.DX),
		dw: d.values(a.DWeight), db: d.values(a.DBias)}
	if a.Inner > 1 {
		l.per, l.width = group(a.Outer*a.Inner), a.Inner
	}
	if a.Pads > 0 {
		l.pad = d.values(a.Pad)
	}
	l.perWorker = normParts * l.width
	scratch(&l.scratch, d.pool.Threads()*l.perWorker)
	reserve(&l.sums, d.pool.Threads()*2*normStrip)
	d.pool.For(pieces(a.C, l.per), l)
}

// parts returns the scratch rows of a worker, each n wide.
func (l *batchNormLoop[T]) parts(worker, n int) (p [normParts][]T) {
	for i := range p {
		at := worker*l.perWorker + i*l.width
		p[i] = l.scratch[at : at+n : at+n]
	}
	return p
}

func (l *batchNormLoop[T]) Do(worker, i int) {
	lo, hi := i*l.per, min(l.a.C, (i+1)*l.per)
	switch {
	case l.a.Inner == 1 && l.a.Grad:
		l.rowsGrad(worker, lo, hi)
	case l.a.Inner == 1:
		l.rows(worker, lo, hi)
	default:
		p := l.parts(worker, l.a.Inner)
		l.ops.Fill(p[0], 1)
		for c := lo; c < hi; c++ {
			if l.a.Grad {
				l.channelGrad(c, p[0], p[1])
			} else {
				l.channel(c, p[0], p[1])
			}
		}
	}
}

// finish turns the mean and the sum of squared differences of channel c into its saved and its running statistics.
func (l *batchNormLoop[T]) finish(c int, mean, squares float64) {
	v := squares / l.n
	l.mean[c], l.inv[c] = T(mean), T(1/math.Sqrt(v+l.a.Eps))
	if math.IsNaN(squares) || math.IsInf(squares, 0) {
		return // the step is lost, the running statistics are not
	}
	m := l.a.Momentum
	l.rmean[c] = T((1-m)*float64(l.rmean[c]) + m*mean)
	l.rvar[c] = T((1-m)*float64(l.rvar[c]) + m*squares/max(1, l.n-1))
}

// fixed takes the statistics of channel c from the running ones.
func (l *batchNormLoop[T]) fixed(c int) {
	l.mean[c], l.inv[c] = l.rmean[c], T(1/math.Sqrt(float64(l.rvar[c])+l.a.Eps))
}

// slopes returns k, u and v of dx = k·dy + u·x' + v.
func (l *batchNormLoop[T]) slopes(c int, dw, db float64) (k, u, v float64) {
	k = float64(l.w[c]) * float64(l.inv[c])
	if l.a.Train {
		u, v = -k*float64(l.inv[c])*dw/l.n, -k*db/l.n
	}
	return k, u, v
}

// padding returns the number of padding rows and, of channel c, their difference from m.
func (l *batchNormLoop[T]) padding(c int, m float64) (rows, difference float64) {
	if l.pad == nil {
		return 0, 0
	}
	return float64(l.a.Pads), float64(l.pad[c]) - m
}

// rows normalises channels [lo, hi) of x [Outer, C].
func (l *batchNormLoop[T]) rows(worker, lo, hi int) {
	p, sum := l.parts(worker, hi-lo), l.sums[worker*2*normStrip:][:hi-lo]
	part, shifted, negative, scale := p[0], p[1], p[2], p[3]
	if l.a.Train {
		l.blocks(sum, part, func(row int) { l.ops.Add(part, part, l.strip(l.x, row, lo, hi)) })
		for j := range sum {
			pads, pad := l.padding(lo+j, 0)
			sum[j] = (sum[j] + pads*pad) / l.n
			l.mean[lo+j], negative[j] = T(sum[j]), -T(sum[j])
		}
		l.blocks(sum, part, func(row int) {
			l.ops.Add(shifted, l.strip(l.x, row, lo, hi), negative)
			l.ops.MAdd(part, shifted, shifted)
		})
		for j := range sum {
			m := float64(l.mean[lo+j])
			pads, pad := l.padding(lo+j, m)
			l.finish(lo+j, m, sum[j]+pads*pad*pad)
		}
	} else {
		for c := lo; c < hi; c++ {
			l.fixed(c)
		}
	}
	for j := range scale {
		negative[j], scale[j] = -l.mean[lo+j], l.w[lo+j]*l.inv[lo+j]
	}
	for row := range l.a.Outer {
		y := l.strip(l.y, row, lo, hi)
		l.ops.Add(y, l.strip(l.x, row, lo, hi), negative)
		l.ops.Mul(y, y, scale)
		l.ops.Add(y, y, l.b[lo:hi])
		if l.plus != nil {
			l.ops.Add(y, y, l.strip(l.plus, row, lo, hi))
		}
	}
}

// rowsGrad computes the gradients of channels [lo, hi) of x [Outer, C].
func (l *batchNormLoop[T]) rowsGrad(worker, lo, hi int) {
	p, s := l.parts(worker, hi-lo), l.sums[worker*2*normStrip:][:2*normStrip]
	dw, db := s[:hi-lo], s[normStrip:][:hi-lo]
	part, shifted, negative, k, u, v := p[0], p[1], p[2], p[3], p[4], p[5]
	for j := range negative {
		negative[j] = -l.mean[lo+j]
	}
	l.blocks(db, part, func(row int) { l.ops.Add(part, part, l.strip(l.dy, row, lo, hi)) })
	l.blocks(dw, part, func(row int) {
		l.ops.Add(shifted, l.strip(l.x, row, lo, hi), negative)
		l.ops.MAdd(part, shifted, l.strip(l.dy, row, lo, hi))
	})
	for j := range k {
		c := lo + j
		dw[j] *= float64(l.inv[c])
		a, b, e := l.slopes(c, dw[j], db[j])
		k[j], u[j], v[j] = T(a), T(b), T(e)
		l.store(c, dw[j], db[j])
		if l.dpad != nil {
			pads, pad := l.padding(c, float64(l.mean[c]))
			l.dpad[c] = T(pads * (b*pad + e))
		}
	}
	if l.dx == nil {
		return
	}
	for row := range l.a.Outer {
		dx := l.strip(l.dx, row, lo, hi)
		l.ops.Mul(dx, l.strip(l.dy, row, lo, hi), k)
		if l.a.Train {
			l.ops.Add(shifted, l.strip(l.x, row, lo, hi), negative)
			l.ops.MAdd(dx, shifted, u)
			l.ops.Add(dx, dx, v)
		}
	}
}

func (l *batchNormLoop[T]) strip(x []T, row, lo, hi int) []T { return x[row*l.a.C+lo : row*l.a.C+hi] }

// blocks adds up what add puts into part for every row: in the device's type within a block of rows, in float64 across.
func (l *batchNormLoop[T]) blocks(sum []float64, part []T, add func(row int)) {
	clear(sum)
	for from := 0; from < l.a.Outer; from += normBlock {
		l.ops.Fill(part, 0)
		for row := from; row < min(l.a.Outer, from+normBlock); row++ {
			add(row)
		}
		for j, v := range part {
			sum[j] += float64(v)
		}
	}
}

// store writes the gradients of weight and bias where they are wanted.
func (l *batchNormLoop[T]) store(c int, dw, db float64) {
	if l.dw != nil {
		l.dw[c] = T(dw)
	}
	if l.db != nil {
		l.db[c] = T(db)
	}
}

// segment returns the values of channel c in outer item o.
func (l *batchNormLoop[T]) segment(x []T, o, c int) []T {
	n := l.a.Inner
	return x[(o*l.a.C+c)*n : (o*l.a.C+c+1)*n]
}

// channel normalises one channel; ones and shifted are [Inner].
func (l *batchNormLoop[T]) channel(c int, ones, shifted []T) {
	if l.a.Train {
		var sum, squares float64
		for o := range l.a.Outer {
			sum += l.ops.Dot(l.segment(l.x, o, c), ones)
		}
		mean := T(sum / l.n)
		for o := range l.a.Outer {
			l.ops.Sum2(shifted, l.segment(l.x, o, c), ones, 1, -mean)
			squares += l.ops.Sumsq(shifted)
		}
		l.finish(c, sum/l.n, squares)
	} else {
		l.fixed(c)
	}
	for o := range l.a.Outer {
		y := l.segment(l.y, o, c)
		l.ops.Sum2(y, l.segment(l.x, o, c), ones, 1, -l.mean[c])
		l.ops.Sum2(y, y, ones, l.w[c]*l.inv[c], l.b[c])
		if l.plus != nil {
			l.ops.Add(y, y, l.segment(l.plus, o, c))
		}
	}
}

// channelGrad computes the gradients of one channel.
func (l *batchNormLoop[T]) channelGrad(c int, ones, shifted []T) {
	var dw, db float64
	for o := range l.a.Outer {
		l.ops.Sum2(shifted, l.segment(l.x, o, c), ones, 1, -l.mean[c])
		dw += l.ops.Dot(shifted, l.segment(l.dy, o, c))
		db += l.ops.Dot(l.segment(l.dy, o, c), ones)
	}
	dw *= float64(l.inv[c])
	l.store(c, dw, db)
	if l.dpad != nil {
		l.dpad[c] = 0
	}
	if l.dx == nil {
		return
	}
	k, u, v := l.slopes(c, dw, db)
	for o := range l.a.Outer {
		dx := l.segment(l.dx, o, c)
		l.ops.Sum2(shifted, l.segment(l.x, o, c), ones, 1, -l.mean[c])
		l.ops.Sum2(dx, l.segment(l.dy, o, c), shifted, T(k), T(u))
		if l.a.Train {
			l.ops.Sum2(dx, dx, ones, 1, T(v))
		}
	}
}
