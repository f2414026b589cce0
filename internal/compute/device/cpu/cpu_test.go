package cpu_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
)

func open(t testing.TB, o cpu.Options) device.Device {
	t.Helper()
	return try.Get(cpu.New(o))(t)
}

// families are those of the suite that compute otherwise in a reduced precision, or those that do not.
func families(rounding bool) []string {
	return slices.DeleteFunc(devicetest.Families(), func(f string) bool { return devicetest.Rounds(f) != rounding })
}

// On the kernels of this processor, and with the products of the least one. What a reduced precision does not change
// is compared with fp32, bit by bit.
func TestConformance(t *testing.T) {
	cpu.SmallPanels(t)
	for _, o := range []cpu.Options{{Precision: cpu.FP32}, {Precision: cpu.FP64}, {Precision: cpu.BF16},
		{Precision: cpu.BF16, BLAS: "generic"}} {
		o.Threads = 2
		t.Run(o.Precision+o.BLAS, func(t *testing.T) {
			newDevice := func(t *testing.T) device.Device { return open(t, o) }
			if o.Precision == cpu.BF16 {
				devicetest.Run(t, newDevice, families(true)...)
			} else {
				devicetest.Run(t, newDevice)
			}
		})
	}
}

func TestThreadsGiveTheSameBits(t *testing.T) {
	threads := func(n int, precision string) device.Device {
		d := open(t, cpu.Options{Threads: n, Precision: precision})
		t.Cleanup(func() { d.Close() })
		return d
	}
	one, three, reduced := threads(1, cpu.FP32), threads(3, cpu.FP32), threads(3, cpu.BF16)
	for _, c := range []struct {
		name     string
		families []string
		devices  []device.Device
	}{
		{"as fp32", families(false), []device.Device{one, three, reduced}},
		{cpu.FP32, families(true), []device.Device{one, three}},
		{cpu.BF16, families(true), []device.Device{threads(1, cpu.BF16), reduced}},
		{cpu.FP64, devicetest.Families(), []device.Device{threads(1, cpu.FP64), threads(3, cpu.FP64)}},
	} {
		t.Run(c.name, func(t *testing.T) { devicetest.Identical(t, c.families, c.devices...) })
	}
}

// A weight is updated to the bits that a stored gradient gives it, with few and with many rows.
func TestFactoredGivesTheBitsOfAStoredGradient(t *testing.T) {
	const out, in = 61, 5000
	for _, p := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
		d := open(t, cpu.Options{Threads: 2, Precision: p})
		defer d.Close()
		normal := func(n int) device.View {
			v, x := device.ViewOf(try.Get(d.Alloc(device.Float, n))(t)), make([]float32, n)
			r := rand.New(rand.NewPCG(1, 1))
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			d.UploadFloats(v, x)
			return v
		}
		hyper := normal(3)
		d.UploadDoubles(hyper, []float64{0.1, 1.5, 0.9})
		for _, n := range []int{1, 32, 63, 64} {
			adam := func() device.Adam {
				return device.Adam{P: normal(out * in), M: normal(out * in), V: normal(out * in), Hyper: hyper,
					Beta1: 0.9, Beta2: 0.99, Eps: 0.5}
			}
			f := device.Factored{N: n, O: out, I: in, DY: normal(n * out), X: normal(n * in)}
			a, b := adam(), adam()
			device.Do(d, device.Activate{F: device.Abs, Y: a.V, X: a.V})
			device.Do(d, device.Activate{F: device.Abs, Y: b.V, X: b.V})
			a.G = normal(out * in)
			device.Do(d, device.Gemm{TransA: true, M: out, N: in, K: n, Alpha: 1, A: f.DY, LDA: out, B: f.X, LDB: in,
				C: a.G, LDC: in})
			device.Do(d, a)
			device.Do(d, device.AdamFactored{Adam: b, Factored: f})
			want, got := make([]float64, out*in), make([]float64, out*in)
			d.DownloadDoubles(want, a.P)
			if d.DownloadDoubles(got, b.P); !slices.Equal(want, got) {
				t.Errorf("%s, %d rows: the weights differ", p, n)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []cpu.Options{{Threads: -1}, {Precision: "fp16"}, {BLAS: "nosuch"}} {
		if d, err := cpu.New(o); err == nil {
			d.Close()
			t.Errorf("%+v: no error", o)
		} else {
			t.Log(err)
		}
	}
}

func TestMemoryOfAnotherDevice(t *testing.T) {
	a, b := open(t, cpu.Options{Threads: 1}), open(t, cpu.Options{Threads: 1})
	defer a.Close()
	defer b.Close()
	buf := try.Get(a.Alloc(device.Float, 3))(t)
	defer func() {
		if recover() == nil {
			t.Error("a device accepted memory of another device")
		}
	}()
	device.Do(b, device.Fill{Dst: device.ViewOf(buf), Value: 1})
}

func TestClosedDevice(t *testing.T) {
	d := open(t, cpu.Options{Threads: 2})
	try.Do(t, d.Close())
	if err := d.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := d.Alloc(device.Float, 1); err == nil {
		t.Error("a closed device allocates")
	}
}

func TestAllocationTooLarge(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	defer d.Close()
	for _, n := range []int{-1, 1 << 62, 1 << 50} {
		if _, err := d.Alloc(device.Float, n); err == nil {
			t.Errorf("%d elements: no error", n)
		} else {
			t.Log(err)
		}
	}
}

// Memory that is freed is given back before the device is closed.
func TestFreedMemoryIsGivenBack(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	defer d.Close()
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	before := inUse()
	for range 10_000 {
		b := try.Get(d.Alloc(device.Float, 8))(t)
		d.Free(b)
	}
	if after := inUse(); after > before+1000 {
		t.Errorf("%d objects are left of 10,000 buffers", after-before)
	}
}
