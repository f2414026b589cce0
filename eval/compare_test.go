package eval

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

func hitsOf(t testing.TB, r Result) Hits {
	t.Helper()
	return try.Get(r.Hits())(t)
}

// By hand: two images of two captions. Image 0 ranks 0, its captions 0 and 6; image 1 ranks 7, its captions 4 and 10.
func TestHitsByHand(t *testing.T) {
	h := hitsOf(t, Result{Metrics: Metrics{Protocol: "whole"}, I2T: []int{0, 7}, T2I: []int{0, 6, 4, 10},
		Own: data.EqualGroups(2, 2)})
	want := Hits{Protocol: "whole", PerImage: 2, Counts: []byte{1, 1, 1, 1, 1, 2, 0, 0, 1, 0, 1, 1}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%+v, want %+v", h, want)
	}
	b, err := json.Marshal(h)
	var back Hits
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || !reflect.DeepEqual(back, h) {
		t.Errorf("through JSON: %+v (%v)", back, err)
	}
	r := Result{I2T: []int{0}, T2I: make([]int, 256), Own: data.EqualGroups(1, 256)}
	try.Refuses(r.Hits())(t, "256 captions per image")
}

// The values of a comparison are the recalls of the two systems, in folds too, and of several seeds their mean; the
// interval of the difference holds it, and a system does not differ from itself.
func TestCompareMeasuresWhatEvaluateMeasures(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	pool := par.New(2)
	defer pool.Close()
	o := CompareOptions{Resamples: 200, Seed: 5, Level: 0.9}
	const n, k = 5000, 2
	var results []Result
	for range 3 {
		e := try.Get(newEmbeddings(pool, gaussian(rng, n, 3), gaussian(rng, n*k, 3), 3))(t)
		r := try.Get(Evaluate(pool, e, each(e, k), FiveFolds))(t)
		results = append(results, r[0])
	}
	a, b := []Hits{hitsOf(t, results[0])}, []Hits{hitsOf(t, results[1]), hitsOf(t, results[2])}
	c := try.Get(Compare(pool, a, b, o))(t)
	if c.Protocol != "5x1k" || c.Images != n || c.Captions != n*k || c.Resamples != 200 {
		t.Errorf("%+v", c)
	}
	list := func(m Metrics) []float64 { v := m.Values(); return append(v[:], m.MRecall) }
	mean := meanOf([]Metrics{results[1].Metrics, results[2].Metrics})
	for i, d := range c.Differences {
		x, y := list(results[0].Metrics)[i], list(mean)[i]
		golden.Close(t, d.Measure, []float64{d.A.Value, d.B.Value, d.Difference.Value}, []float64{x, y, x - y},
			golden.Tolerance{Abs: 1e-9})
		for _, e := range []Estimate{d.A, d.B, d.Difference} {
			if !(e.Low <= e.Value && e.Value <= e.High) {
				t.Errorf("%s: %.3f lies outside its interval %.3f to %.3f", d.Measure, e.Value, e.Low, e.High)
			}
		}
	}
	same := try.Get(Compare(nil, a, a, o))(t)
	for _, d := range same.Differences {
		if d.P != 1 || d.Difference != (Estimate{}) {
			t.Errorf("a system differs from itself: %+v", d)
		}
	}
}

// One of ten images is better under A in its only query, and nothing else differs: sign flips always reach that, p = 1.
// Where all ten are better, two of 1024 patterns do.
func TestComparePValuesByHand(t *testing.T) {
	system := func(better int) []Hits {
		h := Hits{Protocol: "whole", PerImage: 1, Counts: make([]byte, 10*hitColumns)}
		for i := range better {
			h.Counts[i*hitColumns] = 1
		}
		return []Hits{h}
	}
	for _, c := range []struct {
		better    int
		low, high float64
	}{{1, 1, 1}, {10, 1.0 / 1024, 3.0 / 1024}} {
		r := try.Get(Compare(nil, system(c.better), system(0), DefaultCompareOptions()))(t)
		for i, d := range r.Differences {
			switch {
			case i == 0 || i == 6:
				if d.P < c.low || d.P > c.high || d.Difference.Value <= 0 {
					t.Errorf("%d better: %+v; want p between %v and %v", c.better, d, c.low, c.high)
				}
			case d.P != 1:
				t.Errorf("%s does not differ, but p is %v", d.Measure, d.P)
			}
		}
		golden.Close(t, "differences", []float64{r.Differences[0].Difference.Value, r.Differences[6].Difference.Value},
			[]float64{10 * float64(c.better), 10 * float64(c.better) / 6}, golden.FP64)
	}
}

func TestBadComparisons(t *testing.T) {
	h := func(protocol string, images, k int) Hits {
		return Hits{Protocol: protocol, PerImage: k, Counts: make([]byte, images*hitColumns)}
	}
	o := DefaultCompareOptions()
	for _, c := range []struct {
		a, b []Hits
		o    CompareOptions
		want string
	}{
		{[]Hits{h("1k", 4, 5)}, []Hits{h("whole", 4, 5)}, o, "protocol 1k with 4 images of 5 captions, and protocol " +
			"whole"},
		{[]Hits{h("1k", 4, 5)}, []Hits{h("1k", 3, 5)}, o, "and protocol 1k with 3 images of 5"},
		{[]Hits{h("1k", 4, 5)}, []Hits{h("1k", 4, 5), h("1k", 4, 1)}, o, "4 images of 1"},
		{[]Hits{h("1k", 4, 5)}, nil, o, "two systems, found 1 and 0"},
		{[]Hits{h("1k", 0, 5)}, []Hits{h("1k", 0, 5)}, o, "0 images"},
		{[]Hits{h("1k", 4, 5)}, []Hits{h("1k", 4, 5)}, CompareOptions{0, 1, 0.95}, "at least one resample"},
		{[]Hits{h("1k", 4, 5)}, []Hits{h("1k", 4, 5)}, CompareOptions{10, 1, 95}, "level of intervals 95"},
	} {
		try.Refuses(Compare(nil, c.a, c.b, c.o))(t, c.want)
	}
}

// 10,000 resamples of 1,000 images and 5,000 captions are to take less than two seconds.
func BenchmarkCompare(b *testing.B) {
	rng := rand.New(rand.NewPCG(41, 42))
	pool := par.New(0)
	defer pool.Close()
	system := func() []Hits {
		r := Result{Metrics: Metrics{Protocol: "1k"}, I2T: make([]int, 1000), T2I: make([]int, 5000)}
		for i := range r.I2T {
			r.I2T[i] = rng.IntN(20)
		}
		for c := range r.T2I {
			r.T2I[c] = rng.IntN(20)
		}
		return []Hits{hitsOf(b, r)}
	}
	x, y := system(), system()
	for b.Loop() {
		try.Get(Compare(pool, x, y, DefaultCompareOptions()))(b)
	}
}
