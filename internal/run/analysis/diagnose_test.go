package analysis

import (
	"context"
	"math"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// A run is diagnosed with its own vocabulary and margin, and its checkpoints on batches of its training.
func TestDiagnoseARun(t *testing.T) {
	c := runtest.TinyConfig()
	run := runtest.Train(t, c)
	rep := try.Get(evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{run}, Split: "test",
		Protocol: eval.Auto,
		Device:   device.DefaultOptions(), Diagnose: true}))(t)
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
	f, err := MeasureFalseNegatives(context.Background(), pretrained.AnalysisRequest{Device: device.DefaultOptions()},
		run)
	try.Do(t, err)
	if len(f) == 0 || f[0].Hard == 0 {
		t.Fatalf("false negatives %+v", f)
	}
	for i := 1; i < len(f); i++ {
		if f[i].Step <= f[i-1].Step || f[i].AllSimilar != f[0].AllSimilar {
			t.Errorf("false negatives %+v; want different weights by step, on the same batches", f)
		}
	}
	try.Refuses(evaluate.Run(t.Context(), evaluate.Request{Scores: []string{"x.npy"}, Diagnose: true,
		Device: device.DefaultOptions()}))(t, "x.npy")
}
