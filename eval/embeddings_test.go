package eval

import (
	"math"
	"math/rand/v2"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// gaussian returns rows of unit length.
func gaussian(rng *rand.Rand, rows, dim int) []float32 {
	x := make([]float32, rows*dim)
	for r := range rows {
		var norm float64
		v := make([]float64, dim)
		for j := range v {
			v[j] = rng.NormFloat64()
			norm += v[j] * v[j]
		}
		for j := range v {
			x[r*dim+j] = float32(v[j] / math.Sqrt(norm))
		}
	}
	return x
}

// plainDot is the definition: float64, components in ascending order.
func plainDot(a, b []float32) float64 {
	var s float64
	for j := range a {
		s += float64(a[j]) * float64(b[j])
	}
	return s
}

func TestEmbeddingScoresAreTheDefinitionBitForBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	pool := par.New(3)
	defer pool.Close()
	for _, sh := range []struct{ n, k, dim int }{{1, 1, 1}, {7, 5, 3}, {9, 2, 64}, {20, 5, 129}, {33, 1, 300}} {
		m := sh.n * sh.k
		im, ca := gaussian(rng, sh.n, sh.dim), gaussian(rng, m, sh.dim)
		e := try.Get(newEmbeddings(pool, im, ca, sh.dim))(t)
		for trial := range 20 {
			i0, c0 := rng.IntN(sh.n), rng.IntN(m)
			i1, c1 := i0+1+rng.IntN(sh.n-i0), c0+1+rng.IntN(m-c0)
			if trial == 0 {
				i0, i1, c0, c1 = 0, sh.n, 0, m
			}
			dst := make([]float64, (i1-i0)*(c1-c0))
			e.Tile(dst, i0, i1, c0, c1)
			for i := i0; i < i1; i++ {
				for c := c0; c < c1; c++ {
					want := plainDot(im[i*sh.dim:(i+1)*sh.dim], ca[c*sh.dim:(c+1)*sh.dim])
					if got := dst[(i-i0)*(c1-c0)+c-c0]; got != want {
						t.Fatalf("%+v tile [%d,%d)x[%d,%d): S[%d,%d] = %v, want %v", sh, i0, i1, c0, c1, i, c, got,
							want)
					}
					if got := e.At(i, c); got != want {
						t.Fatalf("%+v: At(%d,%d) = %v, want %v", sh, i, c, got, want)
					}
				}
			}
		}
	}
}

// Equal captions have equal embeddings: their scores must be exactly equal, wherever the captions are.
func TestEmbeddingRanksEqualSortingWithRepeatedRows(t *testing.T) {
	const n, k, dim = 41, 5, 70
	rng := rand.New(rand.NewPCG(13, 14))
	im, ca := gaussian(rng, n, dim), gaussian(rng, n*k, dim)
	for range 60 {
		a, b := rng.IntN(n*k), rng.IntN(n*k)
		copy(ca[a*dim:(a+1)*dim], ca[b*dim:(b+1)*dim])
		a, b = rng.IntN(n), rng.IntN(n)
		copy(im[a*dim:(a+1)*dim], im[b*dim:(b+1)*dim])
	}
	for _, threads := range []int{1, 2, 4} {
		pool := par.New(threads)
		for _, tile := range []tileSize{{128, 256}, {5, 9}} {
			sameRanks(t, tile, pool, try.Get(newEmbeddings(pool, im, ca, dim))(t), k)
		}
		pool.Close()
	}
}

func TestEmbeddingsRefuseBadInput(t *testing.T) {
	good := []float32{1, 2, 3, 4, 5, 6}
	nan := []float32{1, 2, 3, 4, float32(math.NaN()), 6}
	inf := []float32{1, 2, 3, float32(math.Inf(-1)), 5, 6}
	for _, c := range []struct {
		im, ca []float32
		dim    int
		want   string
	}{
		{good, nan, 2, "caption embedding 2: component 0 is NaN"},
		{inf, good, 3, "image embedding 1: component 0 is -Inf"},
		{good, good, 4, "not one or more rows of 4"},
		{nil, good, 2, "image embeddings: 0 values"},
		{good, good, 0, "rows of 0"},
	} {
		try.Refuses(newEmbeddings(nil, c.im, c.ca, c.dim))(t, c.want)
	}
}

func BenchmarkRanksEmbeddings1K(b *testing.B) {
	const n, k, dim = 1000, 5, 1024
	rng := rand.New(rand.NewPCG(15, 16))
	im, ca := gaussian(rng, n, dim), gaussian(rng, n*k, dim)
	pool := par.New(0)
	defer pool.Close()
	for b.Loop() {
		e := try.Get(newEmbeddings(pool, im, ca, dim))(b)
		if _, _, err := Ranks(pool, e, each(e, k)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*n*n*k*dim*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
