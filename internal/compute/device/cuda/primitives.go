package cuda

import "vsetrain/internal/compute/device"

func (d *dev) Multiply(a device.Multiply) {
	d.each("multiply", a.Dst.N).of(a.Dst, a.A, a.B).long(a.Dst.N)
}

func (d *dev) Map(a device.Map) {
	d.each("map_values", a.X.N).of(a.Y, a.X).int(int(a.F)).float(a.C).long(a.X.N)
}

func (d *dev) MapGrad(a device.Map) {
	d.each("map_grad", a.X.N).of(a.DX, a.X, a.Y, a.DY).int(int(a.F)).float(a.C).long(a.X.N)
}

func (d *dev) Reduce(a device.Reduce) {
	if !a.Segmented() {
		d.warps("reduce_rows", a.N).of(a.Y, a.Index, a.X).int(a.D).long(a.N)
		return
	}
	l := d.layout(a.Counts)
	n := l.captions * a.D
	d.each("reduce_segments", n).of(a.Y, a.Index, a.X).ptr(l.first).int(a.D).long(n)
}

func (d *dev) ReduceGrad(a device.Reduce) {
	if n := a.N * a.D; !a.Segmented() {
		d.each("spread_rows", n).of(a.X, a.Y, a.Index).int(a.D).long(n)
		return
	}
	l := d.layout(a.Counts)
	n := l.words * a.D
	d.each("spread_segments", n).of(a.X, a.Y, a.Index).ptr(l.first, l.wordCaption).int(a.D).long(n)
}

func (d *dev) SegmentProducts(a device.SegmentProducts) {
	l := d.layout(a.Counts)
	switch n := l.words * a.D; a.Form {
	case device.SegmentGram:
		d.warps("segment_gram", l.words).of(a.G, a.A, a.B).ptr(l.first, l.wordCaption).int(a.D, a.Longest).long(l.words)
	case device.SegmentApply, device.SegmentApplyT:
		d.each("segment_apply", n).of(a.B, a.A, a.G).ptr(l.first, l.wordCaption).flag(a.Form == device.SegmentApplyT).
			int(a.D, a.Longest).long(n)
	}
}
