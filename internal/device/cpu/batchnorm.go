package cpu

import (
	"math"

	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// Batch normalisation of x [Outer, C, Inner] per channel (device.BatchNormArgs; specification, models.md §1.1).
//
// The columns of a matrix (Inner = 1) are reduced over pieces of rows, so that memory is read in order: the sums of a piece
// are in the device's type, their sums over the pieces in float64. Channels of several values in a row are reduced one by one,
// see batchnorm_channels.go. The variance is taken about the mean that was found before.

type normPhase uint8

const (
	normMean     normPhase = iota // Σ x
	normVariance                  // Σ (x - μ)²
	normApply                     // y
	normGrads                     // Σ dy and Σ dy·x̂
	normInput                     // dx
)

// batchNorm is one call: the vectors [C] of the formulas, and what the loops over them need.
type batchNorm[T vec.Float] struct {
	ops             *vec.Ops[T]
	a               device.BatchNormArgs
	n               float64 // values of a channel
	phase           normPhase
	x, y, dy, dx    []T
	mean, invStd    []T
	gain, bias      []T       // gain = weight·s
	meanDB, meanDW  []T       // DBias/n and DWeight/n, what dx is freed of; 0 without Train
	parts           []T       // [pieces, 2, C]: sums of the pieces
	sums            []float64 // [2, C]
	scratch         []T       // [workers, C] or [workers, 2, Inner]
	ones            []T       // [Inner]
	columnBody      normColumns[T]
	channelBody     normChannels[T]
	gainBuf, db, dw []T
}

const normRows = 32 // rows of one piece: few enough for sums in float32

// BatchNorm implements device.BatchNorm.
func (d *dev[T]) BatchNorm(a device.BatchNormArgs) {
	l := d.beginNorm("BatchNorm", a)
	runMean, runVar := d.floats("BatchNorm RunningMean", a.RunningMean, a.C), d.floats("BatchNorm RunningVar", a.RunningVar, a.C)
	l.y, l.bias = d.floats("BatchNorm Y", a.Y, len(l.x)), d.floats("BatchNorm Bias", a.Bias, a.C)
	weight := d.floats("BatchNorm Weight", a.Weight, a.C)
	if a.Train {
		d.reduceNorm(l, normMean)
		for c := range l.mean {
			l.mean[c] = T(l.sums[c] / l.n)
		}
		d.reduceNorm(l, normVariance)
		for c := range l.mean {
			v := l.sums[c] / l.n
			l.invStd[c] = T(1 / math.Sqrt(v+a.Eps))
			runMean[c] = T((1-a.Momentum)*float64(runMean[c]) + a.Momentum*float64(l.mean[c]))
			runVar[c] = T((1-a.Momentum)*float64(runVar[c]) + a.Momentum*v*l.n/max(1, l.n-1))
		}
	} else {
		copy(l.mean, runMean)
		for c, v := range runVar {
			l.invStd[c] = T(1 / math.Sqrt(float64(v)+a.Eps))
		}
	}
	l.ops.Mul(l.gain, weight, l.invStd)
	d.loopNorm(l, normApply)
}

// BatchNormGrad implements device.BatchNorm.
func (d *dev[T]) BatchNormGrad(a device.BatchNormArgs) {
	l := d.beginNorm("BatchNormGrad", a)
	l.dy = d.floats("BatchNormGrad DY", a.DY, len(l.x))
	d.reduceNorm(l, normGrads)
	if db := d.optional("BatchNormGrad DBias", a.DBias, a.C); db != nil {
		for c := range db {
			db[c] = T(l.sums[c])
		}
	}
	if dw := d.optional("BatchNormGrad DWeight", a.DWeight, a.C); dw != nil {
		for c := range dw {
			dw[c] = T(l.sums[a.C+c])
		}
	}
	if l.dx = d.optional("BatchNormGrad DX", a.DX, len(l.x)); l.dx == nil {
		return
	}
	share := 0.0
	if a.Train {
		share = 1 / l.n
	}
	l.meanDB, l.meanDW = scratch(&l.db, a.C), scratch(&l.dw, a.C)
	for c := range a.C {
		l.meanDB[c], l.meanDW[c] = T(l.sums[c]*share), T(l.sums[a.C+c]*share)
	}
	l.ops.Mul(l.gain, d.floats("BatchNormGrad Weight", a.Weight, a.C), l.invStd)
	d.loopNorm(l, normInput)
}

// beginNorm checks what both kernels read.
func (d *dev[T]) beginNorm(what string, a device.BatchNormArgs) *batchNorm[T] {
	positive(what, a.Outer, a.C, a.Inner)
	l := &d.batchNorm
	l.ops, l.a, l.n = d.ops, a, float64(a.Outer)*float64(a.Inner)
	l.x = d.floats("BatchNorm X", a.X, a.Outer*a.C*a.Inner)
	l.mean, l.invStd = d.floats("BatchNorm Mean", a.Mean, a.C), d.floats("BatchNorm InvStd", a.InvStd, a.C)
	l.gain = scratch(&l.gainBuf, a.C)
	if cap(l.sums) < 2*a.C {
		l.sums = make([]float64, 2*a.C)
	}
	l.sums = l.sums[:2*a.C]
	l.columnBody.batchNorm, l.channelBody.batchNorm = l, l
	if a.Inner == 1 {
		scratch(&l.scratch, d.pool.Threads()*a.C)
		scratch(&l.parts, pieces(a.Outer, normRows)*2*a.C)
		return l
	}
	scratch(&l.scratch, d.pool.Threads()*2*a.Inner)
	l.ops.Fill(scratch(&l.ones, a.Inner), 1)
	return l
}

// loopNorm runs one phase over all pieces.
func (d *dev[T]) loopNorm(l *batchNorm[T], phase normPhase) {
	l.phase = phase
	if l.a.Inner == 1 {
		d.pool.For(pieces(l.a.Outer, normRows), &l.columnBody)
	} else {
		d.pool.For(l.a.C, &l.channelBody)
	}
}

// reduceNorm runs a phase that sums, and leaves its one or two sums per channel in l.sums.
func (d *dev[T]) reduceNorm(l *batchNorm[T], phase normPhase) {
	d.loopNorm(l, phase)
	if l.a.Inner > 1 {
		return
	}
	clear(l.sums)
	n := 2 * l.a.C
	if phase != normGrads {
		n = l.a.C
	}
	for i := range pieces(l.a.Outer, normRows) {
		for c, v := range l.parts[i*2*l.a.C:][:n] {
			l.sums[c] += float64(v)
		}
	}
}

// normColumns is the loop over pieces of rows.
type normColumns[T vec.Float] struct{ *batchNorm[T] }

func (l *normColumns[T]) Do(worker, i int) {
	c, ops := l.a.C, l.ops
	row := l.scratch[worker*c:][:c]
	first, second := l.parts[i*2*c:][:c], l.parts[(i*2+1)*c:][:c]
	switch l.phase {
	case normMean, normVariance:
		ops.Fill(first, 0)
	case normGrads:
		ops.Fill(first, 0)
		ops.Fill(second, 0)
	}
	for r := i * normRows; r < min(l.a.Outer, (i+1)*normRows); r++ {
		x := l.x[r*c : (r+1)*c]
		switch l.phase {
		case normMean:
			ops.Add(first, first, x)
		case normVariance:
			ops.Sum2(row, x, l.mean, 1, -1)
			ops.MAdd(first, row, row)
		case normApply:
			y := l.y[r*c : (r+1)*c]
			ops.Sum2(y, x, l.mean, 1, -1)
			ops.Mul(y, y, l.gain)
			ops.Add(y, y, l.bias)
		case normGrads:
			dy := l.dy[r*c : (r+1)*c]
			ops.Sum2(row, x, l.mean, 1, -1)
			ops.Mul(row, row, l.invStd)
			ops.Add(first, first, dy)
			ops.MAdd(second, row, dy)
		case normInput:
			dx := l.dx[r*c : (r+1)*c]
			ops.Sum2(row, x, l.mean, 1, -1)
			ops.Mul(row, row, l.invStd)
			ops.Mul(row, row, l.meanDW)
			ops.Add(row, row, l.meanDB)
			ops.Sum2(dx, l.dy[r*c:(r+1)*c], row, 1, -1)
			ops.Mul(dx, dx, l.gain)
		}
	}
}
