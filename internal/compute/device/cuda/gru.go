package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// The GRU over a packed batch (device.GRU, device.BiGRU): one product multiplies the inputs of all words. Then each
// step is one product with the states of all sequences, and one kernel for the gates, which reads from device memory
// which sequences have a word. So no address and no size depends on the lengths, only the numbers of rows and steps do.
// All steps of a GRU of a few units are one kernel; on tensor cores a larger GRU needs at most one kernel a step
// (grutensor.go).
//
// Two directions take the same number of launches: their products are one strided batch if the addresses allow it, and
// their steps one kernel, which works from both ends of the captions. The kernels add the biases.

// direction has the checked views of a direction.
type direction struct {
	wih, whh, bih, bhh driver.Ptr
	gates, prev        driver.Ptr
	dwih, dwhh         driver.Ptr
	dbih, dbhh         driver.Ptr
}

// layer is a GRU of one or two directions.
type layer struct {
	i, h, rows, batch, steps int
	directions               int
	reverse                  bool // the first direction runs backward; the second runs the other way
	x                        driver.Ptr
	lengths, starts          driver.Ptr
	bounded                  bool
	of                       [2]direction
}

// layer begins a pass with what both passes read.
func (d *dev) layer(a *device.BiGRU, directions int) *layer {
	l := &d.gru
	*l = layer{i: a.I, h: a.H, batch: len(a.Lengths.Host), directions: directions, bounded: a.Lengths.Bounded}
	l.lengths, l.starts = d.starts(a.Lengths)
	l.rows, l.steps = d.pack.Rows(), d.pack.Steps()
	l.x = d.pointer(a.X)
	for k := range directions {
		w := &a.Directions[k]
		l.of[k] = direction{wih: d.pointer(w.WIH), whh: d.pointer(w.WHH),
			gates: d.pointer(w.Gates), prev: d.pointer(w.Prev)}
	}
	return l
}

// both begins the call of a kernel over n values of each direction.
func (d *dev) both(k string, l *layer, n int) *command {
	c := d.each(k, n)
	c.launch.Grid[1] = uint32(l.directions)
	return c
}

// smallGRU is the largest number of units for which all steps are one kernel (grusmall.cu).
const smallGRU = 32

// sequences begins the call of a kernel with a warp for each sequence of each direction.
func (d *dev) sequences(k string, l *layer) *command {
	return d.start(k, smallGRU, l.batch, l.directions, 1)
}

// forward writes the states of the directions to y[0] and y[1].
func (d *dev) forward(a *device.BiGRU, l *layer, y [2]driver.Ptr) {
	h := l.h
	for k := range l.directions {
		w := &a.Directions[k]
		l.of[k].bih, l.of[k].bhh = d.pointer(w.BIH), d.pointer(w.BHH)
	}
	if l.rows == 0 {
		return
	}
	p, q := &l.of[0], &l.of[1]
	if l.widens(d) {
		x, w, ld := l.wideOperands(d, 0)
		d.multiplyBoth(l, product{transB: true, m: l.rows, n: 3 * h, k: ld, alpha: 1, a: x, halfA: true, lda: ld, b: w,
			halfB: true, ldb: ld, c: p.gates, ldc: 4 * h}, x, w+driver.Ptr(2*3*h*ld), q.gates)
	} else {
		d.multiplyBoth(l, product{transB: true, m: l.rows, n: 3 * h, k: l.i, alpha: 1, a: l.x, lda: l.i, b: p.wih,
			ldb: l.i, c: p.gates, ldc: 4 * h}, l.x, q.wih, q.gates)
	}
	if h <= smallGRU {
		d.sequences("gru_small", l).ptr(p.gates, q.gates, y[0], y[1], p.prev, q.prev, p.whh, q.whh, p.bih, q.bih,
			p.bhh, q.bhh, l.lengths, l.starts).int(l.steps, l.batch, h).flag(l.reverse).flag(d.precision == BF16)
		d.clearTails(l, p.prev, q.prev, h)
		return
	}
	if d.tensorSteps(l, 3*tensorUnits, h) {
		d.tensorForward(l, y)
		return
	}
	n := l.batch * h
	hidden, state := d.need(scratchHidden, 4*l.directions*3*n), d.need(scratchCarry, 6*l.directions*n)
	half := l.half(d)
	state16 := either(half, at(state, l.directions*n), 0)
	for done := range l.steps {
		if done > 0 {
			d.multiplyBoth(l, product{transB: true, m: l.batch, n: 3 * h, k: h, alpha: 1,
				a: either(half, state16, state), halfA: half, lda: h, b: p.whh, ldb: h, c: hidden, ldc: 3 * h},
				either(half, state16+driver.Ptr(2*n), at(state, n)), q.whh, at(hidden, 3*n))
		}
		d.both("gru_packed_step", l, n).ptr(p.gates, q.gates, y[0], y[1], p.prev, q.prev, state, state16, hidden, p.bih,
			q.bih, p.bhh, q.bhh, l.starts).
			int(done, l.steps, l.batch, h).flag(l.reverse)
	}
	d.clearTails(l, p.prev, q.prev, h)
}

// half reports whether the kernel of a step writes states in bfloat16 for the next product. No other kernel rounds
// them, so this pays for smaller products than elsewhere.
func (l *layer) half(d *dev) bool { return d.takesHalf(16 * l.directions * l.batch * 3 * l.h * l.h) }

// clearTails zeroes the rows of each direction after the last one.
func (d *dev) clearTails(l *layer, x, y driver.Ptr, width int) {
	if l.bounded && l.rows > 0 {
		d.both("gru_tails", l, l.rows*width).ptr(x, y, l.starts).int(l.steps, width).long(l.rows * width)
	}
}

// backward is backpropagation through time of dy times scale and the gradient of the final states. Each step turns its
// gates into the gradients of the gate inputs, stored [n, r, z, hn]. At the end, products over all rows compute the
// gradients of the weights.
func (d *dev) backward(a *device.BiGRU, l *layer, dy, final driver.Ptr, scale float64) {
	h := l.h
	for k := range l.directions {
		w, of := &a.Directions[k], &l.of[k]
		of.dwih, of.dwhh = d.pointer(w.DWIH), d.pointer(w.DWHH)
		of.dbih, of.dbhh = d.pointer(w.DBIH), d.pointer(w.DBHH)
	}
	dx := d.pointer(a.DX)
	p, q := &l.of[0], &l.of[1]
	switch {
	case l.rows == 0:
	case h <= smallGRU:
		d.sequences("gru_small_grad", l).ptr(p.gates, q.gates, p.prev, q.prev, p.whh, q.whh, dy, final, l.lengths,
			l.starts).float(scale).int(l.steps, l.batch, h).flag(l.reverse).flag(d.precision == BF16)
		d.clearTails(l, p.gates, q.gates, 4*h)
	case d.tensorSteps(l, d.tensor.slopes(), 3*h):
		d.tensorBackward(l, dy, final, scale)
	default:
		l.stepsBackward(d, dy, final, scale)
		d.clearTails(l, p.gates, q.gates, 4*h)
	}
	d.gruWeights(l, dx)
}

// stepsBackward computes the gradients of the gate inputs step by step.
func (l *layer) stepsBackward(d *dev, dy, final driver.Ptr, scale float64) {
	h, n, p, q := l.h, l.batch*l.h, &l.of[0], &l.of[1]
	carry, slopes := d.need(scratchCarry, 4*l.directions*n), d.need(scratchHidden, 4*l.directions*3*n)
	half := l.half(d)
	slopes16 := either(half, slopes, 0) // at the same place
	for done := range l.steps {
		d.both("gru_packed_grad", l, n).ptr(p.gates, q.gates, slopes, slopes16, carry, p.prev, q.prev, dy, final,
			l.starts).float(scale).int(done, l.steps, l.batch, h).flag(l.reverse)
		if done+1 < l.steps {
			d.multiplyBoth(l, product{m: l.batch, n: h, k: 3 * h, alpha: 1, beta: 1, a: slopes, halfA: half, lda: 3 * h,
				b: p.whh, ldb: h, c: carry, ldc: h},
				either(half, slopes+driver.Ptr(2*3*n), at(slopes, 3*n)), q.whh, at(carry, n))
		}
	}
}

// gruWeights computes the gradients of the weights, biases and inputs from the gradients of the gate inputs.
func (d *dev) gruWeights(l *layer, dx driver.Ptr) {
	h, in, p, q := l.h, l.i, &l.of[0], &l.of[1]
	l.biases(d)
	part := func(w *direction, n int) driver.Ptr { // of the gates: n, r, z, hn
		if l.rows == 0 {
			return w.gates
		}
		return at(w.gates, n*h)
	}
	d.multiplyBoth(l, product{transA: true, m: 3 * h, n: h, k: l.rows, alpha: 1, a: part(p, 1), lda: 4 * h, b: p.prev,
		ldb: h, c: p.dwhh, ldc: h}, part(q, 1), q.prev, q.dwhh)
	if l.widens(d) {
		l.wideWeights(d, dx)
		return
	}
	d.multiplyBoth(l, product{transA: true, m: 2 * h, n: in, k: l.rows, alpha: 1, a: part(p, 1), lda: 4 * h, b: l.x,
		ldb: in, c: p.dwih, ldc: in}, part(q, 1), l.x, q.dwih)
	d.multiplyBoth(l, product{transA: true, m: h, n: in, k: l.rows, alpha: 1, a: p.gates, lda: 4 * h, b: l.x, ldb: in,
		c: at(p.dwih, 2*h*in), ldc: in},
		q.gates, l.x, at(q.dwih, 2*h*in))
	if dx == 0 || l.rows == 0 {
		return
	}
	for k := range l.directions {
		w := &l.of[k]
		d.multiply(&product{m: l.rows, n: in, k: 2 * h, alpha: 1, beta: after(k), a: part(w, 1), lda: 4 * h, b: w.wih,
			ldb: in, c: dx, ldc: in})
		d.multiply(&product{m: l.rows, n: in, k: h, alpha: 1, beta: 1, a: w.gates, lda: 4 * h, b: at(w.wih, 2*h*in),
			ldb: in, c: dx, ldc: in})
	}
}

// biases computes the gradients of the biases. Like roundingSum, it also rounds many rows.
func (l *layer) biases(d *dev) {
	h, p, q := l.h, &l.of[0], &l.of[1]
	cols, pieces := 4*h, (l.rows+columnPiece-1)/columnPiece
	sums := d.need(scratchSums, 4*l.directions*max(1, pieces)*cols)
	var copies [2]driver.Ptr
	for k := range l.directions {
		if x := l.of[k].gates; pieces > 1 && d.currentCopy(x, l.rows*cols) == 0 {
			copies[k] = d.operandCopy(x, l.rows*cols)
		}
	}
	d.start("column_sum_both", threads, (cols+31)/32, pieces, l.directions).ptr(sums, copies[0], copies[1], p.gates,
		q.gates).int(l.rows, cols, columnPiece)
	for k := range l.directions {
		d.fresh(copies[k], l.of[k].gates, l.rows*cols)
	}
	d.both("gru_bias", l, cols).ptr(p.dbih, q.dbih, p.dbhh, q.dbhh, sums).int(pieces, h)
}

// widens reports whether the products with the inputs use wider rows. Rows of bfloat16 whose number of values is not a
// multiple of 8, such as the 300 of a word vector, are not aligned to 16 bytes, and results of such a width do not fill
// tiles: for both, cuBLAS uses kernels with a third of the throughput.
func (l *layer) widens(d *dev) bool {
	return d.blas != nil && l.i%8 != 0 && d.takesHalf(l.directions*l.rows*3*l.h*l.i)
}

// wideOperands writes the inputs [rows, ld] and the weights of the inputs [directions, 3h, ld] in bfloat16. The weights
// of a direction begin at row first, and the rows before it follow. Columns after the values are 0.
func (l *layer) wideOperands(d *dev, first int) (x, w driver.Ptr, ld int) {
	ld = (l.i + 7) / 8 * 8
	n, p, q := l.rows+l.directions*3*l.h, l.of[0].wih, l.of[1].wih
	x = d.need(scratchHidden, 2*n*ld)
	d.warps("gru_operands", n).ptr(x, l.x, p, q).int(l.rows, 3*l.h, l.i, ld, first, n).flag(inFours(l.i, l.x, p, q))
	return x, x + driver.Ptr(2*l.rows*ld), ld
}

// wideWeights computes the gradients of the weights of the inputs and, if dx is not 0, of the inputs: as wide rows in
// the order of the gates' gradients, which one kernel then moves to their places.
func (l *layer) wideWeights(d *dev, dx driver.Ptr) {
	h, p, q := l.h, &l.of[0], &l.of[1]
	x, w, ld := l.wideOperands(d, 2*h)
	n := l.directions * 3 * h
	dw := d.need(scratchCarry, 4*(n+l.directions*l.rows)*ld)
	parts := at(dw, n*ld)
	d.multiplyBoth(l, product{transA: true, m: 3 * h, n: ld, k: l.rows, alpha: 1, a: p.gates, lda: 4 * h, b: x,
		halfB: true, ldb: ld, c: dw, ldc: ld}, q.gates, x, at(dw, 3*h*ld))
	if dx != 0 {
		d.multiplyBoth(l, product{m: l.rows, n: ld, k: 3 * h, alpha: 1, a: p.gates, lda: 4 * h, b: w, halfB: true,
			ldb: ld, c: parts, ldc: ld}, q.gates, w+driver.Ptr(2*3*h*ld), at(parts, l.rows*ld))
		n += l.rows
	}
	d.warps("gru_results", n).ptr(p.dwih, q.dwih, dx, dw, parts).int(l.directions, l.rows, 3*h, l.i, ld, h, n).
		flag(inFours(l.i, p.dwih, q.dwih, dx))
}

// multiplyBoth runs the product p of the first direction and, if there are two, the product of the second, with the
// operands a, b and c: as one batch if these have higher addresses.
func (d *dev) multiplyBoth(l *layer, p product, a, b, c driver.Ptr) {
	if l.directions == 1 {
		d.multiply(&p)
		return
	}
	if a >= p.a && b >= p.b && c > p.c {
		p.count, p.strideA, p.strideB, p.strideC = 2, int(a-p.a)/4, int(b-p.b)/4, int(c-p.c)/4
		if p.halfA {
			p.strideA = int(a-p.a) / 2
		}
		if p.halfB {
			p.strideB = int(b-p.b) / 2
		}
		d.multiply(&p)
		return
	}
	d.multiply(&p)
	p.a, p.b, p.c = a, b, c
	d.multiply(&p)
}

// single returns a BiGRU with the direction as the first of two.
func single(a *device.GRU) device.BiGRU {
	return device.BiGRU{I: a.I, H: a.H, Lengths: a.Lengths, X: a.X, DX: a.DX,
		Directions: [2]device.GRUDirection{a.GRUDirection}}
}

func (d *dev) GRU(a device.GRU) {
	b := single(&a)
	l := d.layer(&b, 1)
	l.reverse = a.Reverse
	y, final := d.pointer(a.Y), d.pointer(a.Final)
	d.forward(&b, l, [2]driver.Ptr{y})
	d.clearTail(y, a.Lengths, l.lengths, l.h)
	if final != 0 && l.rows > 0 {
		d.each("gru_final", l.batch*l.h).ptr(final, y, l.lengths, l.starts).int(l.batch, l.h).flag(a.Reverse)
	}
}

func (d *dev) GRUGrad(a device.GRU) {
	b := single(&a)
	l := d.layer(&b, 1)
	l.reverse = a.Reverse
	dy, final := d.pointer(a.DY), d.pointer(a.DFinal)
	d.backward(&b, l, dy, final, 1)
}

func (d *dev) BiGRU(a device.BiGRU) {
	l := d.layer(&a, 2)
	n := l.rows * l.h
	y, other := d.pointer(a.Y), d.pointer(a.Work)
	d.forward(&a, l, [2]driver.Ptr{y, other})
	if n > 0 {
		d.each("gru_mean", n).ptr(y, other, l.starts).int(l.steps, l.h).long(n)
	}
}

func (d *dev) BiGRUGrad(a device.BiGRU) {
	l := d.layer(&a, 2)
	d.backward(&a, l, d.pointer(a.DY), 0, 0.5)
}

func (d *dev) GRUCell(a device.GRUCell) {
	d.each("gru_step", a.N*a.H).of(a.Gates, a.Y, a.Prev, a.Hidden, a.Before).ptr(0).int(a.N, a.N, a.H)
}

func (d *dev) GRUCellGrad(a device.GRUCell) {
	d.each("gru_step_grad", a.N*a.H).of(a.Gates, a.Carry, a.Prev, a.DY).ptr(0).int(a.N, a.N, a.H)
}
