package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// sumBlocks is the largest number of partial sums over a flat buffer: the blocks that an H100 runs at once.
const sumBlocks = 792

func (d *dev) SumSquares(a device.SumSquares) {
	from, sum, n := d.pointer(a.X), d.pointer(a.Sum), a.X.N
	if n == 0 {
		return
	}
	blocks := min(blocksFor((n+3)/4), sumBlocks)
	partial := d.need(scratchSums, 8*sumBlocks)
	d.start("sum_squares", threads, blocks, 1, 1).ptr(partial, from).long(headOf(n, from), n)
	d.start("add_partials", threads, 1, 1, 1).ptr(sum, partial).int(blocks)
}

func (d *dev) ClipCoefficient(a device.ClipCoefficient) {
	d.start("clip_coefficient", 32, 1, 1, 1).of(a.Coefficient, a.Norm, a.SumSquares).float(a.Most)
}

func (d *dev) Adam(a device.Adam) {
	n := a.P.N
	p, g := d.pointer(a.P), d.pointer(a.G)
	m, v := d.pointer(a.M), d.pointer(a.V)
	copy := d.copyOfParameters(p, n)
	d.adam(a, copy, p, m, v, g, n, n, n)
	d.fresh(copy, p, n)
}

// copyOfParameters is copyFor for parameters that products have read; no product uses copies of others.
func (d *dev) copyOfParameters(p driver.Ptr, n int) driver.Ptr {
	if d.bf16.find(p) == nil {
		return 0
	}
	return d.copyFor(p, n)
}

// adam updates rows of the given width with a stride of ld.
func (d *dev) adam(a device.Adam, copy, p, m, v, g driver.Ptr, n, width, ld int) {
	hyper, clip := d.pointer(a.Hyper), d.pointer(a.Clip)
	if n == 0 {
		return
	}
	head := headOf(n, p, m, v, g, 2*copy)
	if width < n && (head|width|ld)&3 != 0 {
		head = n // one by one
	}
	d.launchVec4("adam", head, n).ptr(copy, p, m, v, g, hyper, clip).
		float(a.Beta1, 1-a.Beta1, a.Beta2, 1-a.Beta2, a.Eps).flag(a.Legacy).long(head, n, width, ld)
}

// Rows of a block of product_adam, and its columns at a time (optimiser_sm80.cu).
const (
	adamRows    = 128
	adamColumns = 32
)

func (d *dev) AdamFactored(of device.AdamFactored) {
	a, f := of.Adam, of.Factored
	n := f.O * f.I
	dy, x := d.pointer(f.DY), d.pointer(f.X)
	p, m, v := d.pointer(a.P), d.pointer(a.M), d.pointer(a.V)
	if n == 0 {
		return
	}
	copy := d.copyOfParameters(p, n)
	if d.productAdam(&a, &f, copy, p, m, v, dy, x) {
		d.fresh(copy, p, n)
		return
	}
	width := min(f.I, max(64, d.limits.PanelFloats/f.O/64*64))
	grad := d.need(scratchPanel, 4*f.O*width)
	for from := 0; from < f.I; from += width {
		w := min(width, f.I-from)
		d.multiply(&product{transA: true, m: f.O, n: w, k: f.N, alpha: 1, a: dy, lda: f.O, b: at(x, from), ldb: f.I,
			c: grad, ldc: w})
		to := copy
		if copy != 0 {
			to += driver.Ptr(2 * from)
		}
		d.adam(a, to, at(p, from), at(m, from), at(v, from), grad, f.O*w, w, f.I)
	}
	d.fresh(copy, p, n)
}

// productAdam computes the gradient and Adam in one kernel if the product reads bfloat16 on tensor cores and rows are a
// multiple of four values. It reports whether it did.
func (d *dev) productAdam(a *device.Adam, f *device.Factored, copy, p, m, v, dy, x driver.Ptr) bool {
	if d.tensor != tensorBF16 || f.O%4 != 0 || f.I%4 != 0 || headOf(f.O*f.I, p, m, v, 2*copy) != 0 {
		return false
	}
	g := product{transA: true, m: f.O, n: f.I, k: f.N, a: dy, lda: f.O, b: x, ldb: f.I, count: 1}
	if !d.halve(&g) || (g.a|g.b)%8 != 0 {
		return false
	}
	rows := (f.O + adamRows - 1) / adamRows
	columns := min((f.I+adamColumns-1)/adamColumns, max(1, 2*d.info.Multiprocessors/rows))
	d.start("product_adam", threads, rows, columns, 1).
		ptr(copy, p, m, v, g.a, g.b, d.pointer(a.Hyper), d.pointer(a.Clip)).
		float(a.Beta1, 1-a.Beta1, a.Beta2, 1-a.Beta2, a.Eps).flag(a.Legacy).int(f.N, f.O, f.I)
	return true
}

func (d *dev) SumSquaresFactored(a device.SumSquaresFactored) {
	f := a.Factored
	dy, x := d.pointer(f.DY), d.pointer(f.X)
	sum := d.pointer(a.Sum)
	n := f.N * f.N
	if n == 0 {
		return
	}
	partial := d.need(scratchSums, 8*sumBlocks)
	blocks := d.grams(&f, partial, dy, x)
	if blocks == 0 {
		ofY := d.need(scratchPanel, 4*2*n)
		ofX := at(ofY, n)
		d.multiply(&product{transB: true, m: f.N, n: f.N, k: f.O, alpha: 1, a: dy, lda: f.O, b: dy, ldb: f.O, c: ofY,
			ldc: f.N})
		d.multiply(&product{transB: true, m: f.N, n: f.N, k: f.I, alpha: 1, a: x, lda: f.I, b: x, ldb: f.I, c: ofX,
			ldc: f.N})
		blocks = min(blocksFor(n), sumBlocks)
		d.start("dot_partials", threads, blocks, 1, 1).ptr(partial, ofY, ofX).long(n)
	}
	d.start("add_partials", threads, 1, 1, 1).ptr(sum, partial).int(blocks)
}

// The Gram matrices of gram_sm80.cu: the most rows of the factors; the warps of a block, each of which computes a tile;
// the cells of all tiles, and of a block of gram_dot; the slices of the columns, fewer than the multiprocessors of a
// large GPU although each factor may have an incomplete one.
const (
	gramRows   = 128
	gramWarps  = 6
	gramCells  = gramWarps * 2048
	gramBlock  = 64
	gramSlices = 130
)

// grams computes the Gram matrices of the factors and the partial sums of their products on tensor cores, if the
// product of x reads bfloat16 and rows are a multiple of eight values. It returns the number of sums, or 0 if it did
// nothing.
func (d *dev) grams(f *device.Factored, partial, dy, x driver.Ptr) int {
	if d.tensor != tensorBF16 || f.N > gramRows || f.O%8 != 0 || f.I%8 != 0 {
		return 0
	}
	g := product{transB: true, m: f.N, n: f.N, k: f.I, a: x, lda: f.I, b: x, ldb: f.I, count: 1}
	if !d.halve(&g) {
		return 0
	}
	y, ok := d.rounded(dy, f.N*f.O)
	if !ok || (g.a|y)%16 != 0 {
		return 0
	}
	depth := ((f.O+f.I+gramSlices-1)/gramSlices + 31) / 32 * 32
	ofX, ofY := (f.I+depth-1)/depth, (f.O+depth-1)/depth
	parts := d.need(scratchPanel, 4*gramCells*(ofX+ofY))
	d.start("gram_parts", 32*gramWarps, ofX+ofY, 1, 1).ptr(parts, g.a, y).int(f.N, f.I, f.O, depth)
	d.start("gram_dot", threads, gramCells/gramBlock, 1, 1).ptr(partial, parts).int(ofX, ofY)
	return gramCells / gramBlock
}
