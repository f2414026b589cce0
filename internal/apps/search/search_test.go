package search

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/lab/try"
)

// The fixtures are checkpoints of the reference repositories, their data, and the scores PyTorch computed from them.
func fixtureOf(network string) string { return filepath.Join("../../../testdata/torch", network) }

var fixtures = []string{"vsepp", "vsrn", "vsrn-coco", "vseinf", "vseinf-bert", "saf", "sgr", "gsmn"}

// nonsense is the caption of the fixtures that has no word of their vocabulary.
const nonsense = "Zyx wvut"

func checkpointOf(network string) string {
	if network == "vseinf-bert" {
		return filepath.Join(fixtureOf(network), "checkpoint.pth")
	}
	return filepath.Join(fixtureOf(network), "checkpoint.pth.tar")
}

func optionsOf(networks ...string) Options {
	o := Options{Data: filepath.Join(fixtureOf(networks[0]), "data"), Device: device.DefaultOptions()}
	o.Device.Kind, o.Device.Threads = "cpu", 2
	for _, n := range networks {
		o.Checkpoints = append(o.Checkpoints, checkpointOf(n))
	}
	return o
}

func open(t *testing.T, o Options) *Index {
	t.Helper()
	x := try.Get(Open(o))(t)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// matrixOf reads a score matrix.
func matrixOf(t *testing.T, path string) eval.Scores {
	t.Helper()
	return try.Get(eval.LoadScores(path))(t)
}

// checkHits compares an answer over all candidates with the scores it should have.
func checkHits(t *testing.T, what string, hits []Hit, n int, want func(j int) float64, limit float64) {
	t.Helper()
	if len(hits) != n {
		t.Fatalf("%s: %d hits, want %d", what, len(hits), n)
	}
	seen := map[int]bool{}
	for at, h := range hits {
		if seen[h.Index] {
			t.Fatalf("%s: candidate %d twice", what, h.Index)
		}
		seen[h.Index] = true
		if d := math.Abs(h.Score - want(h.Index)); !(d <= limit) {
			t.Fatalf("%s: candidate %d has score %v, want %v", what, h.Index, h.Score, want(h.Index))
		}
		if at > 0 && before(hits[at-1], h) >= 0 {
			t.Fatalf("%s: %v comes before %v", what, hits[at-1], h)
		}
	}
}

// Every query of a split, typed or taken from the split, has the scores that PyTorch computed, and the ranks that
// follow from them.
func TestScoresAreThoseOfPyTorch(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			x := open(t, optionsOf(name))
			const limit = 5e-6 // as for evaluation
			s := matrixOf(t, filepath.Join(fixtureOf(name), "scores.npy"))
			n, m := s.Dims()
			if i := x.Info(); i.Images != n || i.Captions != m || i.Scored != n {
				t.Fatalf("%+v, want %d images and %d captions", i, n, m)
			}
			k := m / n
			o := try.Get(x.Outcomes(t.Context()))(t)
			if again := try.Get(x.Outcomes(t.Context()))(t); again != o {
				t.Error("outcomes are computed twice")
			}
			checkOutcome := func(what string, got Outcome, a Answer, own func(int) bool) {
				t.Helper()
				match := slices.IndexFunc(a.Hits, func(h Hit) bool { return own(h.Index) })
				wrong := slices.IndexFunc(a.Hits, func(h Hit) bool { return !own(h.Index) })
				if a.Rank != match || got.Rank != match || got.Match.Index != a.Hits[match].Index ||
					got.Wrong.Index != a.Hits[wrong].Index || (got.Margin() > 0) != (match > 0) {
					t.Errorf("%s: outcome %+v, search has rank %d and %v", what, got, a.Rank, a.Hits)
				}
			}
			for c := range m {
				if typed, err := x.Text(t.Context(), x.Caption(c), n+5); x.Caption(c) == nonsense {
					if err == nil {
						t.Errorf("caption %q is found", nonsense)
					}
				} else if err != nil || typed.Rank != -1 {
					t.Errorf("a typed query has rank %d, %v", typed.Rank, err)
				} else {
					checkHits(t, fmt.Sprintf("caption %d typed", c), typed.Hits, n,
						func(i int) float64 { return s.At(i, c) }, limit)
				}
				known := try.Get(x.OfCaption(t.Context(), c, n))(t)
				checkHits(t, fmt.Sprintf("caption %d", c), known.Hits, n, func(i int) float64 { return s.At(i, c) },
					limit)
				checkOutcome(fmt.Sprintf("caption %d", c), o.Captions[c], known, func(i int) bool { return i == c/k })
			}
			for i := range n {
				a := try.Get(x.OfImage(t.Context(), i, m))(t)
				checkHits(t, fmt.Sprintf("image %d", i), a.Hits, m, func(c int) float64 { return s.At(i, c) }, limit)
				checkOutcome(fmt.Sprintf("image %d", i), o.Images[i], a, func(c int) bool { return c/k == i })
			}
		})
	}
}

// Dot products are equal to the ones of evaluation bit for bit, so ranks can never differ.
func TestScoresAreThoseOfEvaluation(t *testing.T) {
	x := open(t, optionsOf("vseinf"))
	s := try.Get(x.members[0].all(t.Context(), x.pool))(t)
	for c := range x.Info().Captions {
		a := try.Get(x.OfCaption(t.Context(), c, 5))(t)
		for _, h := range a.Hits {
			if h.Score != s.At(h.Index, c) {
				t.Fatalf("image %d, caption %d: %v, evaluation has %v", h.Index, c, h.Score, s.At(h.Index, c))
			}
		}
	}
}

// An ensemble has the mean of the scores; its members may be of both kinds.
func TestEnsemble(t *testing.T) {
	o := optionsOf("vsepp", "gsmn")
	o.Data = filepath.Join(fixtureOf("gsmn"), "data")
	both, a, b := open(t, o), open(t, optionsOf("vsepp")), open(t, optionsOf("gsmn"))
	const query = "a rusty lantern rests near the tower"
	n := both.Info().Images
	of := func(x *Index) map[int]float64 {
		r := try.Get(x.Text(t.Context(), query, n))(t)
		m := map[int]float64{}
		for _, h := range r.Hits {
			m[h.Index] = h.Score
		}
		return m
	}
	first, second := of(a), of(b)
	r := try.Get(both.Text(t.Context(), query, n))(t)
	checkHits(t, query, r.Hits, n, func(i int) float64 { return (first[i] + second[i]) / 2 }, 0)
	for c, got := range try.Get(both.Outcomes(t.Context()))(t).Captions {
		a := try.Get(both.OfCaption(t.Context(), c, n))(t)
		if i := slices.IndexFunc(a.Hits, func(h Hit) bool { return h.Index == got.Match.Index }); i != got.Rank ||
			math.Abs(a.Hits[i].Score-got.Match.Score) > 1e-6 {
			t.Errorf("caption %d: outcome %+v, search has %v", c, got, a.Hits)
		}
	}
}

// Two passes: the candidates are the best of the shortlist, their scores from the pair scorer.
func TestShortlist(t *testing.T) {
	o := optionsOf("gsmn")
	whole := open(t, o)
	embed := optionsOf("vsepp")
	embed.Data = o.Data
	list := open(t, embed)
	o.Shortlist, o.Depth = checkpointOf("vsepp"), 4
	x := open(t, o)
	if i := x.Info(); i.Scored != 4 || i.Shortlist == "" || !i.Pairs {
		t.Errorf("info %+v", i)
	}
	n, m := x.Info().Images, x.Info().Captions
	// compare wants the four best of the list, with the scores of the whole, and returns the rank.
	compare := func(what string, own func(int) bool, ask func(x *Index, k int) (Answer, error)) int {
		t.Helper()
		got, chosen := try.Get(ask(x, m))(t), try.Get(ask(list, 4))(t)
		score := map[int]float64{}
		for _, h := range try.Get(ask(whole, m))(t).Hits {
			score[h.Index] = h.Score
		}
		for _, h := range got.Hits {
			if !slices.ContainsFunc(chosen.Hits, func(c Hit) bool { return c.Index == h.Index }) {
				t.Errorf("%s: %d is not in the shortlist", what, h.Index)
			}
		}
		checkHits(t, what, got.Hits, got.Scored, func(i int) float64 { return score[i] }, 1e-6)
		at := slices.IndexFunc(got.Hits, func(h Hit) bool { return own(h.Index) })
		if got.Rank != at || got.Scored != 4 {
			t.Errorf("%s: rank %d of %d, position %d", what, got.Rank, got.Scored, at)
		}
		return at
	}
	absent := 0
	for c := range m {
		if compare(fmt.Sprintf("caption %d", c), func(i int) bool { return i == c/(m/n) },
			func(x *Index, k int) (Answer, error) { return x.OfCaption(t.Context(), c, k) }) < 0 {
			absent++
		}
	}
	if absent == 0 || absent == m {
		t.Errorf("the match of %d of %d captions is not in the shortlist; the test wants some", absent, m)
	}
	for i := range n {
		compare(fmt.Sprintf("image %d", i), func(c int) bool { return c/(m/n) == i },
			func(x *Index, k int) (Answer, error) { return x.OfImage(t.Context(), i, k) })
	}
}

// The hardest mistakes come first, without queries whose match is first.
func TestHardest(t *testing.T) {
	x := open(t, optionsOf("vsrn"))
	o := try.Get(x.Outcomes(t.Context()))(t)
	hard := Hardest(o.Captions, 3)
	if len(hard) != 3 || hard[0].Margin() < hard[1].Margin() || hard[1].Margin() < hard[2].Margin() ||
		hard[2].Margin() <= 0 {
		t.Fatalf("hardest %+v", hard)
	}
	for _, c := range o.Captions {
		if c.Margin() > hard[0].Margin() {
			t.Errorf("%+v is harder than %+v", c, hard[0])
		}
	}
	if all := Hardest(o.Captions, 1000); slices.ContainsFunc(all, func(o Outcome) bool { return o.Rank == 0 }) {
		t.Errorf("a query whose match is first among the mistakes")
	}
}

// Queries from many goroutines have the answers they have alone.
func TestConcurrentQueries(t *testing.T) {
	o := optionsOf("gsmn")
	o.Shortlist, o.Depth = checkpointOf("vsepp"), 6
	x := open(t, o)
	n := x.Info().Captions
	want := make([]Answer, n)
	for c := range n {
		var err error
		if want[c], err = x.Text(t.Context(), x.Caption(c), 3); (err != nil) != (x.Caption(c) == nonsense) {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for c := g; c < n; c += 2 {
				if a, err := x.Text(t.Context(), x.Caption(c), 3); (err != nil) != (x.Caption(c) == nonsense) ||
					!slices.Equal(a.Hits, want[c].Hits) {
					t.Errorf("caption %d: %v, %v, want %v", c, a.Hits, err, want[c].Hits)
				}
			}
		})
	}
	wg.Wait()
}
