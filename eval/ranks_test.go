package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

// naiveRanks is the reference code: sort ascending by score and index, reverse, look the own item up.
func naiveRanks(s [][]float64, k int) (i2t, t2i []int) {
	positions := func(scores []float64) []int {
		order := make([]int, len(scores))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(a, b int) bool { return scores[order[a]] < scores[order[b]] })
		slices.Reverse(order)
		pos := make([]int, len(scores))
		for p, i := range order {
			pos[i] = p
		}
		return pos
	}
	for i, row := range s {
		i2t = append(i2t, slices.Min(positions(row)[i*k:(i+1)*k]))
	}
	for c := range s[0] {
		col := make([]float64, len(s))
		for i := range s {
			col[i] = s[i][c]
		}
		t2i = append(t2i, positions(col)[c/k])
	}
	return i2t, t2i
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
		levels := []int{1, 2, 4, 30, 1 << 30}[trial%5]
		s := make([][]float64, n)
		for i := range s {
			s[i] = make([]float64, n*k)
			for c := range s[i] {
				s[i][c] = float64(rng.IntN(levels))/8 - 1
			}
		}
		if trial%4 == 3 {
			s[0][rng.IntN(n*k)] = math.Inf(1)
			s[n-1][rng.IntN(n*k)] = math.Inf(-1)
		}
		wantI, wantT := naiveRanks(s, k)
		for _, tile := range []tileSize{{128, 256}, {1, 1}, {3, 7}, {8, 4}, {64, 5}} {
			gotI, gotT, err := ranksIn(tile, pools[trial%len(pools)], flat(s), each(flat(s), k))
			try.Do(t, err)
			same(t, "i2t", gotI, wantI)
			same(t, "t2i", gotT, wantT)
		}
	}
}

func TestRanksFollowAPermutationOfImages(t *testing.T) {
	const n, k = 23, 5
	rng := rand.New(rand.NewPCG(3, 4))
	s := randomScores(rng, n, n*k)
	perm := rng.Perm(n)
	moved := make([][]float64, n)
	for i := range moved {
		moved[i] = make([]float64, n*k)
		for c := range moved[i] {
			moved[i][c] = s[perm[i]][perm[c/k]*k+c%k]
		}
	}
	i0, t0, _ := Ranks(nil, flat(s), each(flat(s), k))
	i1, t1, err := Ranks(nil, flat(moved), each(flat(moved), k))
	try.Do(t, err)
	for i := range n {
		if i1[i] != i0[perm[i]] {
			t.Fatalf("image %d: rank %d after the permutation, %d before", i, i1[i], i0[perm[i]])
		}
		for j := range k {
			if t1[i*k+j] != t0[perm[i]*k+j] {
				t.Fatalf("caption %d of image %d: rank %d after the permutation, %d before", j, i, t1[i*k+j],
					t0[perm[i]*k+j])
			}
		}
	}
}

func randomScores(rng *rand.Rand, n, m int) [][]float64 {
	s := make([][]float64, n)
	for i := range s {
		s[i] = make([]float64, m)
		for c := range s[i] {
			s[i][c] = rng.NormFloat64()
		}
	}
	return s
}

func TestTilesInAnyOrderGiveTheSameRanks(t *testing.T) {
	const n, k, m = 37, 5, 185
	rng := rand.New(rand.NewPCG(5, 6))
	s := randomScores(rng, n, m)
	want, wantT := naiveRanks(s, k)
	d := try.Get(newDense[float64](n, m))(t)
	type tile struct{ i0, i1, c0, c1 int }
	var tiles []tile
	for i := 0; i < n; i += 10 {
		for c := 0; c < m; c += 17 {
			tiles = append(tiles, tile{i, min(n, i+10), c, min(m, c+17)})
		}
	}
	rng.Shuffle(len(tiles), func(a, b int) { tiles[a], tiles[b] = tiles[b], tiles[a] })
	for _, x := range tiles {
		var v []float64
		for i := x.i0; i < x.i1; i++ {
			v = append(v, s[i][x.c0:x.c1]...)
		}
		try.Do(t, d.Put(v, x.i0, x.i1, x.c0, x.c1))
	}
	got, gotT, err := Ranks(nil, d, each(d, k))
	try.Do(t, err)
	same(t, "i2t", got, want)
	same(t, "t2i", gotT, wantT)
}

func TestNaNScoreIsNamed(t *testing.T) {
	const n, k = 9, 2
	for _, at := range [][2]int{{0, 0}, {3, 6}, {3, 17}, {8, 1}, {8, 17}} {
		s := randomScores(rand.New(rand.NewPCG(7, 8)), n, n*k)
		s[at[0]][at[1]] = math.NaN()
		s[8][17] = math.NaN() // the first in row order is reported
		for _, tile := range []tileSize{{128, 256}, {2, 3}} {
			_, _, err := ranksIn(tile, nil, flat(s), each(flat(s), k))
			want := fmt.Sprintf("image %d and caption %d is NaN", at[0], at[1])
			try.Fails(t, err, want)
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
		if _, _, err := Ranks(nil, d, each(d, c.k)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d x %d, k %d: error %v, want one with %q", c.n, c.m, c.k, err, c.want)
		}
	}
}

func TestDenseRefusesShapes(t *testing.T) {
	if _, err := newDense[float32](1<<40, 1<<40); err == nil {
		t.Error("a matrix larger than the address space was allocated")
	}
	if _, err := newDense[float32](0, 5); err == nil {
		t.Error("a matrix without images was allocated")
	}
	d := try.Get(newDense[float32](2, 3))(t)
	if err := d.Put(make([]float32, 4), 1, 3, 0, 2); err == nil {
		t.Error("a tile beyond the last image was accepted")
	}
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
