package train

import (
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// bertStep is a tiny VSE-infinity with BERT.
func bertStep(t testing.TB, dev device.Device, opt OptimOptions, positions int) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim = models.VSEInf, models.TextBert, 8
	o.Bert = models.BertOptions{Init: models.BertRandom, Layers: 2, Hidden: 8, Heads: 2, Intermediate: 12,
		Positions: positions, Dropout: 0.1}
	d := manyRegions
	d.Vocab++
	return newStep(t, dev, o, d, loss.LSH, opt)
}

// The first step of Adam moves a value by the learning rate, whatever its gradient, except for weight decay: parameters
// of BERT by a tenth of what the others move, its pooler not at all. Steps of a known shape allocate nothing, dropout
// included.
func TestBertTrainsAtItsOwnRate(t *testing.T) {
	dev := newDevice(t, cpu.FP32)
	o := adamw(1e-3)
	s := bertStep(t, dev, o, 16)
	m := s.model
	before := map[string][]float64{}
	for _, p := range m.Instance.Params.Specs {
		before[p.Name] = doubles(dev, m.Instance.Params.Value(p.Name))
	}
	b := vseinfBatch(5, 6, 7)
	try.Get(s.Run(b, o.LR, false))(t)
	for _, p := range m.Instance.Params.Specs {
		if p.State {
			continue
		}
		after, largest := doubles(dev, m.Instance.Params.Value(p.Name)), 0.0
		for i, v := range before[p.Name] {
			largest = max(largest, math.Abs(after[i]-v))
		}
		want := o.LR
		switch {
		case strings.Contains(p.Name, ".pooler.") || strings.Contains(p.Name, ".bns.1."):
			want = 0
		case strings.Contains(p.Name, ".bert."):
			want = 0.1 * o.LR
		}
		// A bias of keys shifts all scores of a query alike, and a batch norm takes the bias before it away: their
		// gradients are rounding noise.
		if strings.HasSuffix(p.Name, "key.bias") || p.Name == "img.mlp.layers.0.bias" {
			continue
		}
		if want == 0 && !slices.Equal(after, before[p.Name]) ||
			want > 0 && !(largest > 0.8*want && largest < 1.1*want) {
			t.Errorf("%s moved by %g, want about %g", p.Name, largest, want)
		}
	}
	if n := testing.AllocsPerRun(5, func() {
		try.Get(s.Run(b, o.LR, false))(t)
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}
