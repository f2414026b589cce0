package bench

import (
	"time"

	"vsetrain/internal/compute/device"
)

// Limits are what a device was measured to reach, in the process and the precision of what is compared with them.
type Limits struct {
	Memory   float64 `json:"memory_bytes_per_s"`  // read and written, of a large copy within its memory
	Products float64 `json:"products_flop_per_s"` // of a large square product
}

// growing is a kernel on values of growing size, by which a limit is measured.
type growing struct {
	least, most int // sizes
	views       int
	values      func(size int) int // of a view
	kernel      func(size int, v []device.View) device.Kernel
	work        func(device.Kernel) float64
}

// limitsOf measures a device with at most half of the memory that is free.
func limitsOf(d device.Device, now func() time.Time) (l Limits, err error) {
	free, float := int64(8<<30), 4
	if r, ok := device.As[device.Resident](d); ok {
		if free, _, err = r.FreeMemory(); err != nil {
			return l, err
		}
	}
	if d.Float64() {
		float = 8
	}
	rows := 8192
	for int64(rows)*int64(rows)*3*int64(float) > free/2 {
		rows /= 2
	}
	copies := growing{1 << 10, int(min(1<<28, free/4/int64(float))), 2, func(n int) int { return n },
		func(_ int, v []device.View) device.Kernel { return &device.Copy{Dst: v[0], Src: v[1]} },
		func(k device.Kernel) float64 { return float64(device.Bytes(k, float)) }}
	products := growing{16, rows, 3, func(n int) int { return n * n },
		func(n int, v []device.View) device.Kernel {
			return &device.Gemm{TransB: true, M: n, N: n, K: n, Alpha: 1, A: v[0], B: v[1], C: v[2]}
		}, device.Flops}
	if l.Memory, err = copies.rate(d, now); err != nil {
		return l, err
	}
	l.Products, err = products.rate(d, now)
	return l, err
}

// Seconds from which a size is large enough, and that the rate of one is measured for.
const (
	longEnough = 0.05
	longer     = 0.2
)

// rate is the work that a device does in a second, on the first size that takes long enough, or on the largest.
func (g *growing) rate(d device.Device, now func() time.Time) (rate float64, err error) {
	for size, large := g.least, false; !large && err == nil; size *= 2 {
		rate, large, err = g.rateOf(size, d, now)
	}
	return rate, err
}

// rateOf measures one size, and reports whether it is large enough.
func (g *growing) rateOf(size int, d device.Device, now func() time.Time) (rate float64, large bool, err error) {
	views := make([]device.View, g.views)
	for i := range views {
		if err := device.AllocViews(d, device.Float, g.values(size), &views[i]); err != nil {
			return 0, false, err
		}
		defer d.Free(views[i].Buf)
		device.Must(d, &device.Fill{Dst: views[i], Value: 1})
	}
	k := g.kernel(size, views)
	run := func(times int) (float64, error) {
		start := now()
		for range times {
			device.Must(d, k)
		}
		err := d.Sync()
		return max(now().Sub(start).Seconds(), 1e-9), err
	}
	if _, err := run(1); err != nil { // memory is there when it is first written
		return 0, false, err
	}
	seconds, err := run(1)
	if err != nil || seconds < longEnough && 2*size <= g.most {
		return 0, false, err
	}
	times := max(1, int(longer/seconds))
	seconds, err = run(times)
	return g.work(k) * float64(times) / seconds, true, err
}
