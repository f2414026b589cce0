package report

import (
	"bytes"
	"strings"
	"testing"

	"vsetrain/models"
)

// M-Recalls of four and three seeds: the figures are those of scipy's ttest_ind(..., equal_var=False) with these
// values.
func TestSeedTable(t *testing.T) {
	var runs []*Run
	for i, v := range []float64{67.1, 68.4, 66.9, 67.7} {
		runs = append(runs, newRun("a", models.VSEPP, "LSEH", uint64(i), Point{1, v}))
	}
	for i, v := range []float64{65.2, 66.8, 66.1} {
		runs = append(runs, newRun("a", models.VSEPP, "LMH1", uint64(i), Point{2, v}))
	}
	runs = append(runs, newRun("a", models.VSEPP, "LMH2", 7, Point{1, 50}),
		newRun("a", models.VSRN, "LMH1", 7, Point{1, 50}), newRun("a", models.VSRN, "LMH1", 8, Point{1, 50}),
		newRun("a", models.VSRN, "LSEH", 7, Point{1, 60}), newRun("a", models.VSRN, "LSEH", 8, Point{1, 60}))
	d := Collect(runs)[0]
	table := d.SeedTable("seeds", "validation split", d.Comparisons(false), validationRecalls)
	text := strings.Join(strings.Fields(table.Text(nil)), " ")
	for _, want := range []string{
		"VSE++ LMH1 LSEH 66.03 ± 0.80 3 67.53 ± 0.68 4 +1.49 -0.11 to 3.09 0.0607",
		"VSE++ LMH2 LSEH 50.00 1 67.53 ± 0.68 4 +17.53 - -",
		"No test across seeds for VSE++ LMH2: one run says nothing of the spread between runs; train two seeds or " +
			"more.",
		"No test for VSRN LMH1 and LSEH: the runs of each are equal.",
		"validation split",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, table.Text(nil))
		}
	}
	r, err := Build([]*DataSet{d}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Markdown(), "M-Recall of settings across seeds on a, validation split, best validation") {
		t.Error("the report has no table of seeds")
	}
}

// With one run of each setting there is no such table, and the report says why.
func TestOneSeed(t *testing.T) {
	d := Collect([]*Run{newRun("a", models.VSEPP, "LMH1", 7, Point{1, 50}),
		newRun("a", models.VSEPP, "LSEH", 7, Point{1, 60})})
	r, err := Build(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Text(&b, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Contains(text, "across seeds") ||
		!strings.Contains(text, "Every setting has one run") {
		t.Errorf("report of one seed:\n%s", text)
	}
}

// By hand: three seeds are 3, 4 and 8 epochs faster, mean 5, sample deviation sqrt(7), so the interval is 5 ± 4.303
// sqrt(7 / 3) = 5 ± 6.572. A pair that did not get there leaves no interval, nor do runs of different seeds.
func TestEfficiencyInterval(t *testing.T) {
	var runs []*Run
	for i, faster := range []float64{3, 4, 8} {
		runs = append(runs, newRun("a", models.VSEPP, "LMH1", uint64(i), Point{10, 20}),
			newRun("a", models.VSEPP, "LSEH", uint64(i), Point{10 - faster, 21}))
	}
	text := func(runs []*Run) string {
		d := Collect(runs)[0]
		return d.EfficiencyTable(d.Comparisons(false)).Text(nil)
	}
	if got := text(runs); !strings.Contains(got, "-11.6 to 1.6") || !strings.Contains(got, "-5.0 ± 2.6") ||
		!strings.Contains(got, "Student's t") {
		t.Errorf("three pairs:\n%s", got)
	}
	lost := append([]*Run{newRun("a", models.VSEPP, "LMH1", 9, Point{10, 20}),
		newRun("a", models.VSEPP, "LSEH", 9, Point{10, 19})}, runs...)
	if got := text(lost); strings.Contains(got, " to ") || !strings.Contains(got, "3 of 4") {
		t.Errorf("a pair that was not reached:\n%s", got)
	}
	if got := text([]*Run{runs[0], runs[3]}); strings.Contains(got, " to ") || strings.Contains(got, "95 %") {
		t.Errorf("one pair of two seeds:\n%s", got)
	}
}
