package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// A data set without a vocabulary is trained on and searched; a second call takes the run over. Without a data set a
// world is made.
func TestQuickstart(t *testing.T) {
	dir := t.TempDir()
	world, work := filepath.Join(dir, "a world"), filepath.Join(dir, "work")
	mustRun(t, dir, "data synth --train 40 --dev 12 --test 12 --regions 3 --dim 16 --images", world)
	try.Do(t, os.Remove(filepath.Join(world, "vocab.json")))
	for _, call := range []struct{ want, not string }{{"train --config demo", "earlier call"},
		{"exists from an earlier call", "train --config demo"}} {
		s := answering(t, nil, "quickstart", world, "--work", work, "--no-open", "--listen", "127.0.0.1:0")
		if page := get(t, s.url); !strings.Contains(page, "must be encoded") {
			t.Error(page)
		}
		s.stop(t)
		if text := s.String(); !strings.Contains(text, call.want) || strings.Contains(text, call.not) {
			t.Errorf("%s\nwants %q and not %q", text, call.want, call.not)
		}
	}
}
