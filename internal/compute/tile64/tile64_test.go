package tile64

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// tile is a case: operands of float32 values, whose products are exact in float64, and the sums written out.
type tile struct {
	n, stride int
	a, b      []float64
	b32       []float32
	c, want   []float64
}

func newTile(n, stride int, single bool) *tile {
	rng := rand.New(rand.NewPCG(17, uint64(n)))
	x := &tile{n: n, stride: stride, a: make([]float64, max(0, n-1)*stride+Rows), b: make([]float64, n*Columns),
		b32: make([]float32, n*Columns), c: make([]float64, Rows*Columns)}
	for i := range x.a {
		x.a[i] = float64(float32(rng.NormFloat64() * 1e3))
	}
	for i := range x.b {
		x.b32[i] = float32(rng.NormFloat64())
		if i == 5 {
			x.b32[i] = 1e-42 // a subnormal
		}
		x.b[i] = float64(x.b32[i])
		if !single {
			x.b[i] += 1e-9 * rng.NormFloat64()
		}
	}
	for i := range x.c {
		x.c[i] = float64(float32(rng.NormFloat64()))
	}
	x.want = append([]float64(nil), x.c...)
	for i := range Rows {
		for j := range Columns {
			for t := range n {
				p := x.a[t*stride+i] * x.b[t*Columns+j]
				x.want[i*Columns+j] += p
			}
		}
	}
	return x
}

var sizes = [][2]int{{0, 8}, {1, 8}, {2, 8}, {3, 16}, {17, 8}, {37, 16}, {256, 8}}

// Ranks depend on the scores' last bits, so every kernel and the sums written out agree bit for bit.
func TestSinglesAgreeBitForBit(t *testing.T) {
	for _, s := range sizes {
		for _, k := range Available() {
			x := newTile(s[0], s[1], true)
			got := append(x.c, 77)
			k.Single(x.n, x.a, x.stride, x.b32, got)
			for i, v := range append(x.want, 77) {
				if math.Float64bits(got[i]) != math.Float64bits(v) {
					t.Fatalf("%s, %d rows %d apart: element %d is %v, want %v", k.Name, x.n, x.stride, i, got[i], v)
				}
			}
		}
	}
}

func TestDoubles(t *testing.T) {
	for _, s := range sizes {
		for _, k := range Available() {
			x := newTile(s[0], s[1], false)
			got := append(x.c, 77)
			k.Double(x.n, x.a, x.stride, x.b, got)
			for i, v := range append(x.want, 77) {
				if !(math.Abs(got[i]-v) <= 1e-9) {
					t.Fatalf("%s, %d rows %d apart: element %d is %v, want %v", k.Name, x.n, x.stride, i, got[i], v)
				}
			}
		}
	}
}

// A slice that is too short is a panic, and nothing is read or written beyond it.
func TestShortSlices(t *testing.T) {
	x := newTile(4, 8, true)
	for _, k := range Available() {
		for name, call := range map[string]func(){
			"a": func() { k.Single(4, x.a[:len(x.a)-1], 8, x.b32, x.c) },
			"b": func() { k.Single(4, x.a, 8, x.b32[:len(x.b32)-1], x.c) },
			"c": func() { k.Single(4, x.a, 8, x.b32, x.c[:len(x.c)-1]) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s with a short %s: no panic", k.Name, name)
					}
				}()
				call()
			}()
		}
	}
}

func BenchmarkTile(b *testing.B) {
	for _, k := range Available() {
		x := newTile(480, 8, true)
		for name, call := range map[string]func(){
			"double": func() { k.Double(x.n, x.a, 8, x.b, x.c) },
			"single": func() { k.Single(x.n, x.a, 8, x.b32, x.c) },
		} {
			b.Run(fmt.Sprint(k.Name, " ", name), func(b *testing.B) {
				for b.Loop() {
					call()
				}
				b.ReportMetric(float64(b.N)*2*480*Rows*Columns/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
