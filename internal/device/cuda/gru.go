package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelGRUStep       = entryOf("gru_step")
	kernelGRUStepGrad   = entryOf("gru_step_grad")
	kernelGRUPacked     = entryOf("gru_packed_step")
	kernelGRUPackedGrad = entryOf("gru_packed_grad")
	kernelGRUFinal      = entryOf("gru_final")
	kernelGRUBias       = entryOf("gru_bias")
)

// The GRU over a packed batch (device.GRUArgs), as on the CPU: the products with the inputs of all words are one product, then each step is one
// product with the states of all sequences and one kernel for the gates, which knows from the lengths in device memory which sequences have a word there. So
// no address and no size depends on the lengths, but for the number of rows and of steps.

// GRU implements device.Recurrent.
func (d *dev) GRU(a device.GRUArgs) {
	positive("GRU", a.I, a.H)
	h := a.H
	lengths, starts := d.starts("GRU", a.Lengths)
	rows, batch, steps := d.pack.Rows(), len(a.Lengths.Host), d.pack.Steps()
	x := d.floats("GRU X", a.X, rows*a.I)
	wih, whh := d.floats("GRU WIH", a.WIH, 3*h*a.I), d.floats("GRU WHH", a.WHH, 3*h*h)
	bih, bhh := d.floats("GRU BIH", a.BIH, 3*h), d.floats("GRU BHH", a.BHH, 3*h)
	y, final := d.floats("GRU Y", a.Y, rows*h), d.optional("GRU Final", a.Final, batch*h)
	gates, prev := d.floats("GRU Gates", a.Gates, rows*4*h), d.floats("GRU Prev", a.Prev, rows*h)
	if rows == 0 {
		return
	}
	d.multiply(&product{transB: true, m: rows, n: 3 * h, k: a.I, alpha: 1, a: x, lda: a.I, b: wih, ldb: a.I, c: gates, ldc: 4 * h, bias: bih})
	hidden, state := d.need(scratchHidden, 4*batch*3*h), d.need(scratchCarry, 4*batch*h)
	for n := range steps {
		t, from := n, n-1
		if a.Reverse {
			t, from = steps-1-n, steps-n
		}
		if n == 0 {
			from = -1
		} else {
			d.multiply(&product{transB: true, m: batch, n: 3 * h, k: h, alpha: 1, a: state, lda: h, b: whh, ldb: h, c: hidden, ldc: 3 * h, bias: bhh})
		}
		d.each(kernelGRUPacked, batch*h).ptr(gates, y, prev, state, hidden, bhh, starts).int(t, from, h)
	}
	d.clearTail(y, a.Lengths, lengths, h)
	d.clearTail(prev, a.Lengths, lengths, h)
	if final != 0 {
		d.each(kernelGRUFinal, batch*h).ptr(final, y, lengths, starts).int(batch, h).flag(a.Reverse)
	}
}

// GRUGrad implements device.Recurrent: backpropagation through time in the opposite order of the steps. Each step turns its gates into the
// gradients of the gate inputs, stored [n, r, z, hn]; all weight gradients are products over all rows at the end.
func (d *dev) GRUGrad(a device.GRUArgs) {
	positive("GRUGrad", a.I, a.H)
	h := a.H
	lengths, starts := d.starts("GRUGrad", a.Lengths)
	rows, batch, steps := d.pack.Rows(), len(a.Lengths.Host), d.pack.Steps()
	final, whh := d.optional("GRUGrad DFinal", a.DFinal, batch*h), d.floats("GRUGrad WHH", a.WHH, 3*h*h)
	gates, prev := d.floats("GRUGrad Gates", a.Gates, rows*4*h), d.floats("GRUGrad Prev", a.Prev, rows*h)
	dy := d.optional("GRUGrad DY", a.DY, rows*h)
	carry, slopes := d.need(scratchCarry, 4*max(1, batch*h)), d.need(scratchHidden, 4*max(1, batch*3*h))
	done := -1
	for n := range steps {
		t := steps - 1 - n
		if a.Reverse {
			t = n
		}
		d.each(kernelGRUPackedGrad, batch*h).ptr(gates, slopes, carry, prev, dy, final, starts).int(t, done, h)
		done = t
		if n+1 < steps {
			d.multiply(&product{m: batch, n: h, k: 3 * h, alpha: 1, beta: 1, a: slopes, lda: 3 * h, b: whh, ldb: h, c: carry, ldc: h})
		}
	}
	d.clearTail(gates, a.Lengths, lengths, 4*h)
	d.gruWeights(a, gates, prev, rows)
}

// gruWeights computes the gradients of the weights, biases and inputs from the gradients of the gate inputs.
func (d *dev) gruWeights(a device.GRUArgs, gates, prev driver.Ptr, rows int) {
	h := a.H
	x, wih := d.floats("GRUGrad X", a.X, rows*a.I), d.floats("GRUGrad WIH", a.WIH, 3*h*a.I)
	dwih, dwhh := d.floats("GRUGrad DWIH", a.DWIH, 3*h*a.I), d.floats("GRUGrad DWHH", a.DWHH, 3*h*h)
	dbih, dbhh := d.floats("GRUGrad DBIH", a.DBIH, 3*h), d.floats("GRUGrad DBHH", a.DBHH, 3*h)
	dx := d.optional("GRUGrad DX", a.DX, rows*a.I)

	sums := d.need(scratchSums, 4*4*h)
	d.columnSum(sums, gates, rows, 4*h, 4*h)
	d.each(kernelGRUBias, 3*h).ptr(dbih, dbhh, sums).int(h)

	of := func(n int) driver.Ptr { // part n of the gates: n, r, z, hn
		if rows == 0 {
			return gates
		}
		return at(gates, n*h)
	}
	d.multiply(&product{transA: true, m: 3 * h, n: h, k: rows, alpha: 1, a: of(1), lda: 4 * h, b: prev, ldb: h, c: dwhh, ldc: h})
	d.multiply(&product{transA: true, m: 2 * h, n: a.I, k: rows, alpha: 1, a: of(1), lda: 4 * h, b: x, ldb: a.I, c: dwih, ldc: a.I})
	d.multiply(&product{transA: true, m: h, n: a.I, k: rows, alpha: 1, a: of(0), lda: 4 * h, b: x, ldb: a.I, c: at(dwih, 2*h*a.I), ldc: a.I})
	if dx == 0 || rows == 0 {
		return
	}
	d.multiply(&product{m: rows, n: a.I, k: 2 * h, alpha: 1, a: of(1), lda: 4 * h, b: wih, ldb: a.I, c: dx, ldc: a.I})
	d.multiply(&product{m: rows, n: a.I, k: h, alpha: 1, beta: 1, a: of(0), lda: 4 * h, b: at(wih, 2*h*a.I), ldb: a.I, c: dx, ldc: a.I})
}

// GRUCell implements device.Cells.
func (d *dev) GRUCell(a device.GRUCellArgs) {
	positive("GRUCell", a.N, a.H)
	n := a.N * a.H
	d.each(kernelGRUStep, n).ptr(d.floats("GRUCell Gates", a.Gates, 4*n), d.floats("GRUCell Y", a.Y, n), d.floats("GRUCell Prev", a.Prev, n),
		d.floats("GRUCell Hidden", a.Hidden, 3*n), d.floats("GRUCell Before", a.Before, n), 0).int(a.N, a.N, a.H)
}

// GRUCellGrad implements device.Cells.
func (d *dev) GRUCellGrad(a device.GRUCellArgs) {
	positive("GRUCellGrad", a.N, a.H)
	n := a.N * a.H
	d.each(kernelGRUStepGrad, n).ptr(d.floats("GRUCellGrad Gates", a.Gates, 4*n), d.floats("GRUCellGrad Carry", a.Carry, n), d.floats("GRUCellGrad Prev", a.Prev, n),
		d.optional("GRUCellGrad DY", a.DY, n), 0).int(a.N, a.N, a.H)
}
