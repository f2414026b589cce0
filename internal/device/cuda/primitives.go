package cuda

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelMultiply       = entryOf("multiply")
	kernelMap            = entryOf("map_values")
	kernelMapGrad        = entryOf("map_grad")
	kernelReduceRows     = entryOf("reduce_rows")
	kernelSpreadRows     = entryOf("spread_rows")
	kernelReduceSegments = entryOf("reduce_segments")
	kernelSpreadSegments = entryOf("spread_segments")
	kernelSegmentGram    = entryOf("segment_gram")
	kernelSegmentApply   = entryOf("segment_apply")
)

// Multiply implements device.Primitives.
func (d *dev) Multiply(dst, a, b device.View) {
	y, x, z := d.floats("Multiply dst", dst, -1), d.exactly("Multiply a", a, dst.N), d.exactly("Multiply b", b, dst.N)
	if dst.N > 0 {
		d.each(kernelMultiply, dst.N).ptr(y, x, z).long(dst.N)
	}
}

// Map implements device.Primitives.
func (d *dev) Map(a device.MapArgs) {
	x, y := d.mapViews("Map", a)
	if a.X.N > 0 {
		d.each(kernelMap, a.X.N).ptr(y, x).int(int(a.F)).float(a.C).long(a.X.N)
	}
}

// MapGrad implements device.Primitives.
func (d *dev) MapGrad(a device.MapArgs) {
	x, y := d.mapViews("MapGrad", a)
	dy, dx := d.exactly("MapGrad", a.DY, a.X.N), d.exactly("MapGrad", a.DX, a.X.N)
	if a.X.N > 0 {
		d.each(kernelMapGrad, a.X.N).ptr(dx, x, y, dy).int(int(a.F)).float(a.C).long(a.X.N)
	}
}

func (d *dev) mapViews(what string, a device.MapArgs) (x, y driver.Ptr) {
	if !a.F.Valid() {
		panic(fmt.Sprintf("cuda: %s: unknown function %d", what, a.F))
	}
	return d.floats(what, a.X, -1), d.exactly(what, a.Y, a.X.N)
}

// Reduce implements device.Primitives.
func (d *dev) Reduce(a device.ReduceArgs) {
	const what = "Reduce"
	positive(what, a.D)
	if !a.Segmented() {
		x, y, index := d.reduceViews(what, a, a.N, a.N)
		if a.N > 0 {
			d.warps(kernelReduceRows, a.N).ptr(y, index, x).int(a.D).long(a.N)
		}
		return
	}
	l := d.segments(what, a.Counts, a.D)
	n := l.captions * a.D
	x, y, index := d.reduceViews(what, a, l.words, n)
	if n > 0 {
		d.each(kernelReduceSegments, n).ptr(y, index, x, l.first).int(a.D).long(n)
	}
}

// Spread implements device.Primitives.
func (d *dev) Spread(a device.ReduceArgs) {
	const what = "Spread"
	positive(what, a.D)
	if !a.Segmented() {
		x, y, index := d.reduceViews(what, a, a.N, a.N)
		if a.N > 0 {
			d.each(kernelSpreadRows, a.N*a.D).ptr(x, y, index).int(a.D).long(a.N * a.D)
		}
		return
	}
	l := d.segments(what, a.Counts, a.D)
	n := l.words * a.D
	x, y, index := d.reduceViews(what, a, l.words, l.captions*a.D)
	if n > 0 {
		d.each(kernelSpreadSegments, n).ptr(x, y, index, l.first, l.wordCaption).int(a.D).long(n)
	}
}

// reduceViews are the views of a reduction of rows to results; index is 0 without Max.
func (d *dev) reduceViews(what string, a device.ReduceArgs, rows, results int) (x, y, index driver.Ptr) {
	x, y = d.floats(what, a.X, rows*a.D), d.floats(what, a.Y, results)
	if a.Max {
		index = d.ints(what, a.Index, results)
	}
	return x, y, index
}

// SegmentProducts implements device.Primitives.
func (d *dev) SegmentProducts(a device.SegmentProductsArgs) {
	const what = "SegmentProducts"
	positive(what, a.D, a.Longest)
	l := d.segments(what, a.Counts, a.D)
	if l.longest > a.Longest {
		panic(fmt.Sprintf("cuda: %s: a segment has %d rows, expected at most %d", what, l.longest, a.Longest))
	}
	x, y := d.floats(what, a.A, l.words*a.D), d.floats(what, a.B, l.words*a.D)
	g := d.floats(what, a.G, l.words*a.Longest)
	if l.words == 0 {
		return
	}
	switch n := l.words * a.D; a.Form {
	case device.SegmentGram:
		d.warps(kernelSegmentGram, l.words).ptr(g, x, y, l.first, l.wordCaption).int(a.D, a.Longest).long(l.words)
	case device.SegmentApply, device.SegmentApplyT:
		d.each(kernelSegmentApply, n).ptr(y, x, g, l.first, l.wordCaption).flag(a.Form == device.SegmentApplyT).int(a.D, a.Longest).long(n)
	default:
		panic(fmt.Sprintf("cuda: %s: unknown form %d", what, a.Form))
	}
}
