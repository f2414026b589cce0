package eval

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/semantic"
)

// The lists are the beginnings of the sorted rows and columns.
func TestTopsEqualSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	pool := par.New(3)
	defer pool.Close()
	for range 20 {
		n, m, depth := 1+rng.IntN(20), 1+rng.IntN(30), 1+rng.IntN(8)
		d := drawnScores(rng, n, m, 9)
		images, captions := tops(tileSize{1 + rng.IntN(n), 1 + rng.IntN(m)}, pool, d, depth, nil)
		for k, got := range slices.Concat(images, captions) {
			want := sorted(d, k)
			if want = want[:min(depth, len(want))]; !slices.Equal(got.Items, want) {
				t.Fatalf("query %d of %d x %d: found %v, want %v", k, n, m, got.Items, want)
			}
		}
	}
}

// Looking at every pair of captions gives the same.
func TestNearDuplicates(t *testing.T) {
	words := []string{"dog", "cat", "runs", "grass", "red", "ball", "child", "water", "jumps", "street"}
	rng := rand.New(rand.NewPCG(53, 54))
	var captions []string
	for range 120 {
		text := "a"
		for range 1 + rng.IntN(6) {
			text += " " + words[rng.IntN(len(words))]
		}
		captions = append(captions, text)
	}
	pool := par.New(2)
	defer pool.Close()
	got := NearDuplicates(pool, captions, data.EqualGroups(len(captions)/2, 2))
	some := 0
	for c, x := range captions {
		want := 0
		for o, y := range captions {
			a, b := map[string]bool{}, map[string]bool{}
			for _, w := range semantic.Terms(x) {
				a[w] = true
			}
			both := 0
			for _, w := range semantic.Terms(y) {
				if !b[w] && a[w] {
					both++
				}
				b[w] = true
			}
			if c/2 != o/2 && len(a) > 0 && float64(both)/float64(len(a)+len(b)-both) >= 0.6 {
				want++
			}
		}
		if got[c] != want {
			t.Errorf("%q has %d near-duplicates, want %d", x, got[c], want)
		}
		some += want
	}
	if some < 50 {
		t.Fatalf("%d near-duplicates make no test", some)
	}
}

// By hand: three images of one caption.
//
//	      c0 c1 c2      caption 0 finds image 1 (6 > 5), which the judgements call right; 1 and 2 find their own
//	i0     5  1  2      image 0 finds its own by 3, image 1 finds caption 1 by 2, image 2 finds caption 2 by 5
//	i1     6  8  0
//	i2     1  3  8
func TestDiagnosisByHand(t *testing.T) {
	s := flat([][]float64{{5, 1, 2}, {6, 8, 0}, {1, 3, 8}})
	j := &Judgements{Name: "x"}
	j.T2I.add(0, []int32{0, 1}, 0)
	j.T2I.add(2, []int32{2}, 0)
	j.I2T.add(0, []int32{0}, 0)
	d, err := Diagnose(nil, s, each(s, 1), CaptionFacts{Words: []int{4, 7, 7}, Unknown: []int{2, 0, 1}},
		[]*Judgements{j}, 2.5)
	try.Do(t, err)
	if want := []JudgedErrors{{"x", 0, 0, 1, 1}}; !reflect.DeepEqual(d.Judged, want) {
		t.Errorf("judged errors %+v, want %+v", d.Judged, want)
	}
	if want := []RecallBin{{"0 to 4", 1, 0, 100, 100}, {"5 or more", 2, 100, 100, 100}}; !reflect.DeepEqual(d.Length,
		want) {
		t.Errorf("by length %+v, want %+v", d.Length, want)
	}
	if want := []RecallBin{{"0", 1, 100, 100, 100}, {"1", 1, 100, 100, 100},
		{"2 or more", 1, 0, 100, 100}}; !reflect.DeepEqual(d.Unknown, want) {
		t.Errorf("by unknown words %+v, want %+v", d.Unknown, want)
	}
	if d.Duplicates != nil {
		t.Errorf("near-duplicates %+v of no facts", d.Duplicates)
	}
	// Captions lead by 1 (wrong), 5, 6; own scores are ahead of wrong ones by -1, 5, 6. Images lead by 3, 2, 5.
	golden.Close(t, "captions", []float64{d.T2I.AUROC, d.T2I.Satisfied, d.T2I.Margin}, []float64{1, 200.0 / 3, 2.5},
		golden.FP64)
	golden.Close(t, "images", []float64{d.I2T.AUROC, d.I2T.Satisfied}, []float64{0.5, 200.0 / 3}, golden.FP64)
	if d.T2I.Bins[0] != (LeadBin{1, 1, 0}) {
		t.Errorf("bins %+v", d.T2I.Bins)
	}
}

// By hand: of four items one answers all four queries and the others none, one or none: N = 4, 0, 1, 0, mean 1.25;
// squared deviations sum to 10.75 and cubes to 2.75^3 - 2 1.25^3 - 0.25^3 = 16.875, so the skewness is (16.875 / 4) /
// (10.75 / 4)^1.5.
func TestHubsByHand(t *testing.T) {
	lists := []TopList{{Items: []int32{0}}, {Items: []int32{0}}, {Items: []int32{0, 2}}, {Items: []int32{0}}}
	h := newHubs(lists, 4)
	golden.Close(t, "hubs", []float64{h.Expected, h.Skewness, h.Never},
		[]float64{1.25, 16.875 / 4 / math.Pow(10.75/4, 1.5), 50}, golden.FP64)
	if h.Largest[0] != (Hub{0, 4}) || h.Largest[1] != (Hub{2, 1}) || h.Items != 4 {
		t.Errorf("%+v", h)
	}
}

// Leads 1 to 6: right answers at 2, 4, 5 and 6, wrong ones at 1 and 4. Of the eight pairs right ones lead in 1+1.5+2+2
// = 6.5.
func TestAUROCWithTies(t *testing.T) {
	var lists []TopList
	right := map[int]bool{}
	for q, c := range []struct {
		by float64
		ok bool
	}{{5, true}, {1, false}, {4, true}, {4, false}, {2, true}, {6, true}} {
		lists = append(lists, TopList{[]int32{1, 0}, []float64{c.by, 0}})
		right[q] = c.ok
	}
	c := calibrate(lists, 0, func(_ int, a int32) int { return int(a) }, func(q int) (int, float64) {
		if right[q] {
			return 1, lists[q].Scores[0]
		}
		return 0, 0
	})
	golden.Close(t, "AUROC", []float64{c.AUROC}, []float64{6.5 / 8}, golden.FP64)
	if c.Margin != 0 || c.Satisfied != 0 {
		t.Errorf("an unknown margin is reported: %+v", c)
	}
}
