package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// factoredCase is Adam of a weight [o, i] whose gradient is a product of n rows, several steps one after the other.
type factoredCase struct {
	n, o, i      int
	legacy       bool
	clip         float64 // of the second step; others have none
	copied       bool    // products have read the weight
	beta1, beta2 float64
	eps          float64
	hyper, dy, x [][]float64    // of each step
	before       [][3][]float64 // p, m and v
	after        [][3][]float64
}

// adamHyper are StepSize, InvSqrt2 and Decay of a step, as train computes them, in float32.
func adamHyper(step int, beta1, beta2, rate, decay float64) []float64 {
	t := float64(step)
	x := []float64{rate / (1 - math.Pow(beta1, t)), 1 / math.Sqrt(1-math.Pow(beta2, t)), 1 - rate*decay}
	for i := range x {
		x[i] = float64(float32(x[i]))
	}
	return x
}

// factored runs the steps, the first two of training and one later on, each on its own factors and with new parameters,
// and looks for copies that are not equal to their values. launched counts the kernels of the last step.
func (c *pairCase) factored(f factoredCase) (run factoredCase, launched int) {
	c.Helper()
	defer c.Close()
	n := f.o * f.i
	sd := 1 / math.Sqrt(float64(f.i))
	_, p := c.normal(n, sd)
	renew := func() {
		x := make([]float64, n)
		for i := range x {
			x[i] = sd * c.rng.Norm()
		}
		c.UploadDoubles(p, x)
	}
	m, v := c.alloc(device.Float, n), c.alloc(device.Float, n)
	device.Do(c.Device, device.Fill{Dst: m})
	device.Do(c.Device, device.Fill{Dst: v})
	one := c.alloc(device.Float, f.o)
	if f.copied {
		_, row := c.normal(f.i, 1)
		device.Do(c.Device, device.Gemm{TransB: true, M: 1, N: f.o, K: f.i, Alpha: 1, A: row, B: p, C: one})
	}
	state := func(of *[][3][]float64) {
		c.results = nil
		c.read(p, m, v)
		*of = append(*of, [3][]float64(c.results))
		if stale := cuda.StaleCopies(c.Device); stale != "" {
			c.Errorf("%d x %d of %d: %s", f.o, f.i, f.n, stale)
		}
	}
	scalar, clip := c.alloc(device.Float, 3), c.alloc(device.Float, 1)
	for k, at := range []int{1, 2, 1000} {
		renew()
		state(&f.before)
		dys, dy := c.normal(f.n*f.o, 0.1)
		xs, x := c.normal(f.n*f.i, 1)
		f.dy, f.x = append(f.dy, dys), append(f.x, xs)
		f.hyper = append(f.hyper, adamHyper(at, f.beta1, f.beta2, 0.01, 0.1))
		c.UploadDoubles(scalar, f.hyper[k])
		c.UploadDoubles(clip, []float64{f.clip})
		a := device.Adam{P: p, M: m, V: v, Hyper: scalar, Beta1: f.beta1, Beta2: f.beta2, Eps: f.eps,
			Legacy: f.legacy}
		if k == 1 {
			a.Clip = clip
		}
		try.Do(c.TB, c.Sync())
		before := emulator.Launches(c.TB)
		device.Do(c.Device, device.AdamFactored{Adam: a, Factored: device.Factored{N: f.n, O: f.o, I: f.i, DY: dy,
			X: x}})
		try.Do(c.TB, c.Sync())
		launched = emulator.Launches(c.TB) - before
		state(&f.after)
	}
	return f, launched
}

// check compares every step with the formulas of Adam (device.Adam), from parameters and moments as the device gave
// them: the gradient is a sum of products of operands rounded to bfloat16, everything else is float32. A clip
// coefficient that is NaN leaves all as it was.
func (f *factoredCase) check(t *testing.T, what string) {
	t.Helper()
	number := func(x float64) approx { return approx{v: float64(float32(x))} }
	beta1, c1, beta2, c2 := number(f.beta1), number(1-f.beta1), number(f.beta2), number(1-f.beta2)
	eps := number(f.eps)
	root := func(x float64) float64 { return math.Sqrt(max(0, x)) }            // v is not negative
	inverse := func(x float64) float64 { return 1 / max(x, eps.v*(1-4*unit)) } // nor is √v
	for k := range f.dy {
		before, after := f.before[k], f.after[k]
		if k == 1 && math.IsNaN(f.clip) {
			for j := range before {
				if !slices.Equal(before[j], after[j]) {
					t.Errorf("%s: step %d changes %c in spite of a NaN", what, k, "pmv"[j])
				}
			}
			continue
		}
		dy, x := rowsOf(operands(exactly(f.dy[k])), f.o), rowsOf(operands(exactly(f.x[k])), f.i)
		g := dy.transposed().times(x, f.o, f.i, f.n)
		step, norm, decay := number(f.hyper[k][0]), number(f.hyper[k][1]), number(f.hyper[k][2])
		if f.legacy {
			step = step.times(norm.through(func(x float64) float64 { return 1 / x }, 1))
			norm.v = 1
		}
		factor := approx{v: 1}
		if k == 1 {
			factor = number(f.clip)
		}
		p, m, v := exactly(before[0]), exactly(before[1]), exactly(before[2])
		for i := range g {
			d := factor.times(g[i])
			m[i] = beta1.times(m[i]).plus(c1.times(d))
			v[i] = beta2.times(v[i]).plus(c2.times(d.times(d)))
			size := v[i].through(root, 1).times(norm).plus(eps)
			p[i] = p[i].times(decay).plus(approx{v: -1}.product(step.times(m[i]).times(size.through(inverse, 1))))
		}
		within(t, fmt.Sprintf("%s: parameters after step %d", what, k), after[0], p)
		within(t, fmt.Sprintf("%s: first moment after step %d", what, k), after[1], m)
		within(t, fmt.Sprintf("%s: second moment after step %d", what, k), after[2], v)
	}
}

// Product and Adam in one kernel give what their formulas give (factoredCase.check), in every order of the threads and
// whatever number of blocks share the tiles. An emulator adds the products of a value in one order everywhere, so the
// bits also equal those from product and Adam one after the other, which take rows of no multiple of four values.
func TestProductAdamOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		n, o, i int
		pieces  bool
	}{
		{5, 12, 40, false}, {17, 132, 36, false}, {9, 20, 300, false}, {128, 128, 64, false}, {16, 4, 4, false},
		{131, 8, 68, false}, {300, 132, 32, false}, {5, 12, 42, true}, {5, 10, 40, true},
	} {
		for mode, f := range []factoredCase{
			{clip: 0.37, copied: true, beta1: 0.9, beta2: 0.999, eps: 1e-3},
			{clip: 1, legacy: true, beta1: 0.5, beta2: 0.99, eps: 1e-2},
			{clip: math.NaN(), copied: true, beta1: 0.9, beta2: 0.999, eps: 1e-3},
			{clip: math.NaN(), beta1: 0.9, beta2: 0.999, eps: 1e-3},
		} {
			f.n, f.o, f.i = c.n, c.o, c.i
			large := c.n*c.o*c.i > 500_000
			if large && mode > 0 { // what an element takes does not depend on their number
				continue
			}
			what := fmt.Sprintf("%+v, mode %d", c, mode)
			emulator.Set(t, "order", 0, 0)
			emulator.Set(t, "multiprocessors", 16, 4)
			got, launched := tensorCase(t, cuda.Options{RoundFrom: 1}, 1).factored(f)
			got.check(t, what)
			// Two kernels round the factors.
			if one := launched == 3; one == c.pieces {
				t.Errorf("%s: %d kernels", what, launched)
			}
			base, _ := tensorCase(t, cuda.Options{RoundFrom: 1, BaseKernels: true}, 1).factored(f)
			same := func(a, b factoredCase) bool {
				return slices.EqualFunc(a.after, b.after, func(a, b [3][]float64) bool {
					return slices.Equal(a[0], b[0]) && slices.Equal(a[1], b[1]) && slices.Equal(a[2], b[2])
				})
			}
			if !same(got, base) {
				t.Errorf("%s: other bits than product and Adam one after the other", what)
			}
			if mode > 0 {
				continue
			}
			for order, multiprocessors := range []int{0, 1, 4} {
				if large && order < 2 {
					continue
				}
				emulator.Set(t, "order", order, 0)
				emulator.Set(t, "multiprocessors", multiprocessors, 4)
				if other, _ := tensorCase(t, cuda.Options{RoundFrom: 1}, 1).factored(f); !same(got, other) {
					t.Errorf("%s: other bits in order %d with %d multiprocessors", what, order, multiprocessors)
				}
			}
		}
	}
}

// The norm of a product from Gram matrices on tensor cores is computed from operands rounded to bfloat16 and sums in
// float32, in every order of the threads. More rows than a matrix has, and rows of no multiple of eight values, are
// left to products.
func TestGramsOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		n, o, i  int
		products bool
	}{
		{5, 8, 40, false}, {1, 16, 8, false}, {33, 264, 1000, false}, {64, 8, 72, false}, {128, 40, 64, false},
		{3, 8, 24000, false}, {129, 8, 40, true}, {5, 12, 40, true}, {5, 8, 44, true},
	} {
		run := func(order int) (got float64, dy, x []float64, launched int) {
			emulator.Set(t, "order", order, 0)
			b := tensorCase(t, cuda.Options{RoundFrom: 1}, 1)
			defer b.Close()
			f := device.Factored{N: c.n, O: c.o, I: c.i}
			dy, f.DY = b.normal(c.n*c.o, 1)
			x, f.X = b.normal(c.n*c.i, 1)
			acc := b.alloc(device.Float, 1)
			device.Do(b.Device, device.Fill{Dst: acc, Value: 0.5})
			try.Do(t, b.Sync())
			before := emulator.Launches(t)
			device.Do(b.Device, device.SumSquaresFactored{Sum: acc, Factored: f})
			b.read(acc)
			try.Do(t, b.Sync())
			return b.results[0][0], dy, x, emulator.Launches(t) - before
		}
		what := fmt.Sprintf("%+v", c)
		got, dys, xs, launched := run(0)
		// Two kernels round the factors, one adds the sums of blocks.
		if own := launched == 5; own == c.products {
			t.Errorf("%s: %d kernels", what, launched)
		}
		dy, x := rowsOf(operands(exactly(dys)), c.o), rowsOf(operands(exactly(xs)), c.i)
		first, second := dy.times(dy.transposed(), c.n, c.n, c.o), x.times(x.transposed(), c.n, c.n, c.i)
		var squares sum
		for k := range first {
			squares.add(first[k], second[k])
		}
		within(t, what, []float64{got}, []approx{squares.plus(approx{v: 0.5})}) // sums of double
		if c.i > 1000 {
			continue
		}
		for order := 1; order <= 2; order++ {
			if other, _, _, _ := run(order); other != got {
				t.Errorf("%s: %v in order %d, %v before", what, other, order, got)
			}
		}
	}
}
