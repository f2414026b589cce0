package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// Every query of a batch has the answer it has alone, bit for bit: of embedders together, of pair scorers with a
// shortlist, and of ensembles.
func TestBatchIsSearch(t *testing.T) {
	list := optionsOf("gsmn")
	list.Shortlist, list.Depth = checkpointOf("vsepp"), 5
	both := optionsOf("vseinf", "vsrn")
	both.Data = filepath.Join(fixtureOf("vseinf"), "data")
	for name, o := range map[string]Options{"vsepp": optionsOf("vsepp"), "vseinf": optionsOf("vseinf"),
		"vseinf-bert": optionsOf("vseinf-bert"), "gsmn with a shortlist": list, "ensemble": both} {
		t.Run(name, func(t *testing.T) {
			x := open(t, o)
			var queries []Query
			for c := range x.Info().Captions {
				queries = append(queries, Query{Text: x.Caption(c), K: 1 + c%7})
			}
			queries = append(queries, Query{Text: " . "}, Query{Text: x.Caption(0), K: 1000}, Query{Text: x.Caption(1)})
			got := x.Batch(t.Context(), queries)
			if len(got) != len(queries) {
				t.Fatalf("%d results of %d queries", len(got), len(queries))
			}
			failed := 0
			for i, q := range queries {
				want, err := x.Text(t.Context(), q.Text, q.K)
				if fmt.Sprint(err) != fmt.Sprint(got[i].Err) {
					t.Fatalf("query %d: error %v, alone %v", i, got[i].Err, err)
				}
				if err != nil {
					failed++
					continue
				}
				if !slices.Equal(got[i].Hits, want.Hits) || got[i].Scored != want.Scored || got[i].Rank != want.Rank ||
					!slices.Equal(got[i].Unknown, want.Unknown) {
					t.Fatalf("query %d: %+v, alone %+v", i, got[i].Answer, want)
				}
			}
			if failed == 0 || failed == len(queries) {
				t.Errorf("%d of %d queries failed; the test wants some", failed, len(queries))
			}
		})
	}
}

// A vector finds what the caption finds whose embedding it is.
func TestVectorQueries(t *testing.T) {
	x := open(t, optionsOf("vseinf"))
	d := try.Get(x.Dims())(t)
	rows, _, err := x.CaptionRows(t.Context(), []string{x.Caption(3), x.Caption(4)})
	try.Do(t, err)
	got := x.Batch(t.Context(), []Query{{Text: x.Caption(4), K: 3}, {Vector: rows[d.Embedding:], K: 3},
		{Vector: rows, K: 3}, {Vector: append([]float32{float32(math.NaN())}, rows[1:d.Embedding]...)}})
	if got[0].Err != nil || got[1].Err != nil || !slices.Equal(got[0].Hits, got[1].Hits) {
		t.Errorf("%+v and %+v", got[0], got[1])
	}
	for i, want := range map[int]string{2: "the embeddings of", 3: "expected finite"} {
		if got[i].Err == nil || !strings.Contains(got[i].Err.Error(), want) || !Refused(got[i].Err) {
			t.Errorf("query %d: %v, want %q", i, got[i].Err, want)
		}
	}
	order := optionsOf("gsmn")
	var none *NoEmbeddingError
	if r := open(t, order).Batch(t.Context(), []Query{{Vector: rows}}); !errors.As(r[0].Err, &none) {
		t.Errorf("a pair scorer takes a vector: %+v", r[0])
	}
}

// Scores that are no dot products are answered too, of captions and of vectors.
func TestBatchOfOtherScores(t *testing.T) {
	run := trainRun(t, makeWorld(t, 1), func(m *models.Options) { m.VSEPP.Measure, m.VSEPP.UseAbs = "order", true })
	x := open(t, Options{Checkpoints: []string{run}})
	try.Do(t, x.PrepareBatches(t.Context()))
	query := x.Caption(7)
	want := try.Get(x.Text(t.Context(), query, 5))(t)
	row, _, err := x.CaptionRows(t.Context(), []string{query})
	try.Do(t, err)
	for i, r := range x.Batch(t.Context(), []Query{{Text: query, K: 5}, {Vector: row, K: 5}}) {
		if r.Err != nil || !slices.Equal(r.Hits, want.Hits) || r.Scored != 12 {
			t.Errorf("query %d: %+v, want %+v", i, r, want)
		}
	}
	if r := x.Batch(t.Context(), []Query{{Text: "zyzzyva"}}); !Refused(r[0].Err) {
		t.Errorf("%+v", r)
	}
}

// Embeddings that are asked for are the embeddings of the split.
func TestRows(t *testing.T) {
	x := open(t, optionsOf("vseinf"))
	m := x.members[0].(*embedder)
	captions := try.Get(m.captionRows(t.Context()))(t)
	rows, unknown, err := x.CaptionRows(t.Context(), []string{x.Caption(2), x.Caption(5), x.Caption(6)})
	if err != nil || len(unknown) != 3 {
		t.Fatal(err, unknown)
	}
	want := slices.Concat(captions[2*m.dim:3*m.dim], captions[5*m.dim:7*m.dim])
	if !slices.Equal(rows, want) {
		t.Error("captions differ from those of the split")
	}
	images, err := m.imageRows(t.Context())
	try.Do(t, err)
	var features []float32
	for _, i := range []int{1, 3} {
		p := try.Get(m.readImage(i))(t)
		features = append(features, p.features...)
	}
	if rows, err = x.ImageRows(t.Context(), features); err != nil ||
		!slices.Equal(rows, slices.Concat(images[m.dim:2*m.dim], images[3*m.dim:4*m.dim])) {
		t.Errorf("images differ from those of the split: %v", err)
	}
	if _, err = x.ImageRows(t.Context(), features[1:]); !Refused(err) {
		t.Errorf("a feature too few: %v", err)
	}
	features[0] = float32(math.NaN())
	if _, err = x.ImageRows(t.Context(), features); !Refused(err) {
		t.Errorf("NaN: %v", err)
	}
}

// The candidates of products in float32 and in bfloat16 hold the best k of float64, whatever the scores: ties,
// differences below the precision of the operands, one image again and again, values that overflow or are flushed to
// zero.
func TestCandidates(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	engine := try.Get(gemm.New(pool, gemm.Options{}))(t)
	const n, dim, k = 3 * 4096, 24, 10
	r := rand.New(rand.NewPCG(3, 4))
	random := func(scale float64, from []float32, noise float64) []float32 {
		x := make([]float32, n*dim)
		for i := range x {
			x[i] = float32(scale * (2*r.Float64() - 1))
			if from != nil {
				x[i] = from[i%dim] * float32(1+noise*(2*r.Float64()-1))
			}
		}
		return x
	}
	one := random(1, nil, 0)[:dim]
	whole, large := random(4, nil, 0), random(1e-3, nil, 0) // whole numbers lose nothing as operands
	for i := range whole {
		if whole[i] = float32(math.Round(float64(whole[i]))); i%dim == 0 {
			large[i] = float32(1 - 2*(i/dim%2))
		}
	}
	for name, images := range map[string][]float32{
		"random": random(1, nil, 0), "close": random(1, one, 1e-3), "nearly equal": random(1, one, 1e-7),
		"equal": random(1, one, 0), "tiny": random(1e-25, nil, 0), "subnormal": random(1e-38, nil, 0),
		"huge": random(1e19, nil, 0), "largest": random(3.4e38, nil, 0), "whole": whole, "one large value": large,
	} {
		m := &embedder{encoder: &encoder{opt: &Options{}}, dim: dim}
		m.images.all, m.images.ready = images, true
		q := images[:dim]
		if name == "whole" {
			q = one
		}
		exact := make([]float64, n)
		dotRows(pool, exact, images, widen(q), nil)
		for p, most := range map[gemm.Precision]int{gemm.Float32: 2 * k, gemm.BF16: 20 * k, gemm.Int16: 2 * k} {
			t.Run(fmt.Sprintf("%s/%d", name, p), func(t *testing.T) {
				if p == gemm.Int16 && !engine.HasInt16() {
					t.Skip("this processor has no products in Int16")
				}
				of := operand{precision: p, scale: scaleOf(images, dim, p)}
				as := operand{precision: p, scale: scaleOf(q, dim, p)}
				x, y := make([]float32, n*dim), make([]float32, dim)
				for j := range n {
					of.add(x[j*dim:(j+1)*dim], images[j*dim:(j+1)*dim])
				}
				as.add(y, q)
				near := &nearest{k: k, slack: slack(dim, of, as)}
				approximate := make([]float32, n)
				engine.Gemm(&gemm.Args{M: 1, N: n, K: dim, Alpha: float32(1 / of.scale), A: y, LDA: dim, TransB: true,
					B: x, LDB: dim, C: approximate, LDC: n, Precision: p})
				for j, v := range approximate {
					off, most := math.Abs(float64(v)/as.scale-exact[j]), near.slack/as.scale
					if !(off <= most) && most < math.Inf(1) {
						t.Fatalf("image %d: the score is off by %g, at most %g is expected", j, off, most)
					}
				}
				for lo := 0; lo < n; lo += 4096 {
					near.see(lo, approximate[lo:lo+4096])
				}
				got := try.Get(exactly([]*embedder{m}, [][]float32{q}, 0, near))(t)
				if want := try.Get(top(exact, nil, k))(t); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
				if name == "random" && len(near.best) > most {
					t.Errorf("%d candidates for %d", len(near.best), k)
				}
			})
		}
	}
}
