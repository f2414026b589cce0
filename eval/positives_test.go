package eval

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// By hand, of a query with three positives at positions 0, 2 and 5 (from 0): the first three candidates hold two of
// them, so R-Precision is 2/3; precision is 1 at the first candidate and 2/3 at the third, the second is none: mAP@R is
// (1 + 0 + 2/3) / 3 = 5/9. Of one with positives at 1 and 7: nothing at the first, 1/2 at the second: mAP@R is 1/4,
// R-Precision 1/2. Of one with a positive at 5: nothing, found among the first ten alone.
func TestJudgedRecallsByHand(t *testing.T) {
	for _, c := range []struct {
		positions [][]int32
		absent    []int32
		want      JudgedRecalls
	}{
		{[][]int32{{0, 2, 5}}, []int32{0}, JudgedRecalls{1, 3, 0, 500.0 / 9, 200.0 / 3, 100, 100, 100}},
		{[][]int32{{1, 7}}, []int32{0}, JudgedRecalls{1, 2, 0, 25, 50, 0, 100, 100}},
		// four positives, rank 4 is none of them
		{[][]int32{{1, 7}}, []int32{2}, JudgedRecalls{1, 4, 2, 12.5, 25, 0, 100, 100}},
		{[][]int32{{5}}, []int32{0}, JudgedRecalls{1, 1, 0, 0, 0, 0, 0, 100}},
		{[][]int32{{0, 1, 2, 3}}, []int32{0}, JudgedRecalls{1, 4, 0, 100, 100, 100, 100, 100}},
		{[][]int32{{0, 2, 5}, {1, 7}, {5}, {0, 1, 2, 3}}, []int32{0, 0, 0, 0},
			JudgedRecalls{4, 10, 0, (500.0/9 + 125) / 4, (200.0/3 + 150) / 4, 50, 75, 100}},
		{nil, nil, JudgedRecalls{}},
	} {
		var rel Relevance
		for q, list := range c.positions {
			rel.add(int32(q), list, int(c.absent[q]))
		}
		got := rel.recalls(rel.outcomes(c.positions))
		if got.Queries != c.want.Queries || got.Positives != c.want.Positives || got.Absent != c.want.Absent {
			t.Errorf("%v: %d queries, %d positives, %d absent", c.positions, got.Queries, got.Positives, got.Absent)
		}
		golden.Close(t, "measures", got.list(), c.want.list(), golden.FP64)
	}
}

func (r JudgedRecalls) list() []float64 {
	return []float64{r.MAPAtR, r.RPrecision, r.R1, r.R5, r.R10}
}

// The order of Ranks, among ties too, gives the positions that sorting every row and column gives, in tiles of any
// size.
func TestPositionsEqualSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	pool := par.New(3)
	defer pool.Close()
	for trial := range 40 {
		n, m := 1+rng.IntN(30), 1+rng.IntN(50)
		d := drawnScores(rng, n, m, []int{1, 3, 20, 1 << 30}[trial%4])
		size := tileSize{1 + rng.IntN(n), 1 + rng.IntN(m)}
		i2t, t2i := randomRelevance(rng, n, m), randomRelevance(rng, m, n)
		images, captions, err := positions(size, pool, d, &i2t, &t2i)
		try.Do(t, err)
		check := func(rel *Relevance, got [][]int32, first int) {
			for q, item := range rel.Queries {
				var want []int32
				for at, c := range sorted(d, first+int(item)) {
					if slices.Contains(rel.of(q), c) {
						want = append(want, int32(at))
					}
				}
				if !slices.Equal(got[q], want) {
					t.Fatalf("trial %d, query %d: positions %v, want %v", trial, first+int(item), got[q], want)
				}
			}
		}
		check(&i2t, images, 0)
		check(&t2i, captions, n)
	}
}

// randomRelevance judges some of the queries, in any order, with some of the candidates.
func randomRelevance(rng *rand.Rand, queries, candidates int) (r Relevance) {
	for _, q := range rng.Perm(queries)[:rng.IntN(queries+1)] {
		var list []int32
		for _, c := range rng.Perm(candidates)[:1+rng.IntN(candidates)] {
			list = append(list, int32(c))
		}
		r.add(int32(q), list, 0)
	}
	return r
}

func TestBadRelevance(t *testing.T) {
	d := &Dense[float64]{2, 3, make([]float64, 6)}
	good := Relevance{[]int32{0}, []int32{0, 1}, []int32{1}, nil}
	for _, c := range []struct {
		rel  Relevance
		want string
	}{
		{Relevance{[]int32{2}, []int32{0, 1}, []int32{1}, nil}, "image to text: query 2 of 2"},
		{Relevance{[]int32{0}, []int32{0, 1}, []int32{3}, nil}, "query 0: positive 3 of 3"},
		{Relevance{[]int32{0}, []int32{0, 0}, nil, nil}, "query 0 has no positives"},
		{Relevance{[]int32{1, 1}, []int32{0, 1, 2}, []int32{0, 1}, nil}, "query 1 is judged twice"},
	} {
		_, _, err := Judge(nil, d, &Judgements{I2T: c.rel, T2I: good})
		try.Fails(t, err, c.want)
	}
}

// The cases were measured by the Python package eccv_caption. They are read from files as a user has them.
func TestGoldenJudgements(t *testing.T) {
	var doc struct {
		Cases []struct {
			Images     int
			PerImage   int     `json:"captions_per_image"`
			ImageIDs   []int64 `json:"image_ids"`
			CaptionIDs []int64 `json:"caption_ids"`
			Scores     [][]float64
			Judgments  map[string]json.RawMessage
			Expected   struct{ I2T, T2I JudgedRecalls } // in shares
		}
	}
	golden.Load(t, "judgments.json", &doc)
	if len(doc.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range doc.Cases {
		text := func(numbers []int64) (out []string) {
			for _, n := range numbers {
				out = append(out, strconv.FormatInt(n, 10))
			}
			return out
		}
		ids := testIDs(t, text(c.ImageIDs), text(c.CaptionIDs))
		dir := t.TempDir()
		whole := try.Get(json.Marshal(c.Judgments))(t)
		write := func(name string, b []byte) {
			try.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
		}
		write("golden.json", whole)
		for _, d := range []string{imageToCaption, captionToImage} {
			write("pair_"+d+".json", c.Judgments[d])
		}
		for _, path := range []string{dir, filepath.Join(dir, "golden.json"),
			filepath.Join(dir, "pair_"+captionToImage+".json")} {
			sets, err := FindJudgements(path)
			if err != nil || len(sets) != 1 {
				t.Fatalf("%s: %v, %v", path, sets, err)
			}
			j := try.Get(ReadJudgements(sets[0], ids))(t)
			got, _, err := Judge(nil, flat(c.Scores), j)
			try.Do(t, err)
			for _, d := range [][2]JudgedRecalls{{got.I2T, c.Expected.I2T}, {got.T2I, c.Expected.T2I}} {
				want := d[1].list()
				for i := range want {
					want[i] *= 100
				}
				golden.Close(t, j.Name, d[0].list(), want, golden.FP64)
				if d[0].Queries != d[1].Queries {
					t.Errorf("%s: %d queries, want %d", j.Name, d[0].Queries, d[1].Queries)
				}
			}
		}
	}
}

func testIDs(t testing.TB, images, captions []string) *IDs {
	t.Helper()
	ids := &IDs{Split: "split test of world", Images: images, Captions: captions}
	try.Do(t, ids.index())
	return ids
}
