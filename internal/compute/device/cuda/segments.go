package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

var (
	kernelSegmentMeans     = entryOf("segment_means")
	kernelSegmentMeansGrad = entryOf("segment_means_grad")
	kernelUnpackWords      = entryOf("unpack_words")
	kernelGatedPool        = entryOf("gated_pool")
	kernelGatedPoolGrad    = entryOf("gated_pool_grad")
)

// SegmentMeans computes that kernel.
func (d *dev) SegmentMeans(dst, x device.View, counts device.Ints, width int) {
	l := d.layout(counts)
	n := l.captions * width
	to, from := d.pointer(dst), d.pointer(x)
	if n > 0 {
		d.each(kernelSegmentMeans, n).ptr(to, from, l.first).int(width).long(n)
	}
}

// SegmentMeansGrad computes that kernel.
func (d *dev) SegmentMeansGrad(dx, ddst device.View, counts device.Ints, width int) {
	l := d.layout(counts)
	to, from := d.pointer(dx), d.pointer(ddst)
	if l.words > 0 {
		d.warps(kernelSegmentMeansGrad, l.words).ptr(to, from, l.first, l.wordCaption).int(width).long(l.words)
	}
}

// UnpackWords computes that kernel.
func (d *dev) UnpackWords(dst, src device.View, lengths device.Ints, width int, back bool) {
	l := d.layout(lengths)
	_, starts := d.starts(lengths)
	to, from := d.pointer(dst), d.pointer(src)
	if l.words > 0 {
		d.warps(kernelUnpackWords, l.words).ptr(to, from, starts, l.first,
			l.wordCaption).int(width).flag(back).long(l.words)
	}
}

// gatedViews are the views of both directions of the gated pooling.
type gatedViews struct {
	pairLayout
	l, x, g, w, weights driver.Ptr
}

func (d *dev) gatedViews(a device.GatedPool) (v gatedViews) {
	v.pairLayout = d.layout(a.Counts)
	v.l, v.x = d.pointer(a.L), d.pointer(a.X)
	v.g, v.w, v.weights = d.pointer(a.G), d.pointer(a.W), d.pointer(a.Weights)
	return v
}

// pooled begins the call of a kernel of gated pooling: a block for each item, as wide as its rows.
func (d *dev) pooled(k kernel, items, width int) *command {
	return d.start(k, min(512, (width+31)&^31), items, 1, 1)
}

// GatedPool computes that kernel.
func (d *dev) GatedPool(a device.GatedPool) {
	v := d.gatedViews(a)
	out := d.pointer(a.Out)
	if v.captions > 0 {
		d.pooled(kernelGatedPool, v.captions, a.D).ptr(out, v.weights, v.l, v.g, v.w, v.x, v.first).int(a.D)
	}
}

// GatedPoolGrad computes that kernel.
func (d *dev) GatedPoolGrad(a device.GatedPool) {
	v := d.gatedViews(a)
	dl, dg := d.pointer(a.DL), d.pointer(a.DG)
	dx, dw := d.pointer(a.DX), d.pointer(a.DW)
	dOut := d.pointer(a.DOut)
	dots := d.need(scratchSums, 4*max(1, v.words))
	if v.captions > 0 {
		d.pooled(kernelGatedPoolGrad, v.captions, a.D).ptr(dl, dg, dx, dw, dots, v.l, v.g, v.w, v.x, v.weights, dOut,
			v.first).int(a.D)
		v.clear(d, dl, a.D)
		v.clear(d, dx, a.D)
	}
}
