package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelSumSquares  = entryOf("sum_squares")
	kernelDotPartials = entryOf("dot_partials")
	kernelAddPartials = entryOf("add_partials")
	kernelClip        = entryOf("clip_coefficient")
	kernelAdam        = entryOf("adam")
)

// sumBlocks is how many partial sums a sum over a flat buffer has at most.
const sumBlocks = 512

// SumSquares implements device.Optimiser.
func (d *dev) SumSquares(acc, x device.View) {
	from, sum := d.floats("SumSquares x", x, -1), d.floats("SumSquares acc", acc, 1)
	if x.N == 0 {
		return
	}
	n := min(blocksFor(x.N), sumBlocks)
	partial := d.need(scratchSums, 8*sumBlocks)
	d.start(kernelSumSquares, threads, n, 1, 1).ptr(partial, from).long(x.N)
	d.start(kernelAddPartials, threads, 1, 1, 1).ptr(sum, partial).int(n)
}

// ClipCoefficient implements device.Optimiser.
func (d *dev) ClipCoefficient(coef, norm, sumSquares device.View, maxNorm float64) {
	d.start(kernelClip, 32, 1, 1, 1).ptr(d.floats("ClipCoefficient coef", coef, 1), d.floats("ClipCoefficient norm", norm, 1),
		d.floats("ClipCoefficient sumSquares", sumSquares, 1)).float(maxNorm)
}

// Adam implements device.Optimiser.
func (d *dev) Adam(a device.AdamArgs) {
	n := a.P.N
	p, g := d.floats("Adam P", a.P, -1), d.exactly("Adam G", a.G, n)
	m, v := d.exactly("Adam M", a.M, n), d.exactly("Adam V", a.V, n)
	copy := d.copyOfParameters(p, n)
	d.adam(a, copy, p, m, v, g, n, n, n)
	d.fresh(copy, p, n)
}

// copyOfParameters is copyFor for parameters that products have read; a copy of others would not be used.
func (d *dev) copyOfParameters(p driver.Ptr, n int) driver.Ptr {
	if d.bf16.find(p) == nil {
		return 0
	}
	return d.copyFor(p, n)
}

// adam updates rows of the given width, ld apart.
func (d *dev) adam(a device.AdamArgs, copy, p, m, v, g driver.Ptr, n, width, ld int) {
	hyper, clip := d.floats("Adam Hyper", a.Hyper, 3), d.optional("Adam Clip", a.Clip, 1)
	if n > 0 {
		d.each(kernelAdam, n).ptr(copy, p, m, v, g, hyper, clip).float(a.Beta1, 1-a.Beta1, a.Beta2, 1-a.Beta2, a.Eps).flag(a.Legacy).long(n, width, ld)
	}
}

// panelFloats is the size of the piece of a factored gradient that is made at a time: small enough for the second cache.
const panelFloats = 1 << 22

// AdamFactored implements device.Optimiser.
func (d *dev) AdamFactored(a device.AdamArgs, f device.Factored) {
	n := f.O * f.I
	dy, x := d.exactly("AdamFactored DY", f.DY, f.N*f.O), d.exactly("AdamFactored X", f.X, f.N*f.I)
	p, m, v := d.exactly("AdamFactored P", a.P, n), d.exactly("AdamFactored M", a.M, n), d.exactly("AdamFactored V", a.V, n)
	if n == 0 {
		return
	}
	width := min(f.I, max(64, panelFloats/f.O/64*64))
	grad := d.need(scratchPanel, 4*f.O*width)
	copy := d.copyOfParameters(p, n)
	for from := 0; from < f.I; from += width {
		w := min(width, f.I-from)
		d.multiply(&product{transA: true, m: f.O, n: w, k: f.N, alpha: 1, a: dy, lda: f.O, b: at(x, from), ldb: f.I, c: grad, ldc: w})
		to := copy
		if copy != 0 {
			to += driver.Ptr(2 * from)
		}
		d.adam(a, to, at(p, from), at(m, from), at(v, from), grad, f.O*w, w, f.I)
	}
	d.fresh(copy, p, n)
}

// SumSquaresFactored implements device.Optimiser.
func (d *dev) SumSquaresFactored(acc device.View, f device.Factored) {
	dy, x := d.exactly("SumSquaresFactored DY", f.DY, f.N*f.O), d.exactly("SumSquaresFactored X", f.X, f.N*f.I)
	sum := d.floats("SumSquaresFactored acc", acc, 1)
	n := f.N * f.N
	if n == 0 {
		return
	}
	a := d.need(scratchPanel, 4*2*n)
	b := at(a, n)
	d.multiply(&product{transB: true, m: f.N, n: f.N, k: f.O, alpha: 1, a: dy, lda: f.O, b: dy, ldb: f.O, c: a, ldc: f.N})
	d.multiply(&product{transB: true, m: f.N, n: f.N, k: f.I, alpha: 1, a: x, lda: f.I, b: x, ldb: f.I, c: b, ldc: f.N})
	partial, blocks := d.need(scratchSums, 8*sumBlocks), min(blocksFor(n), sumBlocks)
	d.start(kernelDotPartials, threads, blocks, 1, 1).ptr(partial, a, b).long(n)
	d.start(kernelAddPartials, threads, 1, 1, 1).ptr(sum, partial).int(blocks)
}
