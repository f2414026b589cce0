package report

import (
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/run/analysis"
	"vsetrain/models"
	"vsetrain/train"
)

func TestDiagnosisTables(t *testing.T) {
	r := newRun("a", models.VSEPP, "LSEH", 7, Point{1, 50})
	other := newRun("a", models.VSEPP, "LMH1", 7, Point{1, 50}) // was not diagnosed
	bins := []eval.RecallBin{{Label: "0 to 9", Captions: 40, R1: 12.5, R5: 30, R10: 50}}
	c := eval.ScoreCalibration{AUROC: 0.75, Margin: 0.185, Satisfied: 12,
		Bins: []eval.LeadBin{{High: 0.01, Queries: 8, R1: 25}}}
	r.Diagnosis = &RunDiagnosis{Diagnosis: &eval.Diagnosis{Length: bins, Duplicates: bins,
		Judged: []eval.JudgedErrors{{Name: "eccv", I2TErrors: 10, I2TRight: 4}},
		Images: eval.Hubs{Items: 20, Expected: 5, Skewness: 1.25, Never: 10,
			Largest: []eval.Hub{{Item: 4, Queries: 30}}}, I2T: c, T2I: eval.ScoreCalibration{AUROC: 0.5}},
		Negatives: []analysis.FalseNegatives{{Checkpoint: "best.safetensors", Epoch: 3,
			FalseNegatives: train.FalseNegatives{Hard: 256, HardSimilar: 0.2, HardFalse: 9.5, AllSimilar: 0.03,
				AllFalse: 0.5}}}}
	d := setOf(r, other)
	text := ""
	for _, table := range d.DiagnosisTables() {
		text += squeezed(table) + " "
	}
	wants(t, text, "vsepp-lseh-7 0 to 9 40 12.5 30.0 50.0", "vsepp-lseh-7 eccv 10 4 40.0 0 0 -",
		"vsepp-lseh-7 images 5.0 1.25 10.0 5: 30",
		"vsepp-lseh-7 image to text 0.750 0.185 12.0", "vsepp-lseh-7 text to image 0.500 - -", "vsepp-lseh-7 image "+
			"to text 0.010 8 25.0",
		"vsepp-lseh-7 best.safetensors 3.0 256 0.200 9.5 0.030 0.5")
	if strings.Contains(text, other.Name) || strings.Contains(text, "unknown words") {
		t.Errorf("a run that was not diagnosed, or a table without rows:\n%s", text)
	}
	r.Diagnosis = nil
	if tables := d.DiagnosisTables(); tables != nil {
		t.Errorf("%d tables of no diagnosis", len(tables))
	}
}
