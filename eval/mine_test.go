package eval

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// Negatives are the same as from sorting all candidates, with ties, wrong captions, a relative margin, tiles of any
// size and several threads.
func TestMinedNegativesAreThoseOfSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	pool := par.New(3)
	defer pool.Close()
	for range 60 {
		n, m, depth := 2+rng.IntN(8), 2+rng.IntN(20), 1+rng.IntN(6)
		rho := []float64{0, 0.5, 0.9, 1}[rng.IntN(4)]
		d := try.Get(newDense[float32](n, m))(t)
		for i := range d.Data {
			d.Data[i] = float32(rng.IntN(9) - 3) // many ties, negative matches too
		}
		own := make([]int32, m)
		best := make([]float64, n)
		for i := range best {
			best[i] = -1e9
		}
		for c := range own {
			own[c] = int32(rng.IntN(n))
			best[own[c]] = max(best[own[c]], d.At(int(own[c]), c))
		}
		hard := func(score, match float64) bool {
			if match < 0 {
				return rho == 0 || score <= (2-rho)*match || match == -1e9
			}
			return rho == 0 || score <= rho*match
		}
		naive := func(count int, score func(k int) float64, keep func(k int) bool) (out []int32) {
			for k := range count {
				if keep(k) {
					out = append(out, int32(k))
				}
			}
			slices.SortFunc(out, func(a, b int32) int {
				return cmp.Or(cmp.Compare(score(int(b)), score(int(a))), cmp.Compare(b, a))
			})
			return out[:min(depth, len(out))]
		}
		images, captions := mineIn(tileSize{1 + rng.IntN(n), 1 + rng.IntN(m)}, pool, d, own, MineOptions{depth, rho})
		for c := range m {
			want := naive(n, func(i int) float64 { return d.At(i, c) }, func(i int) bool {
				return int(own[c]) != i && hard(d.At(i, c), d.At(int(own[c]), c))
			})
			if !slices.Equal(captions[c].Items, want) {
				t.Fatalf("rho %v: images of caption %d are %v, expected %v", rho, c, captions[c].Items, want)
			}
		}
		for i := range n {
			want := naive(m, func(c int) float64 { return d.At(i, c) }, func(c int) bool {
				return int(own[c]) != i && hard(d.At(i, c), best[i])
			})
			if !slices.Equal(images[i].Items, want) {
				t.Fatalf("rho %v: captions of image %d are %v, expected %v", rho, i, images[i].Items, want)
			}
		}
	}
}
