package cuda

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelBatchNorm     = entryOf("batch_norm")
	kernelBatchNormGrad = entryOf("batch_norm_grad")
)

// normViews checks what both kernels of batch normalisation read.
func (d *dev) normViews(what string, a device.BatchNormArgs) (x, w, mean, inv, pad, counts driver.Ptr) {
	positive(what, a.C, a.Inner, a.Outer+a.Pads)
	if a.Counts.Loose {
		counts = d.ints(what+" Counts", a.Counts.View, len(a.Counts.Host))
	}
	if a.Outer < 0 || a.Pads < 0 || a.Pads > 0 && a.Inner != 1 {
		panic(fmt.Sprintf("cuda: %s: outer %d, inner %d and %d padding rows", what, a.Outer, a.Inner, a.Pads))
	}
	x, w = d.floats(what, a.X, a.Outer*a.C*a.Inner), d.floats(what, a.Weight, a.C)
	mean, inv = d.floats(what, a.Mean, a.C), d.floats(what, a.InvStd, a.C)
	if a.Pads > 0 || a.Counts.Loose && a.Pad.Present() {
		pad = d.floats(what, a.Pad, a.C)
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

// BatchNorm implements device.BatchNorm.
func (d *dev) BatchNorm(a device.BatchNormArgs) {
	x, w, mean, inv, pad, counts := d.normViews("BatchNorm", a)
	y, b := d.floats("BatchNorm Y", a.Y, a.Outer*a.C*a.Inner), d.floats("BatchNorm Bias", a.Bias, a.C)
	rm, rv := d.floats("BatchNorm RunningMean", a.RunningMean, a.C), d.floats("BatchNorm RunningVar", a.RunningVar, a.C)
	d.channels(kernelBatchNorm, a).ptr(y, mean, inv, rm, rv, x, w, b, pad, counts).int(len(a.Counts.Host), a.Outer*a.Inner, a.C, a.Inner, a.Pads).flag(a.Train).float(a.Eps, a.Momentum)
}

// BatchNormGrad implements device.BatchNorm.
func (d *dev) BatchNormGrad(a device.BatchNormArgs) {
	x, w, mean, inv, pad, counts := d.normViews("BatchNormGrad", a)
	size := a.Outer * a.C * a.Inner
	dy, dx := d.floats("BatchNormGrad DY", a.DY, size), d.optional("BatchNormGrad DX", a.DX, size)
	dw, db, dpad := d.optional("BatchNormGrad DWeight", a.DWeight, a.C), d.optional("BatchNormGrad DBias", a.DBias, a.C), d.optional("BatchNormGrad DPad", a.DPad, a.C)
	d.channels(kernelBatchNormGrad, a).ptr(dx, dw, db, dpad, x, w, mean, inv, dy, pad, counts).int(len(a.Counts.Host), a.Outer*a.Inner, a.C, a.Inner, a.Pads).flag(a.Train)
}
