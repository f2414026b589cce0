package bench

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// evalBudgets are the milliseconds that the evaluation of COCO's test split is predicted to take on an H200 in bf16. A
// change that needs more says why; one that needs less lowers them.
var evalBudgets = map[string]float64{models.SAF: 4420, models.SGR: 11730, models.GSMN: 5000}

// The evaluation of a pair network at full size stays within its budget. It counts each pair once: the products with W
// alone are as many operations as the definition has.
func TestEvaluationBudgets(t *testing.T) {
	for network, limit := range evalBudgets {
		c := fullSize(network)
		c.Device.Precision = "bf16"
		p := try.Get(PredictEvaluation(t.Context(), Request{Config: c, Model: "h200"}))(t)
		if ms := p.Sum.Predicted; ms > limit*1.01 || ms < limit*0.9 {
			t.Errorf("%s: an evaluation is predicted to take %.0f ms, the budget is %.0f", network, ms, limit)
		}
		sum := 0.0
		for _, l := range p.Lines {
			sum += l.Predicted
		}
		if d := sum - p.Sum.Predicted; d > 1 || d < -1 {
			t.Errorf("%s: the lines are %.0f ms together, their sum %.0f", network, sum, p.Sum.Predicted)
		}
		const words = 14.5 * EvalCaptions // about, of the synthetic captions
		if least := 2.0 * EvalImages * words * 1024 * 256; network != models.GSMN && p.Sum.Flop < least {
			t.Errorf("%s: %.3g operations, the products with W are %.3g", network, p.Sum.Flop, least)
		}
	}
}

func TestPredictEvaluationErrors(t *testing.T) {
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.VSEPP)
	c.Device = device.Options{Kind: "cuda"}
	for gpu, want := range map[string]string{"": "--model", "h300": `"h300"`, "h200": "vsepp embeds images"} {
		try.Refuses(PredictEvaluation(t.Context(),
			Request{Config: c, Model: gpu, Regions: 3, Feature: 16, Vocab: 50}))(t, want)
	}
}
