package cuda

import "vsetrain/internal/compute/device"

func (d *dev) Multiply(a device.Multiply) {
	c, head := d.vectors("multiply", a.Dst, a.A, a.B)
	c.long(head, a.Dst.N)
}

func (d *dev) Map(a device.Map) {
	c, head := d.vectors("map_values", a.Y, a.X)
	c.int(int(a.F)).float(a.C).long(head, a.X.N)
}

func (d *dev) MapGrad(a device.Map) {
	c, head := d.vectors("map_grad", a.DX, a.X, a.Y, a.DY)
	c.int(int(a.F)).float(a.C).long(head, a.X.N)
}

// segmentPiece is the number of rows of a segment that a block adds up, more than a caption has words.
const segmentPiece = 512

func (d *dev) Reduce(a device.Reduce) {
	if a.Grad {
		d.spread(a)
		return
	}
	if !a.Segmented() {
		lanes := 32
		if a.D <= 64 {
			lanes = 8
		}
		d.warps("reduce_rows", (a.N*lanes+31)/32).of(a.Y, a.Index, a.X).int(a.D).long(a.N)
		return
	}
	l := d.layout(a.Counts)
	n, pieces, per := l.captions*a.D, 1, l.longest
	if !a.Max && l.longest > segmentPiece {
		pieces, per = (l.longest+segmentPiece-1)/segmentPiece, segmentPiece
	}
	y := d.pointer(a.Y)
	to := y
	if pieces > 1 {
		to = d.need(scratchPanel, 4*pieces*n)
	}
	d.start("reduce_segments", threads, (n+31)/32, pieces, 1).ptr(to, d.pointer(a.Index), d.pointer(a.X), l.first).
		int(a.D, per).long(l.words, n)
	if pieces > 1 {
		d.columnTotal(y, 0, to, pieces, n, n, n)
	}
}

func (d *dev) spread(a device.Reduce) {
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
