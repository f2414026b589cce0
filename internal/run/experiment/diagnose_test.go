package experiment

import (
	"context"
	"math"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
)

// By hand: three captions, the last two of one image. Caption 0 has the hard images 1 and 2, images the hard caption
// ... of the six negatives (0,1), (0,2), (1,0), (2,0) count, since 1 and 2 belong together.
//
//	row 0: (0,1) has hinge 0.1 + 0.5 - 1, (0,2) 0.1 + 0.8 - 1: (0,2) is hard, similarity 0.2
//	rows 1 and 2: only (1,0) and (2,0): similarities 0.7 and 0.4
//	column 0: (1,0) 0.6, (2,0) 0.3: (1,0) is hard, 0.7;  columns 1 and 2: (0,1) 0.9 and (0,2) 0.2
func TestFalseNegativesByHand(t *testing.T) {
	scores := []float64{1, 0.5, 0.8, 0.6, 1, 0.9, 0.3, 0.9, 1}
	margins := []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}
	similar := []float64{1, 0.9, 0.2, 0.7, 1, 1, 0.4, 1, 1}
	var f FalseNegatives
	all := f.add(scores, margins, similar, []int32{0, 1, 1})
	f.finish(all)
	for what, v := range map[string][2]float64{"all": {float64(all), 4}, "hard": {float64(f.Hard), 6},
		"mean of hard": {f.HardSimilar, (0.2 + 0.7 + 0.4 + 0.7 + 0.9 + 0.2) / 6}, "mean of all": {f.AllSimilar,
			2.2 / 4},
		"false hard": {f.HardFalse, 50}, "false": {f.AllFalse, 50}} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
}

// A run is diagnosed with its own vocabulary and margin, and its checkpoints on batches of its training.
func TestDiagnoseARun(t *testing.T) {
	c := tinyConfig()
	run := mustTrain(t, c)
	rep, err := Eval(t.Context(), EvalRequest{Checkpoints: []string{run}, Split: "test", Protocol: eval.Auto,
		Device: device.DefaultOptions(), Diagnose: true})
	if err != nil {
		t.Fatal(err)
	}
	d := rep.Diagnosis
	total := func(bins []eval.RecallBin) (n int, r1 float64) {
		for _, b := range bins {
			n += b.Captions
			r1 += b.R1 * float64(b.Captions)
		}
		return n, r1 / float64(n)
	}
	for name, bins := range map[string][]eval.RecallBin{"length": d.Length, "duplicates": d.Duplicates,
		"unknown": d.Unknown} {
		if n, r1 := total(bins); n != rep.Captions || math.Abs(r1-rep.Results[0].Metrics.T2I.R1) > 1e-9 {
			t.Errorf("by %s: %d captions with R@1 %.3f, want %d with %.3f", name, n, r1, rep.Captions,
				rep.Results[0].Metrics.T2I.R1)
		}
	}
	if d.T2I.Margin != c.Loss.Margin {
		t.Errorf("margin %v, want %v", d.T2I.Margin, c.Loss.Margin)
	}
	f, err := MeasureFalseNegatives(context.Background(), AnalysisRequest{Device: device.DefaultOptions()}, run)
	if err != nil {
		t.Fatal(err)
	}
	if len(f) == 0 || f[0].Hard == 0 {
		t.Fatalf("false negatives %+v", f)
	}
	for i := 1; i < len(f); i++ {
		if f[i].Step <= f[i-1].Step || f[i].AllSimilar != f[0].AllSimilar {
			t.Errorf("false negatives %+v; want different weights by step, on the same batches", f)
		}
	}
	if _, err := Eval(t.Context(), EvalRequest{Scores: []string{"x.npy"}, Diagnose: true,
		Device: device.DefaultOptions()}); err == nil || !strings.Contains(err.Error(), "x.npy") {
		t.Errorf("%v", err)
	}
}
