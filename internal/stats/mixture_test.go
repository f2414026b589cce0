package stats

import (
	"encoding/json"
	"slices"
	"testing"

	"vsetrain/internal/files/golden"
)

func TestGoldenMixture(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "losses_more.json", &file)
	n := 0
	for _, raw := range file.Cases {
		var kind struct {
			Type string `json:"loss_type"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Type != "mixture" {
			continue
		}
		n++
		var c struct {
			Name     string
			Inputs   struct{ Losses []float64 }
			Expected struct {
				Weights, Means, Variances, Probability []float64
				Rounds                                 int
				Threshold                              float64
				Clean                                  []float64
			}
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		m := FitMixture(c.Inputs.Losses)
		clean := make([]float64, len(m.Clean))
		for i, right := range m.Clean {
			if right {
				clean[i] = 1
			}
		}
		for what, v := range map[string][2][]float64{"weights": {m.Weights[:], c.Expected.Weights},
			"means": {m.Means[:], c.Expected.Means}, "variances": {m.Variances[:], c.Expected.Variances},
			"probabilities": {m.Probability, c.Expected.Probability}, "clean": {clean, c.Expected.Clean},
			"threshold": {{m.Threshold}, {c.Expected.Threshold}}} {
			golden.Close(t, c.Name+": "+what, v[0], v[1], golden.FP64)
		}
		if m.Rounds != c.Expected.Rounds {
			t.Errorf("%s: %d rounds, want %d", c.Name, m.Rounds, c.Expected.Rounds)
		}
	}
	if n == 0 {
		t.Error("no case")
	}
}

// Equal losses, one loss and none are clean; of two losses the smaller is.
func TestMixtureOfLittle(t *testing.T) {
	for _, losses := range [][]float64{nil, {3}, {2, 2, 2}} {
		if m := FitMixture(losses); slices.Contains(m.Clean, false) || len(m.Clean) != len(losses) {
			t.Errorf("%v: %v", losses, m.Clean)
		}
	}
	m := FitMixture([]float64{0, 1})
	if !m.Clean[0] || m.Clean[1] {
		t.Errorf("two losses: %+v", m)
	}
}
