package bench

import (
	"testing"
	"time"

	"vsetrain/lab/runtest"
	"vsetrain/models"
)

// Synthetic batches have the sizes of the configuration's data set where that is there, those of Flickr30K elsewhere,
// and what is asked for.
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
