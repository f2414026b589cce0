package cuda

import (
	"vsetrain/internal/compute/device"
)

var (
	kernelDropout       = entryOf("dropout")
	kernelDropoutPadded = entryOf("dropout_padded")
)

// Dropout computes that kernel.
func (d *dev) Dropout(a device.Dropout) {
	step := d.pointer(a.Step.View)
	y, x := d.pointer(a.Y), d.pointer(a.X)
	if n := a.Y.N; n > 0 {
		d.each(kernelDropout, n/4+2).ptr(y, x, step).word(a.Key.K0, a.Key.K1, uint32(a.Rate*(1<<32))).
			float(1/(1-a.Rate)).flag(inFours(a.First, y, x)).long(a.First, n)
	}
}

// DropoutPadded implements device.Recorder.
func (d *dev) DropoutPadded(a device.Dropout, lengths device.Ints, width, step int) {
	on, starts := d.starts(lengths)
	counter := d.pointer(a.Step.View)
	y, x := d.pointer(a.Y), d.pointer(a.X)
	if a.Y.N > 0 {
		d.each(kernelDropoutPadded, a.Y.N).ptr(y, x, counter, on, starts).word(a.Key.K0, a.Key.K1,
			uint32(a.Rate*(1<<32))).float(1/(1-a.Rate)).
			int(len(lengths.Host), step, width).long(a.Y.N)
	}
}
