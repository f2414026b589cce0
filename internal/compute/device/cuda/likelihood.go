package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// classes lists label and mask of every packed row.
func (d *dev) classes(what string, a *device.CrossEntropy) (labels, mask driver.Ptr, rows int) {
	labels = d.words(what, a.Labels, a.Lengths, a.L, a.V, 1)
	mask = d.words(what, a.Mask, a.Lengths, a.L, 0, 1)
	return labels, mask, d.pack.Rows()
}

func (d *dev) CrossEntropy(a device.CrossEntropy) {
	labels, mask, rows := d.classes("CrossEntropy", &a)
	losses := d.need(scratchSums, 8*max(1, rows))
	d.rows("cross_entropy", rows, a.V).ptr(losses).of(a.Norm, a.Logits).ptr(labels, mask).int(a.V).float(a.Scale)
	d.start("sum_losses", threads, 1, 1, 1).of(a.Loss).ptr(losses).int(rows)
}

func (d *dev) CrossEntropyGrad(a device.CrossEntropy) {
	labels, mask, rows := d.classes("CrossEntropyGrad", &a)
	d.rows("cross_entropy_grad", rows, a.V).of(a.DLogits, a.Logits, a.Norm, a.DLoss).ptr(labels, mask).int(a.V).
		float(a.Scale)
}
