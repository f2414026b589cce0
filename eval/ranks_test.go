package eval

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// sorted returns the candidates of a query in the order of Ranks, by sorting. Query k is image k, or caption k - N.
func sorted(s Scores, k int) []int32 {
	n, count := s.Dims()
	at := func(c int32) float64 { return s.At(k, int(c)) }
	if k >= n {
		at, count = func(i int32) float64 { return s.At(int(i), k-n) }, n
	}
	order := make([]int32, count)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(at(b), at(a)), cmp.Compare(b, a)) })
	return order
}

// naiveRanks are the ranks by sorting, with k captions per image.
func naiveRanks(s Scores, k int) (i2t, t2i []int) {
	n, m := s.Dims()
	for i := range n {
		i2t = append(i2t, slices.IndexFunc(sorted(s, i), func(c int32) bool { return int(c)/k == i }))
	}
	for c := range m {
		t2i = append(t2i, slices.Index(sorted(s, n+c), int32(c/k)))
	}
	return i2t, t2i
}

// sameRanks compares the ranks in tiles of a size with sorting.
func sameRanks(t *testing.T, size tileSize, pool *par.Pool, s Scores, k int) {
	t.Helper()
	wantI, wantT := naiveRanks(s, k)
	gotI, gotT, _, err := ranksAndTies(size, pool, s, each(s, k))
	try.Do(t, err)
	same(t, "i2t", gotI, wantI)
	same(t, "t2i", gotT, wantT)
}

// drawnScores draws scores of a number of levels: with few of them, many scores are equal.
func drawnScores(rng *rand.Rand, n, m, levels int) *Dense[float64] {
	d := &Dense[float64]{n, m, make([]float64, n*m)}
	for i := range d.Data {
		d.Data[i] = float64(rng.IntN(levels))/8 - 5
	}
	return d
}

// each gives every image of a score matrix k captions.
func each(s Scores, k int) data.Groups {
	n, _ := s.Dims()
	return data.EqualGroups(n, k)
}

func flat(s [][]float64) *Dense[float64] {
	return &Dense[float64]{len(s), len(s[0]), slices.Concat(s...)}
}

func same(t *testing.T, what string, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: ranks %v, want %v", what, got, want)
	}
}

func TestRanksEqualSortingWithManyTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pools := []*par.Pool{nil, par.New(1), par.New(2), par.New(5)}
	for trial := range 60 {
		n, k := 1+rng.IntN(40), []int{1, 2, 5}[trial%3]
		s := drawnScores(rng, n, n*k, []int{1, 2, 4, 30, 1 << 30}[trial%5])
		if trial%4 == 3 {
			s.Data[rng.IntN(n*k)] = math.Inf(1)
			s.Data[(n-1)*n*k+rng.IntN(n*k)] = math.Inf(-1)
		}
		for _, tile := range []tileSize{{128, 256}, {1, 1}, {3, 7}, {8, 4}, {64, 5}} {
			sameRanks(t, tile, pools[trial%len(pools)], s, k)
		}
	}
}

func TestNaNScoreIsNamed(t *testing.T) {
	const n, k = 9, 2
	for _, at := range [][2]int{{0, 0}, {3, 6}, {3, 17}, {8, 1}, {8, 17}} {
		s := drawnScores(rand.New(rand.NewPCG(7, 8)), n, n*k, 1<<30)
		s.Data[at[0]*n*k+at[1]], s.Data[n*n*k-1] = math.NaN(), math.NaN() // the first in row order is reported
		for _, tile := range []tileSize{{128, 256}, {2, 3}} {
			_, _, _, err := ranksAndTies(tile, nil, s, each(s, k))
			try.Fails(t, err, fmt.Sprintf("image %d and caption %d is NaN", at[0], at[1]))
		}
	}
}

func TestRanksRefuseShapes(t *testing.T) {
	for _, c := range []struct {
		n, m, k int
		want    string
	}{
		{3, 15, 4, "their 12 captions (4 per image)"},
		{3, 14, 5, "their 15 captions"},
		{3, 15, 0, "their 0 captions"},
	} {
		d := &Dense[float32]{c.n, c.m, make([]float32, c.n*c.m)}
		try.Refuses(Measure(nil, d, each(d, c.k)))(t, c.want)
	}
}

// A matrix is filled by tiles in any order; tiles outside of it and matrices of no possible size are errors.
func TestDense(t *testing.T) {
	for _, shape := range [][2]int{{1 << 40, 1 << 40}, {0, 5}} {
		try.Refuses(newDense[float32](shape[0], shape[1]))(t, "must be positive and fit in memory")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	want := drawnScores(rng, 37, 185, 1<<30)
	d := try.Get(newDense[float64](37, 185))(t)
	tiles := tiling{37, 185, 10, 17}
	for _, k := range rng.Perm(tiles.count()) {
		i0, i1, c0, c1 := tiles.tile(k)
		part := make([]float64, (i1-i0)*(c1-c0))
		want.Tile(part, i0, i1, c0, c1)
		try.Do(t, d.Put(part, i0, i1, c0, c1))
	}
	if !slices.Equal(d.Data, want.Data) {
		t.Error("other scores than in the tiles")
	}
	try.Fails(t, d.Put(make([]float64, 4), 36, 38, 0, 2), "images [36,38)")
}

// By hand: image 0 has a wrong caption (2) with the score of its best own one, and an own one too; image 1 only own
// ones. Caption 2 has the score 5 with image 0 and with its own, captions 0, 1 and 3 have no equal.
func TestTiesByHand(t *testing.T) {
	s := [][]float64{{5, 5, 5, 1}, {4, 3, 5, 5}}
	for _, tile := range []tileSize{{128, 256}, {1, 1}, {2, 3}} {
		_, _, ties, err := ranksAndTies(tile, nil, flat(s), each(flat(s), 2))
		try.Do(t, err)
		if ties != (Ties{1, 1}) {
			t.Errorf("tiles %v: ties %+v, want one in each direction", tile, ties)
		}
	}
	folded := flat([][]float64{{1, 1, 0, 0}, {1, 1, 0, 0}, {0, 0, 2, 1}, {0, 0, 2, 2}})
	r, err := evaluateFolds(nil, folded, each(folded, 1), 2, 2)
	if err != nil || r.Metrics.Ties != (Ties{3, 3}) || r.Folds[1].Ties != (Ties{1, 1}) {
		t.Errorf("folds: ties %+v, each %+v (%v)", r.Metrics.Ties, r.Folds, err)
	}
}
