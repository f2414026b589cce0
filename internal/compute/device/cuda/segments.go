package cuda

import "vsetrain/internal/compute/device"

func (d *dev) SegmentMeans(a device.SegmentMeans) {
	l := d.layout(a.Counts)
	n := l.captions * a.D
	d.each("segment_means", n).of(a.Means, a.Rows).ptr(l.first).int(a.D).long(n)
}

func (d *dev) SegmentMeansGrad(a device.SegmentMeans) {
	l := d.layout(a.Counts)
	d.warps("segment_means_grad", l.words).of(a.Rows, a.Means).ptr(l.first, l.wordCaption).int(a.D).long(l.words)
}

func (d *dev) UnpackWords(a device.UnpackWords) {
	l := d.layout(a.Lengths)
	_, starts := d.starts(a.Lengths)
	d.warps("unpack_words", l.words).of(a.Dst, a.Src).ptr(starts, l.first, l.wordCaption).int(a.D).flag(a.Back).
		long(l.words)
}

// pooled begins the call of a kernel of gated pooling, with a block for each item, as wide as its rows.
func (d *dev) pooled(k string, items, width int) *command {
	return d.start(k, min(512, (width+31)&^31), items, 1, 1)
}

func (d *dev) GatedPool(a device.GatedPool) {
	l := d.layout(a.Counts)
	d.pooled("gated_pool", l.captions, a.D).of(a.Out, a.Weights, a.L, a.G, a.W, a.X).ptr(l.first).int(a.D)
}

func (d *dev) GatedPoolGrad(a device.GatedPool) {
	l := d.layout(a.Counts)
	dots := d.need(scratchSums, 4*max(1, l.words))
	if l.captions > 0 {
		d.pooled("gated_pool_grad", l.captions, a.D).of(a.DL, a.DG, a.DX, a.DW).ptr(dots).
			of(a.L, a.G, a.W, a.X, a.Weights, a.DOut).ptr(l.first).int(a.D)
		l.clear(d, d.pointer(a.DL), a.D)
		l.clear(d, d.pointer(a.DX), a.D)
	}
}
