package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// lossViews are the views of a loss over n anchors: side 0 has the rows (captions of an image), side 1 the columns.
type lossViews struct {
	n                  int
	scores, grad, loss driver.Ptr
	hard, cost         [2]driver.Ptr
	// double [2, 3, n]: for each side the losses of the anchors, their shares in the gradient of the diagonal, and the
	// hardest negatives with a gradient
	parts driver.Ptr
}

func (d *dev) lossViews(n int, scores device.View, out device.LossOut) lossViews {
	return lossViews{n: n, scores: d.pointer(scores), grad: d.pointer(out.Grad), loss: d.pointer(out.Loss),
		hard: [2]driver.Ptr{d.pointer(out.HardCaption), d.pointer(out.HardImage)},
		cost: [2]driver.Ptr{d.pointer(out.CostCaption), d.pointer(out.CostImage)}, parts: d.need(scratchSums, 8*6*n)}
}

// part returns the addresses of the losses and of the shares of a side.
func (l *lossViews) part(side int) (loss, share driver.Ptr) {
	p := l.parts + driver.Ptr(8*3*side*l.n)
	return p, p + driver.Ptr(8*l.n)
}

func (d *dev) finish(l *lossViews, scale float64, hard bool) {
	d.start("loss_finish", threads, 1, 1, 1).ptr(l.loss, l.grad, l.parts).int(l.n).float(scale).flag(hard)
}

func (d *dev) Hinge(a device.Hinge) {
	l := d.lossViews(a.N, a.Scores, a.LossOut)
	margins := d.pointer(a.Margins)
	c := d.rows("hinge_sides", a.N, a.N)
	c.launch.Grid[1] = 2
	c.ptr(l.grad, l.parts, l.hard[0], l.hard[1], l.cost[0], l.cost[1], l.scores, margins).float(a.Margin).int(a.N).
		flag(a.Max)
	d.finish(&l, 1, a.Max)
}

func (d *dev) UniversalWeighting(a device.UniversalWeighting) {
	l := d.lossViews(a.N, a.Scores, a.LossOut)
	p, n := a.Positive, a.Negative
	for side := range 2 {
		loss, share := l.part(side)
		d.rows("universal_side", a.N, a.N).ptr(l.grad, loss, share, l.hard[side], l.cost[side], l.scores).
			float(a.Margin, p[0], p[1], p[2], n[0], n[1], n[2]).int(a.N, side)
	}
	d.finish(&l, 1/float64(a.N), false)
}

func (d *dev) SemanticMargins(a device.SemanticMargins) {
	var ids [2]device.View
	if a.ZeroSameImage {
		ids = [2]device.View{a.Images, a.Captions}
	}
	d.rows("semantic_margins", a.N, a.N).of(a.Margins, a.Gram, ids[0], ids[1]).float(a.Alpha, a.Lambda).int(a.N).
		flag(a.Cosine)
}
