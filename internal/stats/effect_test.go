package stats

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Factors of grids with gaps, of which some decide the outcome; the truth is told by all pairs.
func TestWithoutEffect(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		sizes, decides := make([]int, 1+r.IntN(4)), make([]bool, 4)
		points := 1
		for k := range sizes {
			sizes[k], decides[k] = 1+r.IntN(3), r.IntN(2) == 0
			points *= sizes[k]
		}
		var levels [][]string
		var outcomes []float64
		for i := range points {
			if r.IntN(5) == 0 {
				continue
			}
			var l []string
			outcome := 0
			for k, at := 0, i; k < len(sizes); k++ {
				level := at % sizes[k]
				at /= sizes[k]
				l = append(l, fmt.Sprint(level))
				if decides[k] {
					outcome = 3*outcome + level
				}
			}
			for range 1 + r.IntN(2) { // some twice
				levels, outcomes = append(levels, l), append(outcomes, float64(outcome))
			}
		}
		got := WithoutEffect(levels, outcomes)
		for k := range got {
			pairs, effect := 0, false
			for i := range levels {
				for j := range i {
					differ := 0
					for m := range levels[i] {
						if levels[i][m] != levels[j][m] {
							differ++
						}
					}
					if differ == 1 && levels[i][k] != levels[j][k] {
						pairs++
						effect = effect || outcomes[i] != outcomes[j]
					}
				}
			}
			want := pairs > 0 && !effect
			if got[k] != want {
				t.Fatalf("draw %d, factor %d of %v with %v: %t, want %t", seed, k, levels, outcomes, got[k], want)
			}
			if want {
				found++
			}
		}
	}
	if found < 50 || len(WithoutEffect(nil, nil)) != 0 {
		t.Errorf("%d factors without effect were drawn", found)
	}
}
