package nn

import (
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/par"
)

func draw(p Param, n int, seed uint64, pool *par.Pool) []float32 {
	out := make([]float32, n)
	p.Fill(out, 0, seed, pool)
	return out
}

// moments returns mean, variance and kurtosis.
func moments(x []float32) (mean, variance, kurtosis float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		variance += d * d
		kurtosis += d * d * d * d
	}
	variance /= float64(len(x))
	return mean, variance, kurtosis / float64(len(x)) / (variance * variance)
}

func TestFillDrawsTheDistribution(t *testing.T) {
	const n, a = 1 << 20, 0.25
	for _, c := range []struct {
		name               string
		init               Init
		variance, kurtosis float64
	}{{"uniform", Uniform(a), a * a / 3, 1.8}, {"normal", Normal(a), a * a, 3}} {
		t.Run(c.name, func(t *testing.T) {
			x := draw(Param{Name: "w", Init: c.init}, n, 7, nil)
			mean, variance, kurtosis := moments(x)
			if math.Abs(mean) > 5*math.Sqrt(c.variance/n) {
				t.Errorf("mean %g", mean)
			}
			if math.Abs(variance/c.variance-1) > 0.01 || math.Abs(kurtosis/c.kurtosis-1) > 0.02 {
				t.Errorf("variance %g and kurtosis %g, want %g and %g", variance, kurtosis, c.variance, c.kurtosis)
			}
			var lag float64 // neighbours are independent, also within a block of the generator and across chunks
			for _, d := range []int{1, 2, 3, 4, fillChunk} {
				lag = 0
				for i := d; i < n; i++ {
					lag += float64(x[i]) * float64(x[i-d])
				}
				if r := lag / float64(n-d) / variance; math.Abs(r) > 5/math.Sqrt(n) {
					t.Errorf("correlation %g at distance %d", r, d)
				}
			}
		})
	}
}

// Every one of 64 bins of ±a gets its share, and no value leaves the bounds.
func TestUniformIsFlat(t *testing.T) {
	const n, bins, a = 1 << 20, 64, 0.1
	var count [bins]int
	for _, v := range draw(Param{Name: "w", Init: Uniform(a)}, n, 1, nil) {
		if v <= -a || v >= a {
			t.Fatalf("%g outside ±%g", v, a)
		}
		count[int((float64(v)+a)/(2*a)*bins)]++
	}
	chi := 0.0
	for _, c := range count {
		d := float64(c) - n/bins
		chi += d * d / (n / bins)
	}
	if chi > 120 { // 63 degrees of freedom: 120 has probability 2e-5
		t.Errorf("chi-square %.1f", chi)
	}
}

func TestFillDependsOnSeedNameAndPlaceAlone(t *testing.T) {
	const n = 3*fillChunk + 5
	pool := par.New(3)
	defer pool.Close()
	for _, init := range []Init{Uniform(1), Normal(1), Constant(0.5)} {
		p := Param{Name: "img.fc.weight", Init: init}
		one := draw(p, n, 7, nil)
		if !slices.Equal(one, draw(p, n, 7, pool)) {
			t.Errorf("%c: the number of threads changes the values", init.kind)
		}
		if !slices.Equal(one[:n-7], draw(p, n-7, 7, pool)) {
			t.Errorf("%c: the size of the parameter changes its first values", init.kind)
		}
		if init.kind == 'c' {
			continue
		}
		other := p
		other.Name = "txt.embed.weight"
		for what, x := range map[string][]float32{"seed": draw(p, n, 8, nil), "name": draw(other, n, 7, nil)} {
			same := 0
			for i := range x {
				if x[i] == one[i] {
					same++
				}
			}
			if same > 5 {
				t.Errorf("%c: %d of %d values stay under another %s", init.kind, same, n, what)
			}
		}
	}
}

// A parameter drawn piece by piece is the one drawn at once.
func TestFillByPieces(t *testing.T) {
	const n = 2*FillPiece + 77
	for _, init := range []Init{Uniform(1), Normal(1)} {
		p := Param{Name: "w", Init: init}
		got := make([]float32, n)
		for lo := 0; lo < n; lo += FillPiece {
			p.Fill(got[lo:min(n, lo+FillPiece)], lo, 7, nil)
		}
		if !slices.Equal(got, draw(p, n, 7, nil)) {
			t.Errorf("%c: the pieces differ from the whole", init.kind)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	x := make([]float32, 1<<22)
	p := Param{Name: "w", Init: Uniform(1)}
	b.SetBytes(int64(4 * len(x)))
	for b.Loop() {
		p.Fill(x, 0, 7, nil)
	}
}
