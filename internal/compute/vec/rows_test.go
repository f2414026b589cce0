package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/vec"
)

// rowCase is a kernel of a row, or of three rows, in both precisions; results that are no slices are returned.
type rowCase struct {
	name   string
	widths []int // of the slices, in multiples of n
	got    func(o *vec.Ops[float32], x [][]float32, words []uint32) float64
	want   func(o *vec.Ops[float64], x [][]float64, words []uint32) float64
}

func rowCases() []rowCase {
	const limit = 1 << 31
	return []rowCase{
		{"GELUGrad", []int{1, 1, 1, 1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				o.GELUGrad(x[0], x[1], x[2], x[3])
				return 0
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				o.GELUGrad(x[0], x[1], x[2], x[3])
				return 0
			}},
		{"GELUGrad in place", []int{1, 1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				o.GELUGrad(x[0], x[1], x[1], x[0])
				return 0
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				o.GELUGrad(x[0], x[1], x[1], x[0])
				return 0
			}},
		{"Softmax", []int{3},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				o.Softmax(x[0], len(x[0])/3, 1.5)
				return 0
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				o.Softmax(x[0], len(x[0])/3, 1.5)
				return 0
			}},
		{"SoftmaxGrad", []int{3, 3},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				o.Softmax(x[1], len(x[0])/3, 1.5)
				o.SoftmaxGrad(x[0], x[1], len(x[0])/3, 1.5)
				return 0
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				o.Softmax(x[1], len(x[0])/3, 1.5)
				o.SoftmaxGrad(x[0], x[1], len(x[0])/3, 1.5)
				return 0
			}},
		{"Sum", []int{1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 { return o.Sum(x[0]) },
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 { return o.Sum(x[0]) }},
		{"SumDropped", []int{1, 1, 1},
			func(o *vec.Ops[float32], x [][]float32, words []uint32) float64 {
				return o.SumDropped(x[0], x[1], x[2], words, limit, 2)
			},
			func(o *vec.Ops[float64], x [][]float64, words []uint32) float64 {
				return o.SumDropped(x[0], x[1], x[2], words, limit, 2)
			}},
		{"Spread", []int{1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 { return o.Spread(x[0], .75) },
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 { return o.Spread(x[0], .75) }},
		{"Norm", []int{1, 1, 1, 1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				o.Norm(x[0], x[1], x[2], x[3], 1.5, -.75)
				return 0
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				o.Norm(x[0], x[1], x[2], x[3], 1.5, -.75)
				return 0
			}},
		{"NormSums", []int{1, 1, 1, 1, 1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				var sums [2]float32
				o.NormSums(x[0], x[1], x[2], x[3], x[4], 1.5, -.75, sums[:])
				return float64(sums[0]) + 3*float64(sums[1])
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				var sums [2]float64
				o.NormSums(x[0], x[1], x[2], x[3], x[4], 1.5, -.75, sums[:])
				return sums[0] + 3*sums[1]
			}},
		{"NormGrad", []int{1, 1, 1, 1},
			func(o *vec.Ops[float32], x [][]float32, _ []uint32) float64 {
				o.NormGrad(x[0], x[1], x[2], x[3], 1.5, -.75, .5)
				return 0
			},
			func(o *vec.Ops[float64], x [][]float64, _ []uint32) float64 {
				o.NormGrad(x[0], x[1], x[2], x[3], 1.5, -.75, .5)
				return 0
			}},
	}
}

// TestRowKernels compares the kernels of softmax, layer norm and GELU with float64, for every size, and watches what
// lies around them.
func TestRowKernels(t *testing.T) {
	ref := vec.Go64()
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		r := rand.New(rand.NewPCG(1, 5))
		for _, c := range rowCases() {
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
				what := fmt.Sprintf("%s of %d", c.name, n)
				got, want := c.got(ops, x32, words), c.want(ref, x64, words)
				if math.Abs(got-want) > 2e-6*(1+math.Abs(want))+1e-7*float64(n) { // of sums whose terms cancel
					t.Errorf("%s: %v, want %v", what, got, want)
				}
				for k := range x32 {
					checks[k]()
					for i, g := range x32[k] {
						if w := x64[k][i]; !(math.Abs(float64(g)-w) <= 2e-6*(1+math.Abs(w))) {
							t.Fatalf("%s: slice %d, element %d is %v, want %v", what, k, i, g, w)
						}
					}
				}
			}
		}
	})
}

// TestSoftmaxExtremes checks scores far apart, equal ones, -Inf in place of what is masked, and that NaN stays in its
// row.
func TestSoftmaxExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		for _, n := range []int{2, 3, 8, 15, 16, 17, 33} {
			p := make([]float32, 4*n)
			for j := range n {
				p[j], p[n+j], p[2*n+j], p[3*n+j] = 1e30, inf, float32(j)*1e3, 1
			}
			p[n+n/2], p[3*n+n-1] = 5, nan
			ops.Softmax(p, n, 0.5)
			for j := range n {
				hot, last := float32(0), float32(0)
				if j == n/2 {
					hot = 1
				}
				if j == n-1 {
					last = 1
				}
				for row, want := range []float32{1 / float32(n), hot, last} {
					if got := p[row*n+j]; !(math.Abs(float64(got-want)) < 1e-7) {
						t.Errorf("row %d of %d: element %d is %v, want %v", row, n, j, got, want)
					}
				}
				if got := p[3*n+j]; got == got {
					t.Errorf("row with NaN of %d: element %d is %v", n, j, got)
				}
			}
		}
	})
}

// TestPick compares picked factors with the entries of the table, for every size, indices beyond its end included.
func TestPick(t *testing.T) {
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		r := rand.New(rand.NewPCG(1, 6))
		for _, n := range sizes {
			for _, room := range []int{1, 2, 36} {
				table, checkTable := guarded(t, r, room)
				x, checkX := guarded(t, r, n)
				mul, checkMul := guarded(t, r, n)
				madd, checkMAdd := guarded(t, r, n)
				before := slices.Clone(madd)
				index := make([]int32, n)
				for i := range index {
					index[i] = int32(r.IntN(room+1)) - int32(i%97/96) // the last one is beyond, and so is -1
				}
				ops.PickMul(mul, table, index, x)
				ops.PickMAdd(madd, table, index, x)
				for _, check := range []func(){checkTable, checkX, checkMul, checkMAdd} {
					check()
				}
				for i, j := range index {
					if j < 0 || int(j) >= room {
						j = int32(room - 1)
					}
					product := float64(table[j]) * float64(x[i])
					if mul[i] != float32(product) ||
						!(math.Abs(float64(madd[i])-float64(before[i])-product) <= 1e-6*(1+math.Abs(product))) {
						t.Fatalf("%d of %d: index %d gives %v and %v for %v", i, n, index[i], mul[i], madd[i], product)
					}
				}
			}
		}
	})
}

// TestMixRows compares rows of products with the results of Mix, weights by rows and by columns, and watches what lies
// between the rows.
func TestMixRows(t *testing.T) {
	tables(t, func(t *testing.T, ops *vec.Ops[float32]) {
		r := rand.New(rand.NewPCG(1, 7))
		for _, n := range []int{1, 15, 16, 32, 64, 65, 128} {
			for _, m := range []int{0, 1, 3, 4, 5, 9} {
				for _, count := range []int{0, 1, 2, 7} {
					ld, out := n+3, n+2
					rows, checkRows := guarded(t, r, max(0, (count-1)*ld+n))
					w, checkW := guarded(t, r, m*count)
					dst, checkDst := guarded(t, r, m*out)
					before := slices.Clone(dst)
					for _, by := range [][2]int{{count, 1}, {1, m}} {
						ops.MixRows(dst, out, w, by[0], by[1], rows, ld, m, n, count)
						for _, check := range []func(){checkRows, checkW, checkDst} {
							check()
						}
						weights, want := make([]float32, count), make([]float32, n)
						for i := range m {
							for j := range weights {
								weights[j] = w[i*by[0]+j*by[1]]
							}
							ops.Mix(want, weights, rows, ld)
							if got := dst[i*out : i*out+n]; !slices.Equal(got, want) {
								t.Fatalf("row %d of %d x %d by %d: %v, Mix gives %v", i, m, n, count, got, want)
							}
							if rest := (i + 1) * out; !slices.Equal(dst[rest-2:rest], before[rest-2:rest]) {
								t.Fatalf("%d x %d by %d: what follows row %d changed", m, n, count, i)
							}
						}
					}
				}
			}
		}
	})
}
