package devicetest

import (
	"math"

	"vsetrain/internal/compute/device"
)

// differences says how equalDifferences compares: along how many random directions, and which norm a gradient has at
// least in the bound.
type differences struct {
	directions int
	floor      float64
}

var usual = differences{directions: 3, floor: 1e-2}

// equalDifferences compares a gradient g of loss by value, both of n elements, with central differences in float64
// along random directions u of n standard normal draws each: g·u must be (loss(value + εu) - loss(value - εu)) / 2ε, ε
// = 1e-5, within tol.deriv (‖g‖ + floor). loss reads value, which is moved for each call and then put back.
func (h *harness) equalDifferences(what string, value []float64, grad device.View, by differences,
	loss func() float64) {
	h.t.Helper()
	got := h.read(grad)
	if h.record != nil {
		*h.record = append(*h.record, got...)
	}
	if h.short {
		return
	}
	const step = 1e-5
	saved, direction := append([]float64(nil), value...), make([]float64, len(value))
	for range by.directions {
		for i := range direction {
			direction[i] = h.rng.Norm()
		}
		along := func(s float64) float64 {
			for i := range saved {
				value[i] = saved[i] + s*direction[i]
			}
			return loss()
		}
		want := (along(step) - along(-step)) / (2 * step)
		copy(value, saved)
		var slope, size float64
		for i := range direction {
			slope += got[i] * direction[i]
			size += got[i] * got[i]
		}
		limit := h.tol.deriv * (math.Sqrt(size) + by.floor)
		if !(math.Abs(slope-want) <= limit) {
			h.errorf("%s along a random direction is %.9g, want %.9g (allowed %.2g)", what, slope, want, limit)
		}
		h.observe([]float64{slope}, []float64{want}, limit)
	}
}
