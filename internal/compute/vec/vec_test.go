package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"vsetrain/internal/compute/vec"
)

// sizes cover empty slices, partial vectors, one vector and unrolled loops with rests, of 8 and 16 lanes.
var sizes = []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 23, 31, 33, 47, 48, 63, 64, 65, 79, 127, 130, 1000}

func tables(t *testing.T, test func(t *testing.T, ops *vec.Ops[float32])) {
	for _, ops := range vec.Supported() {
		t.Run(ops.Name, func(t *testing.T) { test(t, ops) })
	}
}

// guarded returns n random values inside memory that is NaN on both sides, and a check that it still is.
func guarded(t *testing.T, r *rand.Rand, n int) (x []float32, check func()) {
	const guard = 21
	all := make([]float32, n+2*guard)
	for i := range all {
		all[i] = float32(math.NaN())
		if i >= guard && i < guard+n {
			all[i] = float32(r.NormFloat64())
		}
	}
	return all[guard : guard+n : guard+n], func() {
		t.Helper()
		for i, v := range all {
			if (i < guard || i >= guard+n) && v == v {
				t.Fatalf("memory at %d of %d elements changed to %v", i-guard, n, v)
			}
		}
	}
}

// kernelCase is a call of a kernel in one precision, on slices of random values and on words; what it returns beside
// them is compared too.
type kernelCase[T vec.Float] struct {
	name   string
	widths []int // of the slices, in multiples of n
	slack  float64
	call   func(o *vec.Ops[T], x [][]T, words []uint32) float64
}

// rounding is the slack of sums in T whose terms cancel, for each element.
const rounding = 1e-7

func kernelCases[T vec.Float]() []kernelCase[T] {
	const limit = 1 << 31
	scalars := vec.AdamScalars[T]{Clip: .5, B1: .9, C1: .1, B2: .99, C2: .01, Step: .02, Inv: 1.5, Eps: 1e-3,
		Decay: .99}
	var cases []kernelCase[T]
	returns := func(name string, widths []int, slack float64,
		call func(o *vec.Ops[T], x [][]T, words []uint32) float64) {
		cases = append(cases, kernelCase[T]{name, widths, slack, call})
	}
	add := func(name string, widths []int, call func(o *vec.Ops[T], x [][]T)) {
		returns(name, widths, 0, func(o *vec.Ops[T], x [][]T, _ []uint32) float64 { call(o, x); return 0 })
	}
	sum := func(name string, widths []int, slack float64, call func(o *vec.Ops[T], x [][]T) float64) {
		returns(name, widths, slack, func(o *vec.Ops[T], x [][]T, _ []uint32) float64 { return call(o, x) })
	}
	add("Fill", []int{1}, func(o *vec.Ops[T], x [][]T) { o.Fill(x[0], 1.5) })
	add("Add", []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.Add(x[0], x[1], x[2]) })
	add("Mul", []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.Mul(x[0], x[1], x[2]) })
	add("Scale", []int{1, 1}, func(o *vec.Ops[T], x [][]T) { o.Scale(x[0], x[1], -.75) })
	add("Sum2", []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.Sum2(x[0], x[1], x[2], -.75, 3) })
	add("Axpy", []int{1, 1}, func(o *vec.Ops[T], x [][]T) { o.Axpy(x[0], x[1], -.75) })
	add("MAdd", []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.MAdd(x[0], x[1], x[2]) })
	add("Hinge", []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.Hinge(x[0], x[1], x[2], -.75) })
	sum("Sumsq", []int{1}, 0, func(o *vec.Ops[T], x [][]T) float64 { return o.Sumsq(x[0]) })
	sum("Dot", []int{1, 1}, 0, func(o *vec.Ops[T], x [][]T) float64 { return o.Dot(x[0], x[1]) })
	add("SquareDiff", []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.SquareDiff(x[0], x[1], x[2], -.75) })
	sum("SquareDiffGrad", []int{1, 1, 1, 1, 1}, 0, func(o *vec.Ops[T], x [][]T) float64 {
		return o.SquareDiffGrad(x[0], x[1], x[2], x[3], x[4], -.75)
	})
	sum("Squares", []int{1}, 0, func(o *vec.Ops[T], x [][]T) float64 { return o.Squares(x[0]) })
	sum("Order", []int{1, 1}, 0, func(o *vec.Ops[T], x [][]T) float64 { return o.Order(x[0], x[1]) })
	add("Adam", []int{1, 1, 1, 1}, func(o *vec.Ops[T], x [][]T) {
		o.Map[vec.Abs](x[3], x[3])
		o.Adam(x[0], x[1], x[2], x[3], &scalars)
	})
	add("Exp", []int{1, 1}, func(o *vec.Ops[T], x [][]T) { o.Exp(x[0], x[1]) })
	add("GRUCell", []int{4, 3, 1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.GRUCell(x[0], x[1], x[2], x[3], x[4]) })
	add("GRUCellGrad", []int{4, 1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.GRUCellGrad(x[0], x[1], x[2], x[3]) })
	for f := vec.ReLU; f <= vec.Abs; f++ {
		add(fmt.Sprintf("Map %d", f), []int{1, 1}, func(o *vec.Ops[T], x [][]T) { o.Map[f](x[0], x[1]) })
		add(fmt.Sprintf("Slope %d", f), []int{1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.Slope[f](x[0], x[1], x[2]) })
	}
	add("GELUGrad", []int{1, 1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.GELUGrad(x[0], x[1], x[2], x[3]) })
	add("GELUGrad in place", []int{1, 1}, func(o *vec.Ops[T], x [][]T) { o.GELUGrad(x[0], x[1], x[1], x[0]) })
	add("Softmax", []int{3}, func(o *vec.Ops[T], x [][]T) { o.Softmax(x[0], len(x[0])/3, 1.5) })
	add("SoftmaxGrad", []int{3, 3}, func(o *vec.Ops[T], x [][]T) {
		o.Softmax(x[1], len(x[0])/3, 1.5)
		o.SoftmaxGrad(x[0], x[1], len(x[0])/3, 1.5)
	})
	sum("Sum", []int{1}, rounding, func(o *vec.Ops[T], x [][]T) float64 { return o.Sum(x[0]) })
	returns("SumDropped", []int{1, 1, 1}, rounding, func(o *vec.Ops[T], x [][]T, words []uint32) float64 {
		return o.SumDropped(x[0], x[1], x[2], words, limit, 2)
	})
	sum("Spread", []int{1}, rounding, func(o *vec.Ops[T], x [][]T) float64 { return o.Spread(x[0], .75) })
	add("Norm", []int{1, 1, 1, 1}, func(o *vec.Ops[T], x [][]T) { o.Norm(x[0], x[1], x[2], x[3], 1.5, -.75) })
	sum("NormSums", []int{1, 1, 1, 1, 1}, rounding, func(o *vec.Ops[T], x [][]T) float64 {
		var sums [2]T
		o.NormSums(x[0], x[1], x[2], x[3], x[4], 1.5, -.75, sums[:])
		return float64(sums[0]) + 3*float64(sums[1])
	})
	add("NormGrad", []int{1, 1, 1, 1}, func(o *vec.Ops[T], x [][]T) {
		o.NormGrad(x[0], x[1], x[2], x[3], 1.5, -.75, .5)
	})
	return cases
}

// TestAgainstGo compares every kernel of every table with the plain Go kernels in float64, for every size, and watches
// what lies around its slices.
func TestAgainstGo(t *testing.T) {
	ref, wide := vec.Go64(), kernelCases[float64]()
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		r := rand.New(rand.NewPCG(1, 2))
		for i, c := range kernelCases[float32]() {
			for _, n := range sizes {
				var x32 [][]float32
				var x64 [][]float64
				var checks []func()
				for _, w := range c.widths {
					x, check := guarded(t, r, w*n)
					wide := make([]float64, len(x))
					for i, v := range x {
						wide[i] = float64(v)
					}
					x32, x64, checks = append(x32, x), append(x64, wide), append(checks, check)
				}
				words := make([]uint32, n)
				for i := range words {
					words[i] = r.Uint32()
				}
				got, want := c.call(ops, x32, words), wide[i].call(ref, x64, words)
				if math.Abs(got-want) > 2e-6*(1+math.Abs(want))+c.slack*float64(n) {
					t.Errorf("%s of %d: %v, want %v", c.name, n, got, want)
				}
				for k := range x32 {
					checks[k]()
					for i, g := range x32[k] {
						if w := x64[k][i]; !(math.Abs(float64(g)-w) <= 2e-6*(1+math.Abs(w))) {
							t.Fatalf("%s of %d: slice %d, element %d is %v, want %v", c.name, n, k, i, g, w)
						}
					}
				}
			}
		}
	})
}

// TestZero finds one element other than zero at every place of every size, be it NaN, infinite or denormal, and takes
// both zeros for zero, among neighbours that are none.
func TestZero(t *testing.T) {
	minus := float32(math.Copysign(0, -1))
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		for _, n := range sizes {
			all := make([]float32, n+2)
			x := all[1 : n+1 : n+1]
			for i := range x {
				x[i] = minus * float32(i%2)
			}
			all[0], all[n+1] = 1, float32(math.NaN())
			if !ops.Zero(x) {
				t.Fatalf("%d zeros are not found to be zero", n)
			}
			for i := range x {
				for _, v := range []float32{1, -1, float32(math.NaN()), float32(math.Inf(-1)),
					math.SmallestNonzeroFloat32} {
					old := x[i]
					if x[i] = v; ops.Zero(x) {
						t.Fatalf("%v at %d of %d is taken for zero", v, i, n)
					}
					x[i] = old
				}
			}
		}
	})
	if ops := vec.Go64(); !ops.Zero([]float64{0, math.Copysign(0, -1)}) || ops.Zero([]float64{0, math.NaN()}) {
		t.Error("float64: zeros or NaN mistaken")
	}
}

// TestRank counts greater, equal and smaller values, the two zeros and NaN, for every size, and watches what lies
// around them.
func TestRank(t *testing.T) {
	nan := float32(math.NaN())
	values := []float32{1, -1, 0, float32(math.Copysign(0, -1)), nan, float32(math.Inf(1)), 1, 2}
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		for _, n := range sizes {
			x, y := make([]float32, n), make([]float32, n)
			counts := [2][]int32{make([]int32, n+2), make([]int32, n+2)}
			for i := range x {
				x[i], y[i] = values[i%len(values)], values[i/len(values)%len(values)]
				counts[0][i+1], counts[1][i+1] = int32(i), int32(-i)
			}
			ops.Rank(x, y, counts[0][1:n+1], counts[1][1:n+1])
			for i := range x {
				up, down := int32(0), int32(1)
				if y[i] > x[i] {
					up, down = 1, 0
				}
				if counts[0][i+1] != int32(i)+up || counts[1][i+1] != int32(-i)+down {
					t.Fatalf("%d elements: %v and %v at %d: counted %d and %d", n, x[i], y[i], i,
						counts[0][i+1]-int32(i), counts[1][i+1]+int32(i))
				}
			}
			if counts[0][0]+counts[0][n+1]+counts[1][0]+counts[1][n+1] != 0 {
				t.Fatalf("%d elements: the memory around them changed", n)
			}
		}
	})
}

// TestFunctionsInUlp measures sigmoid, tanh and exponential over their whole range in units in the last place of the
// result.
func TestFunctionsInUlp(t *testing.T) {
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		var x []float32
		for v := 1e-30; v < 80; v *= 1.0007 {
			x = append(x, float32(v), float32(-v))
		}
		y := make([]float32, len(x))
		for _, f := range []struct {
			name string
			f    func(y, x []float32)
			ref  func(x float64) float64
		}{{"sigmoid", ops.Map[vec.Sigmoid], func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
			{"tanh", ops.Map[vec.Tanh], math.Tanh}, {"exp", ops.Exp, math.Exp}} {
			f.f(y, x)
			worst, at := 0.0, float32(0)
			for i, v := range x {
				want := f.ref(float64(v))
				near := float32(math.Abs(want))
				ulp := float64(math.Nextafter32(near, 1e30)) - float64(near)
				if e := math.Abs(float64(y[i])-want) / ulp; !(e <= worst) {
					worst, at = e, v
				}
			}
			t.Logf("%s: at most %.2f ulp, at %v", f.name, worst, at)
			if !(worst <= 2.5) {
				t.Errorf("%s(%v) is off by %.2f ulp, want at most 2.5", f.name, at, worst)
			}
		}
	})
}

// TestNotANumber checks that NaN stays visible in every lane.
func TestNotANumber(t *testing.T) {
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		for at := range 40 {
			x, y, zero := make([]float32, 40), make([]float32, 40), make([]float32, 40)
			x[at] = float32(math.NaN())
			for f := range ops.Map {
				if ops.Map[f](y, x); y[at] == y[at] {
					t.Errorf("map %d of NaN is %v", f, y[at])
				}
			}
			if ops.Exp(y, x); y[at] == y[at] {
				t.Errorf("exponential of NaN is %v", y[at])
			}
			for name, s := range map[string]float64{"Sumsq": ops.Sumsq(x), "Dot": ops.Dot(zero, x),
				"Order": ops.Order(x, zero)} {
				if s == s {
					t.Errorf("%s with NaN at %d is %v", name, at, s)
				}
			}
		}
	})
}

// TestRowProducts compares Dots and Mix with float64, for every size and distance of rows, and watches what lies around
// them.
func TestRowProducts(t *testing.T) {
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		r := rand.New(rand.NewPCG(1, 3))
		for _, n := range sizes[:min(len(sizes), 20)] {
			for _, count := range []int{0, 1, 3, 4, 5, 8, 22} {
				ld := n + count%3
				rows, checkRows := guarded(t, r, max(0, (count-1)*ld+n))
				x, checkX := guarded(t, r, n)
				w, checkW := guarded(t, r, count)
				dots, checkDots := guarded(t, r, count)
				mix, checkMix := guarded(t, r, n)
				ops.Dots(dots, x, rows, ld)
				ops.Mix(mix, w, rows, ld)
				for _, check := range []func(){checkRows, checkX, checkW, checkDots, checkMix} {
					check()
				}
				sums := make([]float64, n)
				for j := range count {
					var want, size float64
					for k := range n {
						p := float64(x[k]) * float64(rows[j*ld+k])
						want, size = want+p, size+math.Abs(p)
						sums[k] += float64(w[j]) * float64(rows[j*ld+k])
					}
					if !(math.Abs(float64(dots[j])-want) <= 1e-6*(1+size)) {
						t.Fatalf("Dots of %d in %d rows: element %d is %v, want %v", n, count, j, dots[j], want)
					}
				}
				for k, want := range sums {
					if !(math.Abs(float64(mix[k])-want) <= 2e-5) {
						t.Fatalf("Mix of %d in %d rows: element %d is %v, want %v", n, count, k, mix[k], want)
					}
				}
			}
		}
	})
}

// TestDrop compares words on both sides of a limit, as unsigned numbers.
func TestDrop(t *testing.T) {
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		r := rand.New(rand.NewPCG(1, 4))
		for _, limit := range []uint32{0, 7, 1 << 31, 0xe0000000} {
			for _, n := range sizes[:min(len(sizes), 20)] {
				x, checkX := guarded(t, r, n)
				y, checkY := guarded(t, r, n)
				words := make([]uint32, n)
				for i := range words {
					words[i] = []uint32{limit, limit - 1, limit + 1, 0, 1 << 31, 0xffffffff, 5}[i%7]
				}
				ops.Drop(y, x, words, limit, 2.5)
				checkX()
				checkY()
				for i, w := range words {
					if want := x[i] * 2.5; w >= limit && y[i] != want || w < limit && y[i] != 0 {
						t.Fatalf("limit %#x of %d: element %d with word %#x is %v, want %v or 0", limit, n, i, w, y[i],
							want)
					}
				}
			}
		}
	})
}
