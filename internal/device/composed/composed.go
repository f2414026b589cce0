// Package composed makes a whole device of one that has the core alone (device.Core): it writes every other kernel of
// device.Device in terms of the core's. Networks then train on a new device before a single fused kernel exists, and a
// fused kernel has a form to be measured against.
//
// The comments of the argument structs in internal/device define the kernels; the code here follows them from top to
// bottom. What is no arithmetic is done by the host: index lists, masks, the order of sorted values, the geometry of
// boxes. Kernels of this package therefore wait for the device where they read from it, and cannot be recorded
// (device.Recorder).
//
// Intermediate values lie in memory that a kernel takes at its beginning and gives back at its end (scratch.go), so
// that a kernel which has run once with some sizes allocates nothing when it runs again.
package composed

import "vsetrain/internal/device"

// Device is a whole device: the core, and for each family of kernels what the core's device has itself or what is
// composed here.
type Device struct {
	device.Core

	device.Rows
	device.Orders
	device.Normalisation
	device.Pooling
	device.Recurrent
	device.Cells
	device.Attention
	device.Matching
	device.Pairs
	device.Segments
	device.Transformer
	device.Layouts
	device.Losses
	device.Likelihood
	device.Factoring

	scratch scratch
	checker device.Checker
}

// Over returns a whole device over a core. A device that has every family is returned as it is; a family that the
// core's device has is used, and the others are composed.
func Over(core device.Core) device.Device {
	if d, ok := core.(device.Device); ok {
		return d
	}
	d := &Device{Core: core}
	d.scratch.core = core
	d.checker = device.Checker{Device: core.Name(), Memory: sizes{}}
	d.Rows = fused[device.Rows](core, rows{d})
	d.Orders = fused[device.Orders](core, orders{d})
	d.Normalisation = fused[device.Normalisation](core, normalisation{d})
	d.Pooling = fused[device.Pooling](core, pooling{d})
	d.Recurrent = fused[device.Recurrent](core, recurrent{d})
	d.Cells = fused[device.Cells](core, cells{d})
	d.Attention = fused[device.Attention](core, attention{d})
	d.Matching = fused[device.Matching](core, matching{d})
	d.Pairs = fused[device.Pairs](core, pairs{d})
	d.Segments = fused[device.Segments](core, segments{d})
	d.Transformer = fused[device.Transformer](core, transformer{d})
	d.Layouts = fused[device.Layouts](core, layouts{d})
	d.Losses = fused[device.Losses](core, losses{d})
	d.Likelihood = fused[device.Likelihood](core, likelihood{d})
	d.Factoring = fused[device.Factoring](core, factoring{d})
	return d
}

// fused returns the family of the device itself, where it has it.
func fused[Family any](core device.Core, composed Family) Family {
	if own, ok := core.(Family); ok {
		return own
	}
	return composed
}

// sizes is a device.Inspector that looks at type and size alone: whose memory it is the core's kernels see.
type sizes struct{}

// Inspect implements device.Inspector.
func (sizes) Inspect(b device.Buffer) (t device.DType, n int, fault string) {
	return b.DType(), b.Len(), ""
}

// check begins the check of the views of a call, which cuts them to what the kernel works on: a.Views(d.check("GRU")).
func (d *Device) check(kernel string) *device.Checker {
	d.checker.Kernel = kernel
	return &d.checker
}

// Sync implements device.Core; it also returns what no memory was found for.
func (d *Device) Sync() error {
	if err := d.Core.Sync(); err != nil {
		return err
	}
	return d.scratch.lacked
}

// Lacked implements device.Scratch.
func (d *Device) Lacked() error {
	err := d.scratch.lacked
	d.scratch.lacked = nil
	return err
}

// Warnings implements device.Warner with those of the core's device.
func (d *Device) Warnings() []string {
	if w, ok := d.Core.(device.Warner); ok {
		return w.Warnings()
	}
	return nil
}

// Share implements device.Sharer where the core's device does. Other optional interfaces are not handed on: what
// records kernels, or copies beside them, has to know all of them.
func (d *Device) Share(old device.View, host []float32) (device.View, bool) {
	if s, ok := d.Core.(device.Sharer); ok {
		return s.Share(old, host)
	}
	return device.View{}, false
}

// Close releases the intermediate values and closes the core.
func (d *Device) Close() error {
	d.scratch.release()
	return d.Core.Close()
}
