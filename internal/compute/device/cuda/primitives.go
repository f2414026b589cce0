package cuda

import "vsetrain/internal/compute/device"

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

// Multiply computes that kernel.
func (d *dev) Multiply(dst, a, b device.View) {
	y, x, z := d.pointer(dst), d.pointer(a), d.pointer(b)
	if dst.N > 0 {
		d.each(kernelMultiply, dst.N).ptr(y, x, z).long(dst.N)
	}
}

// Map computes that kernel.
func (d *dev) Map(a device.Map) {
	x, y := d.pointer(a.X), d.pointer(a.Y)
	if a.X.N > 0 {
		d.each(kernelMap, a.X.N).ptr(y, x).int(int(a.F)).float(a.C).long(a.X.N)
	}
}

// MapGrad computes that kernel.
func (d *dev) MapGrad(a device.Map) {
	x, y, dy, dx := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.DY), d.pointer(a.DX)
	if a.X.N > 0 {
		d.each(kernelMapGrad, a.X.N).ptr(dx, x, y, dy).int(int(a.F)).float(a.C).long(a.X.N)
	}
}

// Reduce computes that kernel.
func (d *dev) Reduce(a device.Reduce) {
	if !a.Segmented() {
		x, y, index := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.Index)
		if a.N > 0 {
			d.warps(kernelReduceRows, a.N).ptr(y, index, x).int(a.D).long(a.N)
		}
		return
	}
	l := d.layout(a.Counts)
	n := l.captions * a.D
	x, y, index := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.Index)
	if n > 0 {
		d.each(kernelReduceSegments, n).ptr(y, index, x, l.first).int(a.D).long(n)
	}
}

// Spread computes that kernel.
func (d *dev) Spread(a device.Reduce) {
	if !a.Segmented() {
		x, y, index := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.Index)
		if a.N > 0 {
			d.each(kernelSpreadRows, a.N*a.D).ptr(x, y, index).int(a.D).long(a.N * a.D)
		}
		return
	}
	l := d.layout(a.Counts)
	n := l.words * a.D
	x, y, index := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.Index)
	if n > 0 {
		d.each(kernelSpreadSegments, n).ptr(x, y, index, l.first, l.wordCaption).int(a.D).long(n)
	}
}

// SegmentProducts computes that kernel.
func (d *dev) SegmentProducts(a device.SegmentProducts) {
	l := d.layout(a.Counts)
	x, y := d.pointer(a.A), d.pointer(a.B)
	g := d.pointer(a.G)
	if l.words == 0 {
		return
	}
	switch n := l.words * a.D; a.Form {
	case device.SegmentGram:
		d.warps(kernelSegmentGram, l.words).ptr(g, x, y, l.first, l.wordCaption).int(a.D, a.Longest).long(l.words)
	case device.SegmentApply, device.SegmentApplyT:
		d.each(kernelSegmentApply, n).ptr(y, x, g, l.first, l.wordCaption).flag(a.Form == device.SegmentApplyT).int(a.D,
			a.Longest).long(n)
	}
}
