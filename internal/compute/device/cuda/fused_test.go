package cuda_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// launches counts the kernels of calls that have run before, including products of vsetrain's kernel.
func (b *bench) launches(call func()) int {
	b.Helper()
	call()
	try.Do(b.TB, b.Sync())
	before := emulator.Launches(b.TB)
	call()
	try.Do(b.TB, b.Sync())
	return emulator.Launches(b.TB) - before
}

// A step of both directions of a GRU takes one product and one kernel if the parameters are in memory as in a network,
// one after the other. On tensor cores all steps are one kernel, with another one for the weights of each pass; if
// blocks do not run at once, each step is one kernel.
func TestLaunchesOfBiGRU(t *testing.T) {
	const steps = 6
	launchesOfBiGRU(t, cuda.Options{}, 33, steps, 2*steps-1)
	for _, precision := range []string{cuda.BF16, cuda.TF32} {
		emulator.Set(t, "cooperative", 1, 1)
		launchesOfBiGRU(t, cuda.Options{Precision: precision}, 64, steps, 1+1)
		emulator.Set(t, "cooperative", 0, 1)
		launchesOfBiGRU(t, cuda.Options{Precision: precision}, 64, steps, 1+steps)
	}
}

// biGRU is a GRU of two directions over three sequences, the longest of that many steps, and its gradient.
func (b *bench) biGRU(h int, steps int32) device.BiGRU {
	const in = 3
	rows := 11
	a := device.BiGRU{I: in, H: h, Lengths: b.known(steps, 4, 1), X: b.alloc(device.Float, rows*in),
		Y: b.alloc(device.Float, rows*h), Work: b.alloc(device.Float, rows*(h+in)),
		DY: b.alloc(device.Float, rows*h), DX: b.alloc(device.Float, rows*in)}
	sizes := []int{3 * h * in, 3 * h * h, 3 * h, 3 * h}
	n := 2 * (sizes[0] + sizes[1] + sizes[2] + sizes[3])
	params, grads, kept := b.alloc(device.Float, n), b.alloc(device.Float, n), b.alloc(device.Float, 2*rows*5*h)
	at := 0
	for k := range a.Directions {
		w := &a.Directions[k]
		for i, v := range []*device.View{&w.WIH, &w.WHH, &w.BIH, &w.BHH} {
			*v = params.Slice(at, at+sizes[i])
			*[]*device.View{&w.DWIH, &w.DWHH, &w.DBIH, &w.DBHH}[i] = grads.Slice(at, at+sizes[i])
			at += sizes[i]
		}
		w.Gates, w.Prev = kept.Slice(k*rows*4*h, (k+1)*rows*4*h), kept.Slice(rows*(8+k)*h, rows*(9+k)*h)
	}
	return a
}

// GRUs of several sizes may follow each other in any order: each has the shared memory that it needs. With 1024 units,
// a block of the forward pass has 48 columns of 1024 operands and eight parts of 16 sums for each; a block of the
// backward pass has 32 columns of 3072 bfloat16 operands or 16 of TF32.
func TestSharedMemoryOfGRUs(t *testing.T) {
	sharedMemoryOfGRUs(t, cuda.BF16, map[string]driver.Launch{
		"gru_tensor_steps": {Grid: [3]uint32{64, 2, 1}, Shared: 48 * (1024*2 + 8*16*4)},
		"gru_tensor_grads": {Grid: [3]uint32{32, 2, 1}, Shared: 32 * (3072*2 + 8*16*4)}})
	sharedMemoryOfGRUs(t, cuda.TF32, map[string]driver.Launch{
		"gru_tensor_steps_tf32": {Grid: [3]uint32{64, 2, 1}, Shared: 48 * (1024*4 + 8*16*4)},
		"gru_tensor_grads_tf32": {Grid: [3]uint32{64, 2, 1}, Shared: 16 * (3072*4 + 8*16*4)}})
}

// sharedMemoryOfGRUs wants such launches of kernels with 1024 units of two directions.
func sharedMemoryOfGRUs(t *testing.T, precision string, launches map[string]driver.Launch) {
	t.Helper()
	for _, sizes := range [][]int{{64, 1024, 64, 1024}, {1024, 64, 1024}} {
		d := try.Get(cuda.Open(cuda.Options{Driver: emulator.Strict(t), Precision: precision}))(t)
		defer d.Close()
		b := &bench{t, d}
		for _, h := range sizes {
			a := b.biGRU(h, 6)
			device.Do(b.Device, a)
			device.DoGrad(b.Device, a)
			if err := b.Sync(); err != nil {
				t.Fatalf("%d of %d units: %v", h, sizes, err)
			}
		}
		a := b.biGRU(1024, 6)
		names, all, err := cuda.Launched(d, func() {
			device.Do(b.Device, a)
			device.DoGrad(b.Device, a)
		})
		try.Do(t, err)
		want := maps.Clone(launches)
		for i, got := range all {
			l, ok := want[names[i]]
			if !ok {
				continue
			}
			delete(want, names[i])
			if got.Grid != l.Grid || got.Shared != l.Shared || !got.Together {
				t.Errorf("%s of 1024 units: grid %v, %d bytes of shared memory, all at once %v; want %v, %d, true",
					names[i], got.Grid, got.Shared, got.Together, l.Grid, l.Shared)
			}
		}
		for name := range want {
			t.Errorf("1024 units of two directions do without %s", name)
		}
	}
}

// launchesOfBiGRU wants that many launches for the steps of each way.
func launchesOfBiGRU(t *testing.T, o cuda.Options, h int, steps int32, launches int) {
	t.Helper()
	b := newBench(t, o)
	a := b.biGRU(h, steps)
	// The product with the inputs, the steps, the mean.
	if n, want := b.launches(func() { device.Do(b.Device, a) }), 1+launches+1; n != want {
		t.Errorf("BiGRU: %d launches, want %d", n, want)
	}
	// The steps, column sums and biases, three products of the weights and four of the inputs.
	if n, want := b.launches(func() { device.DoGrad(b.Device, a) }), launches+1+1+3+4; n != want {
		t.Errorf("BiGRUGrad: %d launches, want %d", n, want)
	}
}

// A product with bias and GELU is the product and one kernel. The backward pass through bias and GELU is one kernel and
// the sum over pieces of rows.
func TestLaunchesOfActivation(t *testing.T) {
	for _, blas := range [][]string{nil, {"emulated"}} {
		b := newBench(t, cuda.Options{BLAS: blas})
		d := b.Device
		const m, n, k = 300, 7, 2
		a := device.Gemm{TransB: true, M: m, N: n, K: k, Alpha: 1, A: b.alloc(device.Float, m*k),
			B: b.alloc(device.Float, n*k), C: b.alloc(device.Float, m*n),
			Bias: b.alloc(device.Float, n), F: device.GELU, Active: b.alloc(device.Float, m*n)}
		want := 2
		if blas != nil {
			want = 1 // a product of cuBLAS is not a launch
		}
		if got := b.launches(func() { device.Do(d, a) }); got != want {
			t.Errorf("cuBLAS %v: product with GELU: %d launches, want %d", blas, got, want)
		}
		g := device.BiasActivate{F: device.GELU, M: m, N: n, X: a.C, Y: a.C, DY: a.Active, DX: a.Active,
			DBias: a.Bias}
		if got := b.launches(func() { device.Do(d, g) }); got != 2 {
			t.Errorf("cuBLAS %v: gradient of bias and GELU: %d launches, want 2", blas, got)
		}
	}
}

// With bounded lengths, both directions give the same bits as with exact lengths, and rows after the words are zero.
func TestBiGRUWithBoundedLengths(t *testing.T) {
	boundedBiGRU(t, cuda.Options{}, 5)
	boundedBiGRU(t, cuda.Options{Precision: cuda.BF16}, 64)
	boundedBiGRU(t, cuda.Options{Precision: cuda.TF32}, 64)
}

func boundedBiGRU(t *testing.T, o cuda.Options, h int) {
	t.Helper()
	const in = 3
	actual, bound := []int32{4, 3, 1}, []int32{6, 4, 4}
	run := func(bounded bool) (y, dx []float32, rest [][]float32) {
		b := newBench(t, o)
		lengths := device.Ints{Host: actual, Bounded: bounded, View: b.ints(actual...)}
		rows := 8
		if bounded {
			lengths.Host, rows = bound, 14
		}
		x := make([]float32, rows*in) // inputs are zero after the words
		for i := range 8 * in {
			x[i] = float32(math.Cos(float64(i)))
		}
		a := device.BiGRU{I: in, H: h, Lengths: lengths, X: b.floats(x...), Y: b.nan(rows * h),
			Work: b.nan(rows * (h + in)), DX: b.nan(rows * in)}
		dy := make([]float32, rows*h)
		for i := range dy {
			dy[i] = float32(math.NaN())
			if i < 8*h {
				dy[i] = float32(math.Sin(float64(i)))
			}
		}
		a.DY = b.floats(dy...)
		weights := func(n, seed int) device.View {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(math.Sin(float64(seed*1000+i))) / 2
			}
			return b.floats(x...)
		}
		var grads []device.View
		for k := range a.Directions {
			a.Directions[k] = device.GRUDirection{WIH: weights(3*h*in, 4*k), WHH: weights(3*h*h, 4*k+1),
				BIH: weights(3*h, 4*k+2), BHH: weights(3*h, 4*k+3), Gates: b.nan(rows * 4 * h),
				Prev: b.nan(rows * h), DWIH: b.nan(3 * h * in), DWHH: b.nan(3 * h * h), DBIH: b.nan(3 * h),
				DBHH: b.nan(3 * h)}
			w := &a.Directions[k]
			grads = append(grads, w.DWIH, w.DWHH, w.DBIH, w.DBHH)
		}
		device.Do(b.Device, a)
		device.DoGrad(b.Device, a)
		read := func(v device.View) []float32 {
			x := make([]float32, v.N)
			b.DownloadFloats(x, v)
			return x
		}
		for _, g := range grads {
			rest = append(rest, read(g))
		}
		return read(a.Y), read(a.DX), rest
	}
	y, dx, rest := run(false)
	boundedY, boundedDX, boundedRest := run(true)
	if !slices.Equal(boundedY[:8*h], y) || !slices.Equal(boundedDX[:8*in], dx) {
		t.Errorf("Y %v, DX %v; with exact lengths %v, %v", boundedY, boundedDX, y, dx)
	}
	for i, v := range append(boundedY[8*h:], boundedDX[8*in:]...) {
		if v != 0 {
			t.Fatalf("element %d after the words is %v", i, v)
		}
	}
	for i := range rest {
		if !slices.Equal(boundedRest[i], rest[i]) {
			t.Errorf("gradient %d is %v, with exact lengths %v", i, boundedRest[i], rest[i])
		}
	}
}
