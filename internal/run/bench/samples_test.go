package bench

import (
	"slices"
	"testing"
	"time"

	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
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

// Synthetic batches have the sizes of the configuration's data set where that is there, the sizes of Flickr30K
// elsewhere, and what is asked for.
func TestBenchSizes(t *testing.T) {
	for _, c := range []struct {
		dir              string
		regions, feature int
		want             models.Dims
	}{
		{runtest.World, 0, 0, models.Dims{Regions: 3, Feature: 16}},
		{runtest.World, 5, 0, models.Dims{Regions: 5, Feature: 16}},
		{runtest.World, 2, 8, models.Dims{Regions: 2, Feature: 8}},
		{"nowhere", 0, 0, models.Dims{Regions: 36, Feature: 2048}},
		{"", 0, 64, models.Dims{Regions: 36, Feature: 64}},
	} {
		cfg := runtest.TinyConfig()
		cfg.Data.Dir = c.dir
		b := newBench(Request{Config: cfg, Regions: c.regions, Feature: c.feature})
		c.want.Vocab = flickrWords
		if got := b.sizes(); got != c.want {
			t.Errorf("%q, %d x %d: %+v, want %+v", c.dir, c.regions, c.feature, got, c.want)
		}
	}
	r, err := Run(t.Context(), Request{Config: runtest.TinyConfig(), Steps: 1, Vocab: 50, Now: time.Now})
	if err != nil || r.Regions != 3 || r.Feature != 16 {
		t.Errorf("%d x %d, %v", r.Regions, r.Feature, err)
	}
}
