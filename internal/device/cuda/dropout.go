package cuda

import (
	"fmt"

	"vsetrain/internal/device"
)

var (
	kernelDropout       = entryOf("dropout")
	kernelDropoutPadded = entryOf("dropout_padded")
)

// Dropout implements device.Random.
func (d *dev) Dropout(a device.DropoutArgs) {
	if !(a.Rate >= 0 && a.Rate < 1) || a.First < 0 {
		panic(fmt.Sprintf("cuda: Dropout: rate %v from element %d, expected a rate in [0, 1) and no negative element", a.Rate, a.First))
	}
	step := d.ints("Dropout Step", a.Step.View, 2)
	y, x := d.floats("Dropout Y", a.Y, -1), d.exactly("Dropout X", a.X, a.Y.N)
	if n := a.Y.N; n > 0 {
		d.each(kernelDropout, n/4+2).ptr(y, x, step).word(a.Key.K0, a.Key.K1, uint32(a.Rate*(1<<32))).float(1/(1-a.Rate)).long(a.First, n)
	}
}

// DropoutPadded implements device.Recorder.
func (d *dev) DropoutPadded(a device.DropoutArgs, lengths device.Ints, width, step int) {
	positive("DropoutPadded", width, len(lengths.Host))
	if !(a.Rate >= 0 && a.Rate < 1) || step < 0 || a.Y.N%(width*len(lengths.Host)) != 0 {
		panic(fmt.Sprintf("cuda: DropoutPadded: rate %v from step %d, %d values in rows of %d of %d sequences", a.Rate, step, a.Y.N, width, len(lengths.Host)))
	}
	on, starts := d.starts("DropoutPadded", lengths)
	counter := d.ints("DropoutPadded Step", a.Step.View, 2)
	y, x := d.floats("DropoutPadded Y", a.Y, -1), d.exactly("DropoutPadded X", a.X, a.Y.N)
	if a.Y.N > 0 {
		d.each(kernelDropoutPadded, a.Y.N).ptr(y, x, counter, on, starts).word(a.Key.K0, a.Key.K1, uint32(a.Rate*(1<<32))).float(1/(1-a.Rate)).
			int(len(lengths.Host), step, width).long(a.Y.N)
	}
}
