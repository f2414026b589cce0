package vec_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/vec"
)

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
