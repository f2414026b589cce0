package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

var (
	kernelCrossEntropy     = entryOf("cross_entropy")
	kernelCrossEntropyGrad = entryOf("cross_entropy_grad")
	kernelSumLosses        = entryOf("sum_losses")
)

// classes lists label and mask of every packed row.
func (d *dev) classes(what string, a *device.CrossEntropy) (labels, mask driver.Ptr, rows int) {
	labels = d.words(what, a.Labels, a.Lengths, a.L, a.V, 1)
	mask = d.words(what, a.Mask, a.Lengths, a.L, 0, 1)
	return labels, mask, d.pack.Rows()
}

// CrossEntropy computes that kernel.
func (d *dev) CrossEntropy(a device.CrossEntropy) {
	labels, mask, rows := d.classes("CrossEntropy", &a)
	logits, norm := d.pointer(a.Logits), d.pointer(a.Norm)
	loss := d.pointer(a.Loss)
	losses := d.need(scratchSums, 8*max(1, rows))
	if rows > 0 {
		d.rows(kernelCrossEntropy, rows, a.V).ptr(losses, norm, logits, labels, mask).int(a.V).float(a.Scale)
	}
	d.start(kernelSumLosses, threads, 1, 1, 1).ptr(loss, losses).int(rows)
}

// CrossEntropyGrad computes that kernel.
func (d *dev) CrossEntropyGrad(a device.CrossEntropy) {
	labels, mask, rows := d.classes("CrossEntropyGrad", &a)
	logits, norm := d.pointer(a.Logits), d.pointer(a.Norm)
	dLoss, dLogits := d.pointer(a.DLoss), d.pointer(a.DLogits)
	if rows > 0 {
		d.rows(kernelCrossEntropyGrad, rows, a.V).ptr(dLogits, logits, norm, dLoss, labels,
			mask).int(a.V).float(a.Scale)
	}
}
