package report

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/evaluate"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// measuredRun is a run whose test split of 200 images was measured: it answers a query with the given probability.
func measuredRun(rng *rand.Rand, lossName string, seed uint64, chance float64) *Run {
	r := newRun("a", models.VSEPP, lossName, seed, Point{1, 50})
	res := eval.Result{I2T: make([]int, 200), T2I: make([]int, 1000), Own: data.EqualGroups(200, 5)}
	for _, ranks := range [][]int{res.I2T, res.T2I} {
		for i := range ranks {
			if rng.Float64() > chance {
				ranks[i] = 20
			}
		}
	}
	res.Metrics = eval.NewMetrics(res.I2T, res.T2I)
	res.Metrics.Protocol, res.Metrics.Ties = "whole", eval.Ties{I2T: 1, T2I: int(seed)}
	h, err := res.Hits()
	if err != nil {
		panic(err)
	}
	r.Test, r.Hits = []eval.Metrics{res.Metrics}, []eval.Hits{h}
	r.Judged = []eval.JudgedMetrics{{Name: "eccv", I2T: eval.JudgedRecalls{Queries: 9, Positives: 30,
		MAPAtR: 20 + float64(seed), Absent: 2}, T2I: eval.JudgedRecalls{Queries: 40, Positives: 80}}}
	return r
}

// Two seeds of both losses: the table shows the mean recalls of both, without the third seed of one of them, and finds
// the difference of ten points.
func TestPairedTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	runs := []*Run{measuredRun(rng, "LMH1", 7, 0.5), measuredRun(rng, "LMH1", 8, 0.5), measuredRun(rng, "LSEH", 7, 0.6),
		measuredRun(rng, "LSEH", 8, 0.6), measuredRun(rng, "LSEH", 9, 0.9)}
	d := setOf(runs...)
	table, err := d.pairedTable("pairs", "whole", d.Comparisons(false))
	if err != nil || len(table.Rows) != 3 {
		t.Fatalf("%+v, %v", table, err)
	}
	row := table.Rows[0].Cells
	mean := func(a, b *Run) float64 { return (a.Test[0].MRecall + b.Test[0].MRecall) / 2 }
	if row[1].Text != "LMH1" || row[2].Text != "LSEH" || math.Abs(row[4].Value-mean(runs[0], runs[1])) > 1e-9 ||
		math.Abs(row[5].Value-mean(runs[2], runs[3])) > 1e-9 ||
		!strings.HasPrefix(row[6].Text, "+") || row[8].Value > 0.001 {
		t.Errorf("%s", table.Text(nil))
	}
	wants(t, table.Text(nil), "protocol whole", "test split", "200 images", "10000 resamples, seed 1",
		"not other seeds", "at most 10 queries")
	judged := d.JudgedTables()
	if len(judged) != 1 {
		t.Fatalf("%d tables of judgements", len(judged))
	}
	wants(t, squeezed(judged[0]), "Judgements eccv on a", "VSE++ LMH1 27.5 ± 0.7", "9 images with 30 right captions, "+
		"40 captions with 80 right images", "2 of those are not in the split")
	runs[3].Hits[0] = eval.Hits{Protocol: "whole", PerImage: 5, Counts: make([]byte, 6)}
	try.Refuses(d.pairedTable("pairs", "whole", d.Comparisons(false)))(t, "200 images of 5 captions",
		"VSE++ LMH1 and LSEH on a")
}

// A measurement is used again for its own judgements only, and one without hits, of an earlier version, not at all.
func TestMeasurementKnowsItsJudgements(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x_image_to_caption.json", "x_caption_to_image.json"} {
		try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o666))
	}
	files, err := judgementFiles([]string{dir})
	if err != nil || len(files) != 2 || files[0].Size != 2 {
		t.Fatalf("%+v, %v", files, err)
	}
	a := Measurement{Checkpoint: "c", Judgements: files}
	later := slices.Clone(files)
	later[1].Modified = later[1].Modified.Add(time.Second)
	for _, c := range []struct {
		judgements []sourceFile
		covers     bool
	}{{files, true}, {files[:1], true}, {later, false}, {nil, true}} {
		if got := a.covers(c.judgements); got != c.covers {
			t.Errorf("judgements %v: covered is %v", c.judgements, got)
		}
	}
	// Judgements of before are measured again, each pair once, unless their files have changed.
	now := Measurement{Checkpoint: "c"}
	got := now.addJudgements(a, []string{"y"})
	if !slices.Equal(got, []string{"y", files[0].Path}) || len(now.Judgements) != 2 {
		t.Errorf("paths %v, judgements %v", got, now.Judgements)
	}
	a.Judgements = later
	now = Measurement{Checkpoint: "c"}
	if got := now.addJudgements(a, nil); got != nil || now.Judgements != nil {
		t.Errorf("changed files: paths %v", got)
	}
	old := []byte(`{"checkpoint":"c","results":[{"protocol":"1k"}]}`)
	try.Do(t, os.WriteFile(filepath.Join(dir, TestName), old, 0o666))
	if _, ok := ReadMeasurement(dir); ok {
		t.Error("a measurement without hits is used")
	}
}

// A run without its checkpoints has what was measured of them, and an error for what was not.
func TestMeasurementWithoutWeights(t *testing.T) {
	dir := t.TempDir()
	kept := `{"split":"test","precision":"fp32","results":[{"protocol":"1k"}],"hits":[{"protocol":"1k"}]}`
	try.Do(t, os.WriteFile(filepath.Join(dir, TestName), []byte(kept), 0o666))
	ask := func(change func(*evaluate.Request)) (*Run, error) {
		r := &Run{Dir: dir}
		q := evaluate.Request{Device: device.Options{Precision: "fp32"}}
		change(&q)
		return r, r.MeasureTest(t.Context(), q)
	}
	if r, err := ask(func(*evaluate.Request) {}); err != nil || len(r.Test) != 1 || len(r.Hits) != 1 {
		t.Errorf("%+v, %v", r.Test, err)
	}
	for want, change := range map[string]func(*evaluate.Request){
		"no diagnosis":                     func(q *evaluate.Request) { q.Diagnose = true },
		"in precision fp32; expected fp64": func(q *evaluate.Request) { q.Device.Precision = "fp64" },
	} {
		try.Refuses(ask(change))(t, want)
	}
	try.Do(t, os.Mkdir(filepath.Join(dir, runfs.CheckpointsName), 0o777))
	try.Refuses(ask(func(*evaluate.Request) {}))(t, "checkpoint")
}

// Runs are compared with the base one by one; one that was measured on another split, or not at all, is left out.
func TestRunDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	base, better := measuredRun(rng, "LMH1", 7, 0.5), measuredRun(rng, "LSEH", 7, 0.6)
	base.Name, better.Name = "slow", "fast"
	other := measuredRun(rng, "LSEH", 8, 0.5)
	other.Hits[0] = eval.Hits{Protocol: "whole", PerImage: 5, Counts: make([]byte, 6)}
	table, err := RunDifferences(base, []*Run{better, other, newRun("a", models.VSEPP, "LSEH", 9)})
	if err != nil || len(table.Rows) != 3 {
		t.Fatalf("%+v, %v", table, err)
	}
	if c := table.Rows[0].Cells; c[0].Text != "fast" || c[1].Text != "M-Recall" || c[6].Value > 0.001 ||
		math.Abs(c[4].Value-(better.Test[0].MRecall-base.Test[0].MRecall)) > 1e-9 {
		t.Error(table.Text(nil))
	}
	if table, err := RunDifferences(base, []*Run{other}); table != nil || err != nil {
		t.Errorf("nothing to compare: %v, %v", table, err)
	}
}
