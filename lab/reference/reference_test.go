package reference_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/definitions"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/reference"
	"vsetrain/lab/try"
)

func open(*testing.T) device.Device { return definitions.Over(reference.New()) }

// The reference device and what is composed of it are the definition: their gradients against finite differences.
func TestConformance(t *testing.T) { devicetest.Run(t, open) }

// Kernels that no golden case reaches, on numbers that are worked out by hand or known: Φ(1) = 0.8413…, σ(1) = 0.7310….
func TestKnownNumbers(t *testing.T) {
	d := open(t)
	put := func(x ...float64) device.View {
		b := try.Get(d.Alloc(device.Float, len(x)))(t)
		d.UploadDoubles(device.ViewOf(b), x)
		return device.ViewOf(b)
	}
	get := func(v device.View) []float64 {
		x := make([]float64, v.N)
		d.DownloadDoubles(x, v)
		return x
	}
	ints := func(x ...int32) device.Ints {
		b := try.Get(d.Alloc(device.Int32, len(x)))(t)
		d.UploadInts(device.ViewOf(b), x)
		return device.Ints{View: device.ViewOf(b), Host: x}
	}
	is := func(what string, v device.View, want ...float64) {
		t.Helper()
		for i, x := range get(v) {
			if !(math.Abs(x-want[i]) <= 1e-15*math.Abs(want[i])) && !(math.IsNaN(x) && math.IsNaN(want[i])) {
				t.Errorf("%s: element %d is %.17g, want %.17g", what, i, x, want[i])
			}
		}
	}
	for f, want := range [][]float64{
		device.ReLU: {1, 0}, device.Tanh: {0.7615941559557649, -0.7615941559557649},
		device.Sigmoid: {0.7310585786300049, 0.2689414213699951}, device.Abs: {1, 1},
		device.GELU: {0.8413447460685429, -0.15865525393145707}} {
		y := put(0, 0)
		device.Do(d, device.Activate{F: device.Activation(f), Y: y, X: put(1, -1)})
		is("Activate", y, want...)
	}
	for f, want := range []float64{device.LeakyReLU: 2, device.Exp: 7.38905609893065, device.Log: 0.6931471805599453,
		device.Sqrt: 1.4142135623730951, device.Reciprocal: 0.4, device.Inverse: 0.5} {
		y := put(0)
		device.Do(d, device.Map{F: device.Function(f), C: 0.5, X: put(2), Y: y})
		is("Map", y, want)
	}
	small := put(-2, 0.25)
	device.Do(d, device.Map{F: device.LeakyReLU, C: 0.1, X: small.Slice(0, 1), Y: small.Slice(0, 1)})
	device.Do(d, device.Map{F: device.Inverse, C: 0.5, X: small.Slice(1, 2), Y: small.Slice(1, 2)})
	is("LeakyReLU and Inverse of small values", small, -0.2, 2)

	y := put(0, 0, 0, 0)
	device.Do(d, device.MixNodes{B: 1, K: 2, H: 1, Lengths: ints(2), X: put(1, 2, 3, 4), Y: y,
		Weights: put(1, 10, 2, 20, 3, 30, 4, 40)})
	is("MixNodes", y, 1*1+2*3, 10*2+20*4, 3*1+4*3, 30*2+40*4)

	// a hinge of exactly 0 has a gradient, as torch.clamp(min=0) has
	hinge := device.LossOut{Loss: put(0, 0, 0), Grad: put(0, 0, 0, 0)}
	device.Do(d, device.Hinge{N: 2, Scores: put(0.5, 0.25, -9, 0.5), Margin: 0.25, LossOut: hinge})
	is("Hinge of 0", hinge.Loss, 0, 0, 0)
	is("gradient of a hinge of 0", hinge.Grad, -1, 2, 0, -1)

	for _, loss := range []float64{1, math.NaN(), math.Inf(-1)} {
		c, want := put(0.5), 0.5
		if device.Do(d, device.Guard{Coefficient: c, Norm: put(2), Losses: []device.View{put(loss)}}); loss != 1 {
			want = math.NaN()
		}
		is("Guard", c, want)
	}

	// DYᵀ X is 7, 10.
	f, sum := device.Factored{N: 2, O: 1, I: 2, DY: put(1, 2), X: put(1, 2, 3, 4)}, put(1)
	device.Do(d, device.SumSquaresFactored{Sum: sum, Factored: f})
	is("SumSquaresFactored", sum, 1+49+100)
	adam := func() device.Adam {
		return device.Adam{P: put(1, 2), M: put(3, 4), V: put(5, 6), Hyper: put(0.1, 1.5, 0.9), Beta1: 0.9, Beta2: 0.99,
			Eps: 0.5}
	}
	a, b, still := adam(), adam(), adam()
	a.G = put(7, 10)
	device.Do(d, a)
	device.Do(d, device.AdamFactored{Adam: b, Factored: f})
	is("AdamFactored", b.P, get(a.P)...)
	still.G, still.Clip = put(7, 10), put(math.NaN())
	device.Do(d, still)
	is("Adam with a coefficient that is no number", still.P, 1, 2)

	// A part is what it is in the whole; a row without a number is zero.
	rows := ints(7, 1, -1)
	drops := device.DropoutParams{Rate: 0.5, Key: philox.NewKey(1, "t"), Step: ints(3, 0), Rows: rows.View}
	drop := device.Dropout{DropoutParams: drops, Width: 2, X: put(1, 2, 3, 4, 5, 6), Y: put(0, 0, 0, 0, 0, 0)}
	device.Do(d, drop)
	whole, part := get(drop.Y), drop
	part.DropoutParams, part.X, part.Y = drop.Part(1, 3), drop.X.Slice(2, 6), put(9, 9, 9, 9)
	device.Do(d, part)
	is("Dropout of a part", part.Y, whole[2:]...)
	is("Dropout of a row without a number", drop.Y.Slice(4, 6), 0, 0)
}
