package cpu_test

import (
	"math"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
)

// Both directions at once give the bits of one after the other and their mean.
func TestBiGRUIsTwoGRUs(t *testing.T) {
	d, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const in, h, rows = 19, 33, 23
	r := philox.NewKey(1, "bigru").Stream(0)
	alloc := func(n int) device.View {
		b, err := d.Alloc(device.Float, n)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = 0.3 * r.Norm()
		}
		d.UploadDoubles(device.Of(b), x)
		return device.Of(b)
	}
	bits := func(v device.View) []float32 {
		x := make([]float32, v.N)
		d.DownloadFloats(x, v)
		return x
	}
	host := []int32{9, 8, 4, 1, 1}
	b, err := d.Alloc(device.Int32, len(host))
	if err != nil {
		t.Fatal(err)
	}
	lengths := device.Ints{View: device.Of(b), Host: host}
	d.UploadInts(lengths.View, host)
	both := device.BiGRUArgs{I: in, H: h, Lengths: lengths, X: alloc(rows * in), Y: alloc(rows * h),
		Work: alloc(rows * (h + in)), DY: alloc(rows * h), DX: alloc(rows * in)}
	var one [2]device.GRUArgs
	for k := range one {
		w := device.GRUDirection{WIH: alloc(3 * h * in), WHH: alloc(3 * h * h), BIH: alloc(3 * h), BHH: alloc(3 * h),
			Gates: alloc(rows * 4 * h), Prev: alloc(rows * h),
			DWIH: alloc(3 * h * in), DWHH: alloc(3 * h * h), DBIH: alloc(3 * h), DBHH: alloc(3 * h)}
		both.Directions[k] = w
		one[k] = device.GRUArgs{I: in, H: h, Lengths: lengths, Reverse: k == 1, X: both.X, Y: alloc(rows * h),
			DY: alloc(rows * h), DX: alloc(rows * in), GRUDirection: device.GRUDirection{WIH: w.WIH, WHH: w.WHH,
				BIH: w.BIH,
				BHH: w.BHH, Gates: alloc(rows * 4 * h), Prev: alloc(rows * h), DWIH: alloc(3 * h * in),
				DWHH: alloc(3 * h * h), DBIH: alloc(3 * h), DBHH: alloc(3 * h)}}
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
	d.BiGRU(both)
	for _, a := range one {
		d.GRU(a)
	}
	mean, half, dx := alloc(rows*h), alloc(rows*h), alloc(rows*in)
	d.Combine(mean, one[0].Y, one[1].Y, 0.5, 0.5)
	same("Y", both.Y, mean)
	d.Combine(half, both.DY, device.View{}, 0.5, 0)
	d.BiGRUGrad(both)
	for k, a := range one {
		a.DY = half
		d.GRUGrad(a)
		w := &both.Directions[k]
		same("DWIH", w.DWIH, a.DWIH)
		same("DWHH", w.DWHH, a.DWHH)
		same("DBIH", w.DBIH, a.DBIH)
		same("DBHH", w.DBHH, a.DBHH)
	}
	d.Add(dx, one[0].DX, one[1].DX)
	same("DX", both.DX, dx)
}
