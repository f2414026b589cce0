package report

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
	"vsetrain/models"
)

// drawRuns draws runs of some settings, of which some have the same seed: copies, runs that were stopped or trained
// further, and runs of another day.
func drawRuns(r *rand.Rand) (runs []*Run) {
	for _, s := range [][2]string{{models.VSEPP, "LMH1"}, {models.VSEPP, "LSEH"}, {models.VSEPP, "LUWM"},
		{models.VSRN, "LMH1"}, {models.VSRN, "LSEH"}} {
		for seed := range uint64(3) {
			for range r.IntN(4) {
				var history []Point
				for e := range 1 + r.IntN(3) {
					history = append(history, Point{float64(e + 1), float64(r.IntN(60)) / 6})
				}
				run := newRun("a", s[0], s[1], seed, history...)
				run.Config.Train.Epochs, run.Config.Train.EarlyStop = 3, r.IntN(2)
				run.Config.Device.Threads = r.IntN(3)
				run.Validations[len(history)-1].Time = time.Unix(int64(r.IntN(2)), 0)
				runs = append(runs, run)
			}
		}
	}
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	for i, run := range runs {
		run.Name = fmt.Sprintf("r%d", i)
		run.Dir = "runs/" + run.Name
	}
	return runs
}

// once are the runs that count: of each setting and seed the first of the best ones.
func once(runs []*Run) (kept []*Run) {
	for i, r := range runs {
		better := func(k int, o *Run) bool { // than r, or as good and named before it
			if r.Finished() != o.Finished() {
				return o.Finished()
			}
			if r.Epochs() != o.Epochs() {
				return o.Epochs() > r.Epochs()
			}
			a, b := r.Validations[len(r.Validations)-1].Time, o.Validations[len(o.Validations)-1].Time
			return b.After(a) || b.Equal(a) && k < i
		}
		beaten := false
		for k, o := range runs {
			same := o.Config.Model.Network == r.Config.Model.Network && o.LossName() == r.LossName() &&
				o.Config.Seed == r.Config.Seed
			beaten = beaten || k != i && same && better(k, o)
		}
		if !beaten {
			kept = append(kept, r)
		}
	}
	return kept
}

// rendered is a report in every form.
func rendered(t *testing.T, r *Report) map[string]string {
	var text, page bytes.Buffer
	try.Do(t, r.Text(&text, nil))
	try.Do(t, r.HTML(&page, time.Time{}))
	return map[string]string{"text": text.String(), "page": page.String(), "md": r.Markdown(), "tex": r.LaTeX(),
		"csv": r.CSV()}
}

// A report of runs with repeated seeds is the report without them but for the lines that name them.
func TestRepeatedSeedsCountOnce(t *testing.T) {
	build := func(runs []*Run) (*DataSet, *Report) {
		sets := Collect(runs)
		return sets[0], try.Get(Build(sets, Options{After: []int{1}, Pass: 5}))(t)
	}
	repeated := 0
	for seed := range uint64(20) {
		runs := drawRuns(rand.New(rand.NewPCG(seed, 1)))
		kept := once(runs)
		d, r := build(runs)
		lines := d.Repeated()
		if len(lines) != len(runs)-len(kept) {
			t.Fatalf("draw %d: %d runs are named, want %d", seed, len(lines), len(runs)-len(kept))
		}
		repeated += len(lines)
		all := rendered(t, r)
		for _, run := range runs {
			named := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, run.Name+" ") })
			if named == slices.Contains(kept, run) {
				t.Errorf("draw %d: %s is named: %t", seed, run.Name, named)
			}
			try.Do(t, SetBase([]*DataSet{d}, run.Name))
		}
		for _, l := range lines {
			for form, out := range all {
				if form != "csv" && !strings.Contains(out, l) {
					t.Fatalf("draw %d: no %q in\n%s", seed, l, out)
				}
			}
		}
		for _, table := range r.Tables() {
			table.Notes = slices.DeleteFunc(table.Notes, func(n string) bool { return slices.Contains(lines, n) })
		}
		_, want := build(kept)
		if got, want := rendered(t, r), rendered(t, want); !maps.Equal(got, want) {
			t.Fatalf("draw %d, with repeated seeds:\n%s\nwithout:\n%s", seed, got["text"], want["text"])
		}
	}
	if repeated < 100 {
		t.Errorf("%d repeated runs were drawn", repeated)
	}
}

// A mean is the same text in all tables, whatever the order in which it was summed.
func TestEqualMeansAreTheSameText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		n, hundredths := 2+r.IntN(9), 0
		values := make([]float64, n)
		for i := range values {
			k := r.IntN(10000)
			hundredths, values[i] = hundredths+k, float64(k)/100
		}
		want := fixed(float64(hundredths)/float64(100*n), 2)
		r.Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		if got := fixed(meanOf(values), 2); got != want {
			t.Fatalf("the mean of %v is %s, want %s", values, got, want)
		}
	}
	for v, want := range map[float64]string{-0.001: "0.00", -14.964999999999998: "-14.96", 14.964999999999998: "14.96",
		14.965000000000002: "14.96", 2.5: "2.50", 1e300: "1" + strings.Repeat("0", 300) + ".00"} {
		if got := fixed(v, 2); v < 1e6 && got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
