package cuda

import (
	"fmt"

	"vsetrain/internal/device"
)

var kernelDropout = entryOf("dropout")

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
