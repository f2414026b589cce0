package cpu_test

import (
	"math"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
)

// A GRU gives the same bits from weights that the device holds, again and again, and those of new weights once it holds
// them no more.
func TestHeldWeights(t *testing.T) {
	for _, o := range []cpu.Options{{Threads: 1}, {Threads: 2}, {Threads: 2, Precision: cpu.BF16}} {
		d, err := cpu.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		// The weights are 4.4 MB: they are mapped, and once freed others are mapped in their place.
		const in, h, rows = 19, 420, 23
		r := philox.NewKey(1, "held").Stream(0)
		fill := func(v device.View) {
			x := make([]float64, v.N)
			for i := range x {
				x[i] = 0.3 * r.Norm()
			}
			d.UploadDoubles(v, x)
		}
		alloc := func(n int) device.View {
			b, err := d.Alloc(device.Float, n)
			if err != nil {
				t.Fatal(err)
			}
			fill(device.Of(b))
			return device.Of(b)
		}
		host := []int32{9, 8, 4, 1, 1}
		b, err := d.Alloc(device.Int32, len(host))
		if err != nil {
			t.Fatal(err)
		}
		lengths := device.Ints{View: device.Of(b), Host: host}
		d.UploadInts(lengths.View, host)
		a := device.BiGRUArgs{I: in, H: h, Lengths: lengths, X: alloc(rows * in), Y: alloc(rows * h),
			Work: alloc(rows * (h + in))}
		const wih, whh = 3 * h * in, 3 * h * h
		over := func(weights device.View) {
			for k := range a.Directions {
				w := weights.Slice(k*(wih+whh), (k+1)*(wih+whh))
				a.Directions[k].WIH, a.Directions[k].WHH = w.Slice(0, wih), w.Slice(wih, wih+whh)
			}
		}
		for k := range a.Directions {
			a.Directions[k].BIH, a.Directions[k].BHH = alloc(3*h), alloc(3*h)
			a.Directions[k].Gates, a.Directions[k].Prev = alloc(rows*4*h), alloc(rows*h)
		}
		run := func() []float64 {
			y := make([]float64, a.Y.N)
			d.BiGRU(a)
			d.DownloadDoubles(y, a.Y)
			return y
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
		d.(device.Holder).Hold(weights.Buf)
		for range 2 {
			if !same("held", run(), plain) {
				t.Error("other bits from weights that are held")
			}
		}
		d.Free(weights.Buf)
		weights = alloc(2 * (wih + whh))
		over(weights)
		if x := run(); same("new weights", x, plain) {
			t.Error("new weights gave what those before gave")
		}
		fresh := run()
		d.(device.Holder).Hold(weights.Buf)
		if !same("held again", run(), fresh) {
			t.Error("other bits from weights that are held in the place of others")
		}
	}
}
