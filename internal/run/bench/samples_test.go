package bench

import (
	"slices"
	"testing"
	"time"

	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// Every loss is measured on every subset, by a clock that ticks once a look.
func TestSamples(t *testing.T) {
	c := runtest.TinyConfig()
	c.Loss.WarmupEpochs = 1 // which luwm does not have
	now := time.Time{}
	phases := map[string]bool{}
	r := SamplesRequest{Config: c, Subsets: 3, StepImages: 5,
		Now:      func() time.Time { now = now.Add(time.Second); return now },
		Progress: func(phase string, done, total int) { phases[phase] = done == total }}
	rep := try.Get(Samples(t.Context(), r))(t)
	if !slices.Equal(rep.Losses(), []string{"lmh", "luwm", "lseh"}) || len(rep.Points) != 9 || len(phases) != 3 ||
		!phases["bench lseh"] {
		t.Fatalf("%+v, phases %v", rep, phases)
	}
	for i, p := range rep.Points {
		n := i%3 + 1
		steps := (25*n + 15) / 16
		// each step looks at the clock before, at both ends of, and after its measurement of the loss; that is taken
		// off
		if p.Subset != n || p.Images != 5*n || p.Captions != 25*n || p.Steps != steps ||
			p.LossSeconds != float64(steps) || p.Seconds != float64(steps+1) {
			t.Errorf("point %d: %+v", i, p)
		}
	}
	r.StepImages = 14
	try.Refuses(Samples(t.Context(), r))(t, "40 images do not make 3 subsets that grow by 14")
}
