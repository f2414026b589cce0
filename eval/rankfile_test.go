package eval

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/torchfile"
	"vsetrain/lab/try"
)

func TestRankAgreesWithSorting(t *testing.T) {
	const n, k = 23, 3
	d := drawnScores(rand.New(rand.NewPCG(5, 6)), n, n*k, 9) // many ties, none positive
	pool := par.New(3)
	defer pool.Close()
	r := try.Get(rankIn(tileSize{4, 7}, pool, d, each(d, k), Whole))(t)
	i2t, t2i := naiveRanks(d, k)
	same(t, "i2t", r.I2T, i2t)
	same(t, "t2i", r.T2I, t2i)
	for q, top := range slices.Concat(r.I2TTop, r.T2ITop) {
		if want := sorted(d, q)[0]; top != int(want) {
			t.Errorf("query %d finds %d first, sorting %d", q, top, want)
		}
	}
}

// Numbers in five folds are the numbers of the split, and recalls of the ranks are the recalls of the protocol.
func TestRankInFolds(t *testing.T) {
	const n = 5000
	rng := rand.New(rand.NewPCG(7, 8))
	e := try.Get(newEmbeddings(nil, gaussian(rng, n, 2), gaussian(rng, n, 2), 2))(t)
	r := try.Get(Rank(nil, e, each(e, 1), FiveFolds))(t)
	results := try.Get(Evaluate(nil, e, each(e, 1), FiveFolds))(t)
	for f, fold := range results[0].Folds {
		lo, hi := 1000*f, 1000*(f+1)
		if got := NewMetrics(r.I2T[lo:hi], r.T2I[lo:hi]); got.I2T != fold.I2T || got.T2I != fold.T2I {
			t.Errorf("fold %d: %+v, want %+v", f, got, fold)
		}
		for q := lo; q < hi; q++ {
			for _, top := range []int{r.I2TTop[q], r.T2ITop[q]} {
				if top < lo || top >= hi {
					t.Fatalf("fold %d: query %d finds %d", f, q, top)
				}
			}
			if (r.I2T[q] == 0) != (r.I2TTop[q] == q) {
				t.Fatalf("image %d: rank %d, first %d", q, r.I2T[q], r.I2TTop[q])
			}
		}
	}
}

func TestSaveRanks(t *testing.T) {
	dir := t.TempDir()
	r := Ranking{I2T: []int{0, 2}, I2TTop: []int{1, 3}, T2I: []int{0, 1, 1, 0}, T2ITop: []int{0, 1, 0, 1}}
	csv, pth := filepath.Join(dir, "r.csv"), filepath.Join(dir, "ranks.pth.tar")
	for _, path := range []string{csv, pth} {
		try.Do(t, SaveRanks(path, r))
	}
	b, err := os.ReadFile(csv)
	want := "direction,query,rank,top1\ni2t,0,0,1\ni2t,1,2,3\nt2i,0,0,0\nt2i,1,1,1\nt2i,2,1,0\nt2i,3,0,1\n"
	if err != nil || string(b) != want {
		t.Errorf("csv: %q, %v; want %q", b, err, want)
	}
	v := try.Get(torchfile.Load(pth))(t)
	for key, want := range map[string][2][]int{"rt": {r.I2T, r.I2TTop}, "rti": {r.T2I, r.T2ITop}} {
		pair, _ := v.(*torchfile.Dict).Get(key)
		both, ok := pair.(torchfile.Tuple)
		if !ok || len(both) != 2 {
			t.Fatalf("%s is %v", key, pair)
		}
		for i, x := range both {
			got, err := x.(*torchfile.Tensor).Float64s()
			if err != nil || len(got) != len(want[i]) {
				t.Fatalf("%s[%d]: %v, %v", key, i, got, err)
			}
			for j := range got {
				if got[j] != float64(want[i][j]) {
					t.Errorf("%s[%d][%d] = %v, want %d", key, i, j, got[j], want[i][j])
				}
			}
		}
	}
	try.Fails(t, SaveRanks(filepath.Join(dir, "r.xlsx"), r), ".csv, .pth or .pth.tar")
}
