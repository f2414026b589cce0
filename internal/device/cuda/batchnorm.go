package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelBatchNorm     = entryOf("batch_norm")
	kernelBatchNormGrad = entryOf("batch_norm_grad")
)

// normViews are what both kernels of batch normalisation read.
func (d *dev) normViews(a device.BatchNormArgs) (x, w, mean, inv, pad, counts driver.Ptr) {
	if a.Counts.Bounded {
		counts = d.pointer(a.Counts.View)
	}
	x, w = d.pointer(a.X), d.pointer(a.Weight)
	mean, inv = d.pointer(a.Mean), d.pointer(a.InvStd)
	if a.Pads > 0 || a.Counts.Bounded && a.Pad.Present() {
		pad = d.pointer(a.Pad)
	}
	return x, w, mean, inv, pad, counts
}

// channels begins a kernel over channels: 32 to a block where rows are dense, one otherwise.
func (d *dev) channels(k kernel, a device.BatchNormArgs) *command {
	if a.Inner == 1 {
		return d.start(k, threads, (a.C+31)/32, 1, 1)
	}
	return d.rows(k, a.C, a.Outer*a.Inner)
}

// BatchNorm implements device.Normalisation.
func (d *dev) BatchNorm(a device.BatchNormArgs) {
	a.Views(d.check("BatchNorm"))
	x, w, mean, inv, pad, counts := d.normViews(a)
	y, b := d.pointer(a.Y), d.pointer(a.Bias)
	rm, rv := d.pointer(a.RunningMean), d.pointer(a.RunningVar)
	d.channels(kernelBatchNorm, a).ptr(y, mean, inv, rm, rv, x, w, b, pad, counts).int(len(a.Counts.Host),
		a.Outer*a.Inner, a.C, a.Inner, a.Pads).flag(a.Train).float(a.Eps, a.Momentum)
}

// BatchNormGrad implements device.Normalisation.
func (d *dev) BatchNormGrad(a device.BatchNormArgs) {
	a.Views(d.check("BatchNormGrad"))
	x, w, mean, inv, pad, counts := d.normViews(a)
	dy, dx := d.pointer(a.DY), d.pointer(a.DX)
	dw, db, dpad := d.pointer(a.DWeight), d.pointer(a.DBias), d.pointer(a.DPad)
	d.channels(kernelBatchNormGrad, a).ptr(dx, dw, db, dpad, x, w, mean, inv, dy, pad, counts).int(len(a.Counts.Host),
		a.Outer*a.Inner, a.C, a.Inner, a.Pads).flag(a.Train)
}
