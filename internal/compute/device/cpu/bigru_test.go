package cpu_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// newBiGRU opens a device, and on it a BiGRU of 19 values and h units over 5 captions of 23 words, whose views hold
// normal numbers times 0.3; alloc makes more of them. There are three different words, and captions begin and end
// alike. The weights of its products and all gradients are left to the test.
func newBiGRU(t *testing.T, o cpu.Options, h int) (d device.Device, alloc func(n int) device.View,
	a device.BiGRU) {
	d = try.Get(cpu.New(o))(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	r := philox.NewKey(1, "bigru").Stream(0)
	alloc = func(n int) device.View {
		b := try.Get(d.Alloc(device.Float, n))(t)
		x := make([]float64, n)
		for i := range x {
			x[i] = 0.3 * r.Norm()
		}
		d.UploadDoubles(device.ViewOf(b), x)
		return device.ViewOf(b)
	}
	const in, rows = 19, 23
	host := []int32{9, 8, 4, 1, 1}
	b := try.Get(d.Alloc(device.Int32, len(host)))(t)
	lengths := device.Ints{View: device.ViewOf(b), Host: host}
	d.UploadInts(lengths.View, host)
	vectors, x := alloc(3*in), alloc(rows*in)
	pack := lengths.Packing()
	for b, n := range host {
		for t := range int(n) {
			word, row := t*min(b, int(n)-t)%3, pack.Start(t)+b
			device.Do(d, device.Copy{Dst: x.Slice(row*in, (row+1)*in), Src: vectors.Slice(word*in, (word+1)*in)})
		}
	}
	a = device.BiGRU{I: in, H: h, Lengths: lengths, X: x, Y: alloc(rows * h),
		Work: alloc(rows * (h + in))}
	for k := range a.Directions {
		a.Directions[k] = device.GRUDirection{BIH: alloc(3 * h), BHH: alloc(3 * h), Gates: alloc(rows * 4 * h),
			Prev: alloc(rows * h)}
	}
	return d, alloc, a
}

// Both directions at once give the bits of one after the other and their mean.
func TestBiGRUIsTwoGRUs(t *testing.T) {
	d, alloc, both := newBiGRU(t, cpu.Options{Threads: 2}, 33)
	in, h := both.I, both.H
	like := func(v device.View) device.View { return alloc(v.N) }
	both.DY, both.DX = like(both.Y), like(both.X)
	bits := func(v device.View) []float32 {
		x := make([]float32, v.N)
		d.DownloadFloats(x, v)
		return x
	}
	var one [2]device.GRU
	for k := range one {
		w := &both.Directions[k]
		w.WIH, w.WHH = alloc(3*h*in), alloc(3*h*h)
		w.DWIH, w.DWHH, w.DBIH, w.DBHH = like(w.WIH), like(w.WHH), like(w.BIH), like(w.BHH)
		one[k] = device.GRU{I: in, H: h, Lengths: both.Lengths, Reverse: k == 1, X: both.X, Y: like(both.Y),
			DY: like(both.Y), DX: like(both.X), GRUDirection: device.GRUDirection{WIH: w.WIH, WHH: w.WHH,
				BIH: w.BIH, BHH: w.BHH, Gates: like(w.Gates), Prev: like(w.Prev), DWIH: like(w.WIH),
				DWHH: like(w.WHH), DBIH: like(w.BIH), DBHH: like(w.BHH)}}
	}
	same := func(what string, a, b device.View) {
		t.Helper()
		x, y := bits(a), bits(b)
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) {
				t.Fatalf("%s: element %d is %v, %v from two calls", what, i, x[i], y[i])
			}
		}
	}
	device.Do(d, both)
	for _, a := range one {
		device.Do(d, a)
	}
	mean, half, dx := like(both.Y), like(both.Y), like(both.X)
	device.Do(d, device.Combine{Dst: mean, A: one[0].Y, B: one[1].Y, Alpha: 0.5, Beta: 0.5})
	same("Y", both.Y, mean)
	device.Do(d, device.Combine{Dst: half, A: both.DY, Alpha: 0.5})
	device.DoGrad(d, both)
	for k, a := range one {
		a.DY = half
		device.DoGrad(d, a)
		w := &both.Directions[k]
		same("DWIH", w.DWIH, a.DWIH)
		same("DWHH", w.DWHH, a.DWHH)
		same("DBIH", w.DBIH, a.DBIH)
		same("DBHH", w.DBHH, a.DBHH)
	}
	device.Do(d, device.Add{Dst: dx, A: one[0].DX, B: one[1].DX})
	same("DX", both.DX, dx)
}
