package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// goldenMeasures are the expected values of one score matrix in evaluation.json.
type goldenMeasures struct {
	I2T  Recalls  `json:"i2t"`
	T2I  Recalls  `json:"t2i"`
	RI   []int    `json:"i2t_ranks"`
	RT   []int    `json:"t2i_ranks"`
	RSum *float64 `json:"rsum"`
	M    *float64 `json:"m_recall"`
	VSRN *float64 `json:"rsum_vsrn_reference"`
}

func (w goldenMeasures) check(t *testing.T, s Scores, k int) {
	t.Helper()
	i2t, t2i, err := Ranks(nil, s, each(s, k))
	try.Do(t, err)
	same(t, "i2t", i2t, w.RI)
	same(t, "t2i", t2i, w.RT)
	m := NewMetrics(i2t, t2i)
	w.recalls(t, m)
	for what, v := range map[string]struct {
		got  float64
		want *float64
	}{"rsum": {m.RSum, w.RSum}, "m_recall": {m.MRecall, w.M}, "rsum_vsrn_reference": {m.VSRNSum(), w.VSRN}} {
		if v.want != nil {
			golden.Close(t, what, []float64{v.got}, []float64{*v.want}, golden.FP64)
		}
	}
}

func (w goldenMeasures) recalls(t *testing.T, m Metrics) {
	t.Helper()
	list := func(r Recalls) []float64 { return []float64{r.R1, r.R5, r.R10, r.MedR, r.MeanR} }
	golden.Close(t, "i2t", list(m.I2T), list(w.I2T), golden.FP64)
	golden.Close(t, "t2i", list(m.T2I), list(w.T2I), golden.FP64)
}

func TestGoldenEvaluation(t *testing.T) {
	var doc struct {
		Cases []struct {
			Name          string
			K             int `json:"captions_per_image"`
			Sims          [][]float64
			A             [][]float64 `json:"sims_a"`
			B             [][]float64 `json:"sims_b"`
			Folds         int
			ImagesPerFold int `json:"images_per_fold"`
			Recalls       []float64
			Expected      json.RawMessage
		}
	}
	golden.Load(t, "evaluation.json", &doc)
	if len(doc.Cases) == 0 {
		t.Fatal("evaluation.json has no cases")
	}
	for _, c := range doc.Cases {
		t.Run(c.Name, func(t *testing.T) {
			want := func(v any) {
				try.Do(t, json.Unmarshal(c.Expected, v))
			}
			switch {
			case c.Recalls != nil:
				var w struct {
					Mean float64
					Std  float64 `json:"population_std"`
				}
				want(&w)
				mean, std := MeanSpread(c.Recalls...)
				golden.Close(t, "mean and std", []float64{mean, std}, []float64{w.Mean, w.Std}, golden.FP64)
			case c.Folds > 0:
				var w struct {
					Folds []goldenMeasures
					Mean  goldenMeasures
					RSum  float64        `json:"mean_rsum"`
					I2T   float64        `json:"mean_i2t_recall"`
					T2I   float64        `json:"mean_t2i_recall"`
					Full  goldenMeasures `json:"full_matrix"`
				}
				want(&w)
				s := flat(c.Sims)
				w.Full.check(t, s, c.K)
				r, err := evaluateFolds(nil, s, each(s, c.K), c.Folds, c.ImagesPerFold)
				mean, each := r.Metrics, r.Folds
				if err != nil || len(each) != len(w.Folds) {
					t.Fatalf("%d folds, %v; want %d", len(each), err, len(w.Folds))
				}
				for f, x := range w.Folds {
					x.check(t, block{s, f * c.ImagesPerFold, f * c.ImagesPerFold * c.K, c.ImagesPerFold,
						c.ImagesPerFold * c.K}, c.K)
					x.recalls(t, each[f])
				}
				w.Mean.recalls(t, mean)
				i2t, _ := mean.I2T.MeanSpread()
				t2i, _ := mean.T2I.MeanSpread()
				golden.Close(t, "mean rsum and recalls", []float64{mean.RSum, mean.MRecall * 6, i2t, t2i},
					[]float64{w.RSum, w.RSum, w.I2T, w.T2I}, golden.FP64)
			case c.A != nil:
				var w goldenMeasures
				want(&w)
				s := try.Get(Ensemble(Member{Name: "a", Scores: flat(c.A)}, Member{Name: "b", Scores: flat(c.B)}))(t)
				w.check(t, s, c.K)
			case c.Sims != nil:
				var w goldenMeasures
				want(&w)
				w.check(t, flat(c.Sims), c.K)
			default:
				t.Fatal("a case of no known kind")
			}
		})
	}
}

func TestMetricsJSONIsTheContract(t *testing.T) {
	m := NewMetrics([]int{0, 3}, []int{0, 1, 12, 0})
	m.Protocol = "1k"
	b := try.Get(json.Marshal(m))(t)
	want := `{"protocol":"1k","i2t":{"r1":50,"r5":100,"r10":100,"medr":2,"meanr":2.5},` +
		`"t2i":{"r1":50,"r5":75,"r10":75,"medr":1,"meanr":4.25},"rsum":450,"m_recall":75,"ties":{"i2t":0,"t2i":0}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestProtocols(t *testing.T) {
	for _, c := range []struct {
		protocol Protocol
		n, k     int
		want     string // protocol/images ranked per fold, or an error
	}{
		{Auto, 1000, 5, "1k"},
		{Auto, 1000, 1, "1k"},
		{Auto, 1014, 1, "whole"},
		{Auto, 30, 5, "whole"},
		{"", 30, 5, "whole"},
		{Auto, 5000, 5, "5k 5x1k"},
		{Auto, 5000, 1, "whole"},
		{Whole, 1000, 1, "whole"},
		{OneK, 1014, 1, "1k"},
		{OneK, 999, 1, "protocol 1k needs 1000 images, the split has 999"},
		{FiveK, 1000, 1, "protocol 5k needs 5000 images, the split has 1000"},
		{FiveFolds, 4999, 1, "protocol 5x1k needs 5000 images, the split has 4999"},
		{"2k", 30, 1, `unknown protocol "2k"`},
	} {
		got := ""
		results, err := Evaluate(nil, diagonal{c.n, c.n * c.k, c.k}, data.EqualGroups(c.n, c.k), c.protocol)
		if err != nil {
			got = err.Error()
		}
		for i, r := range results {
			if i > 0 {
				got += " "
			}
			got += r.Metrics.Protocol
			if r.Metrics.RSum != 600 || (r.Metrics.Protocol == "5x1k") != (len(r.Folds) == 5) {
				t.Errorf("%+v: %+v of a perfect matrix", c, r)
			}
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s of %d images, %d captions each: %q, want %q", c.protocol, c.n, c.k, got, c.want)
		}
	}
}

// diagonal is a perfect score matrix that takes no memory.
type diagonal struct{ n, m, k int }

func (d diagonal) Dims() (int, int) { return d.n, d.m }
func (d diagonal) At(i, c int) float64 {
	if c/d.k == i {
		return 1
	}
	return 0
}
func (d diagonal) Tile(dst []float64, i0, i1, c0, c1 int) {
	clear(dst)
	for i := i0; i < i1; i++ {
		for c := max(c0, i*d.k); c < min(c1, (i+1)*d.k); c++ {
			dst[(i-i0)*(c1-c0)+c-c0] = 1
		}
	}
}

// A fold is measured as its part of the matrix would be.
func TestFoldsAreParts(t *testing.T) {
	const n, k, dim, folds = 35, 3, 19, 5
	rng := rand.New(rand.NewPCG(21, 22))
	e := try.Get(newEmbeddings(nil, gaussian(rng, n, dim), gaussian(rng, n*k, dim), dim))(t)
	a := try.Get(evaluateFolds(nil, e, each(e, k), folds, n/folds))(t)
	for f := range folds {
		cut := make([]float64, n/folds*n/folds*k)
		e.Tile(cut, f*n/folds, (f+1)*n/folds, f*n/folds*k, (f+1)*n/folds*k)
		m, err := Measure(nil, &Dense[float64]{n / folds, n / folds * k, cut}, data.EqualGroups(n/folds, k))
		if err != nil || m != a.Folds[f] {
			t.Errorf("fold %d: %+v, cut out %+v, %v", f, a.Folds[f], m, err)
		}
	}
}

func TestFoldErrorSaysWhichFold(t *testing.T) {
	d, _ := newDense[float32](6, 6)
	d.Data[4*6+5] = float32(math.NaN())
	try.Refuses(evaluateFolds(nil, d, each(d, 1), 3, 2))(t, "fold 2 (images from 4", "image 0 and caption 1")
}

func TestEnsembleIsTheMeanAndRefusesMixtures(t *testing.T) {
	const n, k = 11, 5
	rng := rand.New(rand.NewPCG(23, 24))
	draw := func(n int) *Dense[float64] { return drawnScores(rng, n, n*k, 1<<30) }
	a, b, c := draw(n), draw(n), draw(n)
	s := try.Get(Ensemble(Member{"a", "x", a}, Member{"b", "x", b}, Member{"c", "x", c}))(t)
	for i := range n {
		for j := range n * k {
			if got, want := s.At(i, j), (a.At(i, j)+b.At(i, j)+c.At(i, j))/3; got != want {
				t.Fatalf("S[%d,%d] = %v, want %v", i, j, got, want)
			}
		}
	}
	sameRanks(t, tileSize{4, 7}, nil, s, k) // reads tiles

	if one, err := Ensemble(Member{"a", "x", a}); err != nil || one != Scores(a) {
		t.Errorf("an ensemble of one is %v, %v", one, err)
	}
	small := draw(n - 1)
	for _, c := range []struct {
		members []Member
		want    string
	}{
		{nil, "no models"},
		{[]Member{{"a.pth", "x", a}, {"b.pth", "x", small}}, "b.pth of 10 x 50"},
		{[]Member{{"a.pth", "x", a}, {"b.pth", "y", b}}, "a.pth and b.pth were scored on different data"},
	} {
		try.Refuses(Ensemble(c.members...))(t, c.want)
	}
}

func ExampleMeanSpread() {
	mean, spread := MeanSpread(38.9, 68.0, 78.5)
	fmt.Printf("%.1f ± %.1f\n", mean, spread)
	// Output: 61.8 ± 16.8
}

func ExampleMeanStd() {
	mean, std := MeanStd(66, 68, 70) // three seeds
	fmt.Printf("%.1f ± %.1f\n", mean, std)
	_, std = MeanStd(66)
	fmt.Println(std)
	// Output:
	// 68.0 ± 2.0
	// NaN
}
