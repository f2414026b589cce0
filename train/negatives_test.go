package train

import (
	"encoding/json"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/loss"
)

// The unique negatives of analysis.json.
func TestGoldenUniqueNegatives(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "analysis.json", &file)
	seen := 0
	for _, raw := range file.Cases {
		var name struct{ Name string }
		try.Do(t, json.Unmarshal(raw, &name))
		if !strings.HasPrefix(name.Name, "unique_negatives") {
			continue
		}
		var c struct {
			Scores   [][]float64
			Margins  [][]float64 `json:"margin_matrix"`
			Expected struct {
				Captions int `json:"des_embs"`
				Images   int `json:"im_embs"`
			}
		}
		try.Do(t, json.Unmarshal(raw, &c))
		var scores, margins []float64
		for i := range c.Scores {
			scores, margins = append(scores, c.Scores[i]...), append(margins, c.Margins[i]...)
		}
		if got := countNegatives(len(c.Scores), scores, margins, 0); got.Captions != c.Expected.Captions ||
			got.Images != c.Expected.Images {
			t.Errorf("%s: %+v, want %+v", name.Name, got, c.Expected)
		}
		seen++
	}
	if seen == 0 {
		t.Fatal("analysis.json has no cases of unique negatives")
	}
}

// Two anchors share a negative, one has no violation: it counts among all anchors and not among the active ones.
func TestCountNegatives(t *testing.T) {
	scores := []float32{
		0.9, 0.1, 0.3,
		0.2, 0.5, 0.6,
		0.4, 0.2, 0.5}
	// captions of images: 2 (inactive: 0.2+0.3-0.9), 2, 0; images of captions: 2 (inactive: 0.2+0.4-0.9), 2 (inactive:
	// 0.2+0.2-0.5), 1
	want := Negatives{Captions: 2, Images: 2, ActiveCaptions: 2, ActiveImages: 1}
	if got := countNegatives(3, scores, nil, 0.2); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := countNegatives(3, scores, nil, 1); got.ActiveImages != 2 {
		t.Errorf("with a margin of 1 every anchor is active: %+v", got)
	}
	if got := countNegatives(1, []float32{1}, nil, 1); got != (Negatives{}) {
		t.Errorf("a batch of one pair has no negatives: %+v", got)
	}
}

// The counts of a step are determined by its scores and margins, for a constant margin and for LSEH's.
func TestHardNegatives(t *testing.T) {
	for name, semantic := range map[string]int{loss.LMH: 0, loss.LSEH: 4} {
		s := tinyStep(t, newDevice(t, cpu.FP32), name, 0)
		empty := s.Last()
		if got := empty.Negatives(); got != (Negatives{}) {
			t.Errorf("before the first step: %+v", got)
		}
		const n = 6
		run(t, s, tinyBatch(1, n, 12))
		scores := s.last.vm.Doubles(s.last.scores)
		var margins []float64
		if semantic > 0 {
			margins = s.last.vm.Doubles(s.last.margins)
			if margins[1] == margins[2] || margins[0] != 0 {
				t.Fatalf("margins %v", margins[:n])
			}
		}
		last := s.Last()
		got, want := last.Negatives(), countNegatives(n, scores, margins, s.loss.Margin)
		if got != want || want.Captions < 2 || want.Images < 2 {
			t.Errorf("%s: %+v, want %+v, with more than one different negative", name, got, want)
		}
	}
}
