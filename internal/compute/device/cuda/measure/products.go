package measure

import (
	"fmt"
	"math"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
)

// kind is a product that is timed.
type kind struct {
	precision string
	blas      bool    // of cuBLAS
	size      int     // of a square product
	allowed   float64 // error, as in selftest
}

var kinds = []kind{
	{cuda.FP32, true, 8192, 1e-5}, {cuda.TF32, true, 8192, 4e-3}, {cuda.BF16, true, 8192, 2e-2},
	{cuda.FP32, false, 2048, 1e-5}, {cuda.BF16, false, 2048, 2e-2},
}

// timed is a device, opened for one kind.
type timed struct {
	device.Device
	now   func() time.Time
	quick bool  // tiny: nothing that is measured means anything
	free  int64 // bytes of the GPU
}

const (
	quickSize = 64
	samples   = 64
	// pattern is the number of different values of an operand: a prime, so that no two rows are equal.
	pattern = 4099
)

// product measures a product as training computes it, including the rounding of operands, and compares some of its
// elements with sums in float64.
func (d *timed) product(k kind) (p Product, err error) {
	p = Product{Precision: k.precision, By: "vsetrain", Size: k.size}
	if path, _ := d.Device.(cuda.Multiplier).BLAS(); path != "" {
		p.By = "cuBLAS"
	}
	for d.free > 0 && int64(p.Size)*int64(p.Size)*18 > d.free/2 && p.Size > 256 { // three of float32, two of bfloat16
		p.Size /= 2
	}
	if d.quick {
		p.Size = quickSize
	}
	n := p.Size
	var host [2][]float32
	var memory [3]device.Buffer
	for i := range memory {
		if memory[i], err = d.Alloc(device.Float, n*n); err != nil {
			return p, err
		}
		defer d.Free(memory[i])
		if i < len(host) {
			host[i] = values(n*n, uint32(i+1))
			d.UploadFloats(device.ViewOf(memory[i]), host[i])
		}
	}
	args := device.Gemm{M: n, N: n, K: n, Alpha: 1, A: device.ViewOf(memory[0]), B: device.ViewOf(memory[1]),
		C: device.ViewOf(memory[2])}
	run := func(times int) (float64, error) {
		start := d.now()
		for range times {
			device.Do(d, args)
		}
		err := d.Sync()
		return max(d.now().Sub(start).Seconds(), 1e-9), err
	}
	times := 1
	for { // the first one rounds operands and loads kernels of the libraries
		seconds, err := run(times)
		if err != nil {
			return p, err
		}
		p.Rate = 2 * float64(n) * float64(n) * float64(n) * float64(times) / seconds
		if d.quick || times > 1 && seconds > 0.1 || times >= 1<<10 {
			break
		}
		times *= 4
	}
	c := make([]float32, n*n)
	d.DownloadFloats(c, device.ViewOf(memory[2]))
	if err := d.Sync(); err != nil {
		return p, err
	}
	switch p.Error = difference(host[0], host[1], c, n); {
	case math.IsNaN(p.Error):
		p.Error, p.Failed = -1, "an element is NaN"
	case p.Error > k.allowed:
		p.Failed = fmt.Sprintf("its error is %.2g of the largest element, expected at most %.2g", p.Error, k.allowed)
	}
	return p, nil
}

// values are n numbers between -1 and 1, which repeat after pattern values.
func values(n int, seed uint32) []float32 {
	x := make([]float32, n)
	state := seed
	for i := range min(n, pattern) {
		state = state*1664525 + 1013904223 // of Numerical Recipes
		x[i] = float32(int32(state)) / (1 << 31)
	}
	for i := pattern; i < n; i *= 2 {
		copy(x[i:], x[:i])
	}
	return x
}

// difference is the difference of some elements of C from A·B.
func difference(a, b, c []float32, n int) float64 {
	most, largest := 0.0, 0.0
	for s := range samples {
		i, j := s*(n-1)/(samples-1), (s*37+11)%n
		want := 0.0
		for k := range n {
			want += float64(a[i*n+k]) * float64(b[k*n+j])
		}
		most = max(most, math.Abs(float64(c[i*n+j])-want)) // NaN where one is
		largest = max(largest, math.Abs(want))
	}
	return most / largest
}
