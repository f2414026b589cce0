package synth

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"vsetrain/lab/try"
)

// tokens splits a caption as a Treebank tokeniser does: the grammar has no other punctuation.
func tokens(caption string) []string {
	c := strings.ReplaceAll(strings.ToLower(caption), ",", " ,")
	if s, ok := strings.CutSuffix(c, "."); ok {
		c = s + " ."
	}
	return strings.Fields(c)
}

func TestDependencyTrees(t *testing.T) {
	o := little()
	o.Train = 200
	dir := generated(t, o)
	caps := lines(t, dir, "train_caps.txt")
	var trees [][][2]int
	try.Do(t, json.Unmarshal(read(t, dir, "train_caps.json"), &trees))
	if len(trees) != len(caps) || len(caps) != 1000 {
		t.Fatalf("%d trees, %d captions, want 1000", len(trees), len(caps))
	}
	for i, tree := range trees {
		n := len(tokens(caps[i]))
		governor := make([]int, n+1)
		for j, p := range tree {
			if p[1] < 1 || p[1] > n || p[0] < 0 || p[0] > n || governor[p[1]] != 0 || (p[0] == 0) != (j == 0) {
				t.Fatalf("caption %d %q: pair %d of %v is wrong", i, caps[i], j, tree)
			}
			governor[p[1]] = p[0]
		}
		if len(tree) != n {
			t.Fatalf("caption %d %q: %d pairs for %d tokens", i, caps[i], len(tree), n)
		}
		for tok := 1; tok <= n; tok++ {
			at := tok
			for steps := 0; at != 0; steps++ {
				if steps > n {
					t.Fatalf("caption %d %q: token %d lies on a cycle of %v", i, caps[i], tok, tree)
				}
				at = governor[at]
			}
		}
	}
}

func TestDependenciesOfOneCaption(t *testing.T) {
	var s sentence
	det := s.add("a")
	dog := s.add("animal")
	s.link(dog, det)
	v := s.add("runs")
	s.link(v, dog)
	s.finish(v, true)
	if got, want := s.text(), "An animal runs."; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	want := [][2]int{{0, 3}, {2, 1}, {3, 2}, {3, 4}}
	if !slices.Equal(s.pairs(), want) {
		t.Errorf("pairs %v, want %v", s.pairs(), want)
	}
}

func TestWordFrequenciesFollowZipf(t *testing.T) {
	o := little()
	o.Train, o.Regions = 2000, 1
	dir := generated(t, o)
	count := map[string]int{}
	distinct := map[string]bool{}
	caps := lines(t, dir, "train_caps.txt")
	for _, c := range caps {
		distinct[c] = true
		for _, w := range tokens(c) {
			count[w]++
		}
	}
	if len(count) < 700 || len(count) > 2500 {
		t.Errorf("%d different words, want 700 to 2500", len(count))
	}
	if share := float64(len(distinct)) / float64(len(caps)); share < 0.97 {
		t.Errorf("only %.3f of the captions are different", share)
	}
	frequencies := slices.Sorted(maps.Values(count))
	slices.Reverse(frequencies)
	var x, y []float64
	for r, n := range frequencies[:500] {
		x, y = append(x, math.Log(float64(r+1))), append(y, math.Log(float64(n)))
	}
	if _, slope := stat.LinearRegression(x, y, nil, false); slope > -0.8 || slope < -1.6 {
		t.Errorf("slope %.2f of log frequency over log rank, want about -1", slope)
	}
}

func TestInflection(t *testing.T) {
	for v, want := range map[string][3]string{
		"run": {"running", "runs", "run"}, "squat": {"squatting", "squats", "squatted"}, "lie": {"lying", "lies",
			"lied"},
		"carry": {"carrying", "carries", "carried"}, "wander": {"wandering", "wanders", "wandered"},
		"fix":   {"fixing", "fixes", "fixed"},
		"dance": {"dancing", "dances", "danced"}, "tow": {"towing", "tows", "towed"}, "play": {"playing", "plays",
			"played"},
		"grab": {"grabbing", "grabs", "grabbed"}, "push": {"pushing", "pushes", "pushed"}, "throw": {"throwing",
			"throws", "thrown"},
		"ski": {"skiing", "skis", "skied"}, "eat": {"eating", "eats", "eaten"},
	} {
		if got := [3]string{gerund(v), addS(v), participle(v)}; got != want {
			t.Errorf("%s: %v, want %v", v, got, want)
		}
	}
	for n, want := range map[string]string{"box": "boxes", "man": "men", "lady": "ladies", "donkey": "donkeys",
		"sheep": "sheep", "bench": "benches"} {
		if got := plural(n); got != want {
			t.Errorf("plural of %s: %s, want %s", n, got, want)
		}
	}
}
