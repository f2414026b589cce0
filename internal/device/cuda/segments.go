package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelSegmentMeans     = entryOf("segment_means")
	kernelSegmentMeansGrad = entryOf("segment_means_grad")
	kernelUnpackWords      = entryOf("unpack_words")
	kernelGatedPool        = entryOf("gated_pool")
	kernelGatedPoolGrad    = entryOf("gated_pool_grad")
)

// segments is the layout of sets of at least one row; they lie as the words of captions do.
func (d *dev) segments(what string, counts device.Ints, width int) pairLayout {
	positive(what, width)
	return d.layout(what, counts, 1)
}

// SegmentMeans implements device.Segments.
func (d *dev) SegmentMeans(dst, x device.View, counts device.Ints, width int) {
	l := d.segments("SegmentMeans", counts, width)
	n := l.captions * width
	to, from := d.floats("SegmentMeans dst", dst, n), d.floats("SegmentMeans x", x, l.words*width)
	if n > 0 {
		d.each(kernelSegmentMeans, n).ptr(to, from, l.first).int(width).long(n)
	}
}

// SegmentMeansGrad implements device.Segments.
func (d *dev) SegmentMeansGrad(dx, ddst device.View, counts device.Ints, width int) {
	l := d.segments("SegmentMeansGrad", counts, width)
	to, from := d.floats("SegmentMeansGrad dx", dx, l.words*width), d.floats("SegmentMeansGrad ddst", ddst, l.captions*width)
	if l.words > 0 {
		d.warps(kernelSegmentMeansGrad, l.words).ptr(to, from, l.first, l.wordCaption).int(width).long(l.words)
	}
}

// UnpackWords implements device.Segments.
func (d *dev) UnpackWords(dst, src device.View, lengths device.Ints, width int, back bool) {
	l := d.segments("UnpackWords", lengths, width)
	_, starts := d.starts("UnpackWords", lengths)
	to, from := d.floats("UnpackWords dst", dst, l.words*width), d.floats("UnpackWords src", src, l.words*width)
	if l.words > 0 {
		d.warps(kernelUnpackWords, l.words).ptr(to, from, starts, l.first, l.wordCaption).int(width).flag(back).long(l.words)
	}
}

// gatedViews are the views of both directions of the gated pooling.
type gatedViews struct {
	pairLayout
	l, x, g, w, weights driver.Ptr
}

func (d *dev) gatedViews(what string, a device.GatedPoolArgs) (v gatedViews) {
	v.pairLayout = d.segments(what, a.Counts, a.D)
	v.l, v.x = d.floats(what, a.L, v.words*a.D), d.floats(what, a.X, v.words*a.D)
	v.g, v.w, v.weights = d.floats(what, a.G, v.captions*a.D), d.floats(what, a.W, a.D), d.floats(what, a.Weights, v.words)
	return v
}

// GatedPool implements device.Segments.
func (d *dev) GatedPool(a device.GatedPoolArgs) {
	v := d.gatedViews("GatedPool", a)
	out := d.floats("GatedPool Out", a.Out, v.captions*a.D)
	if v.captions > 0 {
		d.rows(kernelGatedPool, v.captions, a.D).ptr(out, v.weights, v.l, v.g, v.w, v.x, v.first).int(a.D)
	}
}

// GatedPoolGrad implements device.Segments.
func (d *dev) GatedPoolGrad(a device.GatedPoolArgs) {
	const what = "GatedPoolGrad"
	v := d.gatedViews(what, a)
	dl, dg := d.floats(what+" DL", a.DL, v.words*a.D), d.floats(what+" DG", a.DG, v.captions*a.D)
	dx, dw := d.floats(what+" DX", a.DX, v.words*a.D), d.floats(what+" DW", a.DW, v.captions*a.D)
	dOut := d.floats(what+" DOut", a.DOut, v.captions*a.D)
	dots := d.need(scratchSums, 4*max(1, v.words))
	if v.captions > 0 {
		d.rows(kernelGatedPoolGrad, v.captions, a.D).ptr(dl, dg, dx, dw, dots, v.l, v.g, v.w, v.x, v.weights, dOut, v.first).int(a.D)
		v.clear(d, dl, a.D)
		v.clear(d, dx, a.D)
	}
}
