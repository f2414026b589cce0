package main

import (
	"path/filepath"
	"testing"

	"vsetrain/lab/try"
)

// An export is written beside the run or the file that it is of, and never into a run.
func TestExportName(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	for checkpoint, want := range map[string]string{
		"runs/a":                                 "runs/a.pth.tar",
		"runs/a/":                                "runs/a.pth.tar",
		"runs/a.b-lr0.1":                         "runs/a.b-lr0.1.pth.tar",
		"runs/a/checkpoints/last.safetensors":    "runs/a-last.pth.tar",
		"runs/a/checkpoints/../checkpoints/x.pt": "runs/a-x.pth.tar",
		"x.safetensors":                          "x.pth.tar",
		"d/model.pth":                            "d/model.pth.tar",
		"../x":                                   "../x.pth.tar",
		".":                                      "../" + filepath.Base(work) + ".pth.tar",
		"/abs/run":                               "/abs/run.pth.tar",
	} {
		if got := try.Get(exportName(filepath.FromSlash(checkpoint)))(t); filepath.ToSlash(got) != want {
			t.Errorf("%s: %s, want %s", checkpoint, got, want)
		}
	}
}
