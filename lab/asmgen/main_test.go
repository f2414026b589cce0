package main

import (
	"os"
	"testing"

	"vsetrain/lab/try"
)

// The committed assembly and tables are what the generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	all := try.Get(files())(t)
	for path, want := range all {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what asmgen writes (%v): run make generate", path, err)
		}
	}
}
