package cpu_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
)

// A GRU gives the same bits from weights that the device holds, again and again, and the bits of new weights once it
// holds them no more: states of words and of captions, in both directions and of both at once.
func TestHeldWeights(t *testing.T) {
	for _, o := range []cpu.Options{{Threads: 1}, {Threads: 2}, {Threads: 2, Precision: cpu.BF16}} {
		// The weights are 4.4 MB: they are mapped, and once freed others are mapped in their place.
		d, alloc, a := newBiGRU(t, o, 420)
		wih, whh := 3*a.H*a.I, 3*a.H*a.H
		over := func(weights device.View) {
			for k := range a.Directions {
				w := weights.Slice(k*(wih+whh), (k+1)*(wih+whh))
				a.Directions[k].WIH, a.Directions[k].WHH = w.Slice(0, wih), w.Slice(wih, wih+whh)
			}
		}
		others := alloc(a.X.N) // other words
		device.Do(d, device.Combine{Dst: others, A: a.X, Alpha: -1})
		out := alloc(a.Y.N + len(a.Lengths.Host)*a.H)
		batch := func() (all []float64) {
			read := func(v device.View) {
				x := make([]float64, v.N)
				d.DownloadDoubles(x, v)
				all = append(all, x...)
			}
			device.Do(d, a)
			read(a.Y)
			for k, w := range a.Directions {
				y := out.Slice(0, a.Y.N)
				final := out.Slice(a.Y.N, a.Y.N+len(a.Lengths.Host)*a.H)
				device.Do(d, device.GRU{I: a.I, H: a.H, Lengths: a.Lengths, Reverse: k == 1, X: a.X, Y: y,
					Final: final, GRUDirection: w})
				read(y)
				read(final)
			}
			return all
		}
		run := func() (all []float64) {
			all = batch()
			for range 2 {
				all = append(all, batch()...)
				a.X, others = others, a.X
			}
			return append(all, batch()...)
		}
		same := func(what string, x, y []float64) bool {
			for i := range x {
				if math.Float64bits(x[i]) != math.Float64bits(y[i]) {
					t.Logf("%+v, %s: element %d is %v and %v", o, what, i, x[i], y[i])
					return false
				}
			}
			return true
		}

		weights := alloc(2 * (wih + whh))
		over(weights)
		plain := run()
		d.(device.Freezer).Freeze(weights.Buf)
		for range 2 {
			if !same("held", run(), plain) {
				t.Error("other bits from weights that are held")
			}
		}
		var inputs [2][]float64
		for k, w := range a.Directions {
			inputs[k] = make([]float64, wih)
			d.DownloadDoubles(inputs[k], w.WIH)
		}
		d.Free(weights.Buf)
		weights = alloc(2 * (wih + whh))
		over(weights)
		for k, w := range a.Directions { // only the recurrent weights are new
			d.UploadDoubles(w.WIH, inputs[k])
		}
		if x := run(); same("new weights", x, plain) {
			t.Error("new weights gave what those before gave")
		}
		fresh := run()
		d.(device.Freezer).Freeze(weights.Buf)
		if !same("held again", run(), fresh) {
			t.Error("other bits from weights that are held in the place of others")
		}
	}
}
