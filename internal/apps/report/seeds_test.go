package report

import (
	"bytes"
	"strings"
	"testing"

	"vsetrain/lab/try"
	"vsetrain/models"
)

// M-Recalls of four and three seeds, three of them shared, and of three other seeds. The figures come from scipy's
// ttest_rel and ttest_ind(..., equal_var=False), and from statsmodels' ttost_paired, ttost_ind and multipletests.
func TestSeedTable(t *testing.T) {
	var runs []*Run
	for i, v := range []float64{67.1, 68.4, 66.9, 67.7} {
		runs = append(runs, newRun("a", models.VSEPP, "LSEH", uint64(i), Point{1, v}))
	}
	for i, v := range []float64{65.2, 66.8, 66.1} {
		runs = append(runs, newRun("a", models.VSEPP, "LMH1", uint64(i), Point{2, v}),
			newRun("a", models.VSEPP, "LUWM", uint64(10+i), Point{2, v}))
	}
	for _, seed := range []uint64{7, 8} {
		runs = append(runs, newRun("a", models.VSRN, "LMH1", seed, Point{1, 50}),
			newRun("a", models.VSRN, "LSEH", seed, Point{1, 60}))
	}
	runs = append(runs, newRun("a", models.SGR, "LMH1", 7, Point{1, 50}),
		newRun("a", models.SGR, "LSEH", 7, Point{1, 60}))
	d := setOf(runs...)
	table := d.seedTable("seeds", "validation split", d.Comparisons(false), 2,
		recallScore("m_recall", validationRecalls))
	wants(t, squeezed(table),
		"VSE++ LMH1 LSEH 66.03 ± 0.80 67.47 ± 0.81 +1.43 0.02 to 2.85 0.0487 0.0973 0.1132 0.2265 "+
			"paired by seed (n = 3)",
		"VSE++ LUWM LSEH 66.03 ± 0.80 67.53 ± 0.68 +1.49 -0.11 to 3.09 0.0607 0.0973 0.2129 0.2265 Welch (n = 3, 4)",
		"VSRN LMH1 LSEH 50.00 ± 0.00 60.00 ± 0.00 +10.00 - - - - - none: paired by seed (n = 2)",
		"SGR LMH1 LSEH 50.00 60.00 +10.00 - - - - - none: paired by seed (n = 1)",
		"train two seeds or more",
		"validation split")
	r := try.Get(Build([]*DataSet{d}, Options{}))(t)
	if md := r.Markdown(); strings.Contains(md, "Equal within") || !strings.Contains(md,
		"M-Recall across seeds on a, validation split, best validation: primary measure") {
		t.Error("the report has no table of seeds as it should be by default")
	}
	r = try.Get(Build([]*DataSet{d}, Options{Primary: Primary{"t2i_r1", "test"}}))(t)
	if !strings.Contains(r.Markdown(), "text to image R@1 across seeds on a, validation split, best validation: "+
		"secondary") {
		t.Error("the report has no table of the secondary measure")
	}
}

func TestPrimary(t *testing.T) {
	if p, err := ParsePrimary("t2i_r1@dev"); err != nil || p != (Primary{"t2i_r1", "dev"}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "m_recall", "m_recall@train", "recall@test"} {
		try.Refuses(ParsePrimary(bad))(t, "i2t_r10")
	}
}

// Every setting is compared with the one that is asked for, also LSEH with LSEH.
func TestBase(t *testing.T) {
	sets := Collect([]*Run{newRun("a", models.VSEPP, "LMH1", 7, Point{1, 50}),
		newRun("a", models.VSEPP, "LSEH", 7, Point{1, 60}), newRun("a", models.VSEPP, "LUWM", 7, Point{1, 60}),
		newRun("a", models.VSRN, "LMH1", 7, Point{1, 50}), newRun("a", models.VSRN, "LSEH", 7, Point{1, 60})})
	try.Do(t, SetBase(sets, "vsepp-lseh-7"))
	var got []string
	for _, c := range sets[0].Comparisons(false) {
		got = append(got, c.Base.Network+" "+c.Base.Loss+" "+c.Target.Loss)
	}
	if want := "VSE++ LSEH LMH1, VSE++ LSEH LUWM, VSRN LMH1 LSEH"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	try.Fails(t, SetBase(sets, "vsepp-lseh-9"), "found 0 settings")
}

// M-Recalls after two epochs and the epochs to pass 30, by seed; the figures are scipy's (ttest_rel) and statsmodels'.
// A run that ended before an epoch has no M-Recall there, and one that never passes leaves no test.
func TestSpeed(t *testing.T) {
	var runs []*Run
	for i, v := range [][2]float64{{21, 24}, {21.5, 25.5}, {22, 23}} {
		runs = append(runs, newRun("a", models.VSEPP, "LMH1", uint64(i), Point{1, 5}, Point{2, v[0]}, Point{3, 29},
			Point{4, 31}),
			newRun("a", models.VSEPP, "LSEH", uint64(i), Point{1, 5}, Point{2, v[1]}, Point{3, 30.5}))
	}
	lseh := runs[1].Validations
	lseh[1].MRecall, lseh[2].MRecall = 24, 30
	speed := func(after []int, pass float64, orEqual bool) string {
		d := setOf(runs...)
		table := d.seedTable("speed", "speed", d.Comparisons(false), 0, speedScores(after, pass, orEqual)...)
		return squeezed(table)
	}
	for _, c := range []struct{ got, want string }{
		{speed([]int{2, 4}, 30, true), "M-Recall after epoch 2 21.50 ± 0.50 24.17 ± 1.26 +2.67 -1.13 to 6.46 0.0942 " +
			"0.0942 paired by seed (n = 3)"},
		{speed([]int{2, 4}, 30, false), "epochs to pass 30 4.0 ± 0.0 3.0 ± 0.0 (2 of 3) - - - - none: not passed by " +
			"all"},
	} {
		if !strings.Contains(c.got, c.want) || strings.Contains(c.got, "epoch 4") {
			t.Errorf("no %q in %s", c.want, c.got)
		}
	}
	for i, epoch := range []float64{2, 3, 2} {
		runs[2*i+1].Validations[int(epoch)-1].MRecall = 31
	}
	want := "epochs to pass 30 4.0 ± 0.0 2.3 ± 0.6 -1.7 -3.1 to -0.2 0.0377"
	if got := speed([]int{2}, 30, true); !strings.Contains(got, want) {
		t.Errorf("no %q in %s", want, got)
	}
}

// With one run of each setting there is no such table, and the report says why.
func TestOneSeed(t *testing.T) {
	d := Collect([]*Run{newRun("a", models.VSEPP, "LMH1", 7, Point{1, 50}),
		newRun("a", models.VSEPP, "LSEH", 7, Point{1, 60})})
	r := try.Get(Build(d, Options{}))(t)
	var b bytes.Buffer
	try.Do(t, r.Text(&b, func(s string) string { return s }))
	if text := b.String(); strings.Contains(text, "across seeds") ||
		!strings.Contains(text, "Every setting has one seed") {
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
		d := setOf(runs...)
		return d.efficiencyTable(d.Comparisons(false)).Text(nil)
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
