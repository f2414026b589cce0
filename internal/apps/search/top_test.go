package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"vsetrain/internal/compute/par"
)

// unitRows are rows of length 1 that are easily made.
func unitRows(n, dim int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n*dim)
	scale := float32(math.Sqrt(3 / float64(dim)))
	for i := range x {
		x[i] = scale * (2*r.Float32() - 1)
	}
	return x
}

// The best of many are those that sorting all of them finds, whatever the number of threads.
func TestTop(t *testing.T) {
	const n, dim = 3001, 37
	x, q := unitRows(n, dim), widen(unitRows(1, dim))
	for c := range x { // few different values, so that scores tie
		x[c] = float32(math.Round(float64(4*x[c]))) / 4
	}
	for c := range q {
		q[c] = math.Round(4*q[c]) / 4
	}
	one, three := par.New(1), par.New(3)
	defer one.Close()
	defer three.Close()
	scores, again := make([]float64, n), make([]float64, n)
	dotRows(one, scores, x, q, nil)
	dotRows(three, again, x, q, nil)
	if !slices.Equal(scores, again) {
		t.Error("scores depend on the number of threads")
	}
	all := make([]Hit, n)
	for j, s := range scores {
		var want float64
		for e := range q {
			want += float64(x[j*dim+e]) * q[e]
		}
		if s != want {
			t.Fatalf("row %d: %v, want %v", j, s, want)
		}
		all[j] = Hit{j, s}
	}
	sort.Slice(all, func(a, b int) bool {
		return all[a].Score > all[b].Score || all[a].Score == all[b].Score && all[a].Index > all[b].Index
	})
	for _, k := range []int{1, 2, 10, 100, n, n + 7} {
		if got, err := top(scores, nil, k); err != nil || !slices.Equal(got, all[:min(k, n)]) {
			t.Errorf("%d best: %v, %v", k, got[:min(3, len(got))], err)
		}
	}
	of := []int32{5, 1000, 17, 2999, 30, 8, 44, 2, 3000, 0}
	part := make([]float64, len(of))
	dotRows(three, part, x, q, of)
	for j, row := range of {
		if part[j] != scores[row] {
			t.Errorf("row %d: %v, want %v", row, part[j], scores[row])
		}
	}
	if rank := rankOf(scores, nil, func(i int) bool { return i == all[77].Index || i == all[500].Index }); rank != 77 {
		t.Errorf("rank %d, want 77", rank)
	}
	scores[9] = math.NaN()
	if _, err := top(scores, nil, 3); err == nil {
		t.Error("NaN is a score")
	}
}
