package config

import (
	"slices"
	"testing"

	"vsetrain/lab/try"
)

// Differences name settings of every depth by their keys, also the constants that a loss declares in its file.
func TestDifferences(t *testing.T) {
	load := func(set ...string) Config {
		c := try.Get(Load(Request{Preset: "demo", Set: set}))(t)
		return c.Config
	}
	got := Differences("", load(), load("seed=8", "model.bert.dir=d", "loss.rcl.temperature=0.5"))
	want := []string{"seed was 7, is 8", "model.bert.dir was , is d", "loss.rcl.temperature was 0.05, is 0.5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Differences("", load(), load()); got != nil {
		t.Errorf("equal configurations differ: %q", got)
	}
}
