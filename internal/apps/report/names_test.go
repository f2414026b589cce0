package report

import (
	"testing"

	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

// LMH has the paper's names with the margin and the schedule that the presets have for its network and data set, and
// its margin in its name otherwise.
func TestNamesOfLMH(t *testing.T) {
	for _, c := range []struct {
		preset, want string
		set          []string
	}{
		{"vsepp/f30k-benchmark", "LMH1", nil},
		{"vsepp/f30k-lmh2", "LMH2", nil},
		{"vsepp/f30k-lmh2", "LMH2", []string{"data.dir=/elsewhere/f30k/", "seed=9", "train.epochs=3"}},
		{"vsepp/f30k-benchmark", "LMH α=0.2", []string{"data.dir=world"}},
		{"vsepp/f30k-benchmark", "LMH α=0.05", []string{"loss.margin=0.05"}},
		{"vsepp/f30k-benchmark", "LMH α=0.16", []string{"loss.margin=0.16"}}, // LMH2's margin, LMH1's rate
		{"vsepp/f30k-lmh2", "LMH α=0.16", []string{"optim.lr=0.02"}},
		{"vsepp/f30k-lmh2", "LMH α=0.16", []string{"loss.warmup_epochs=1"}},
		{"vsepp/f30k-lseh", "LSEH-SVD", nil},
	} {
		r := try.Get(config.Load(config.Request{Preset: c.preset, Set: c.set}))(t)
		if got := (&Run{Config: r.Config}).LossName(); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.preset, c.set, got, c.want)
		}
	}
	d := Collect([]*Run{newRun("a", "vsepp", "LSEH", 7), {Config: newRun("a", "vsepp", "LMH1", 7).Config}})[0]
	if d.Groups[0].Loss != "LMH α=0.2" {
		t.Errorf("%s comes before %s", d.Groups[0].Loss, d.Groups[1].Loss)
	}
	if tex := latexEscape.Replace(d.Groups[0].Loss); tex != `LMH $\alpha$=0.2` {
		t.Errorf("%s; LaTeX has no α in text", tex)
	}
}
