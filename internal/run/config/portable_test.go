package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is portable is read back to the same values, and no setting that names a file is in it.
func TestPortable(t *testing.T) {
	r, err := Load(Request{File: "vsepp/f30k-lseh", Set: []string{"data.dir=/home/somebody/f30k", "seed=11",
		"optim.eps=1e-9", "run.dir=/home/somebody/run", "model.word_dim=17", "train.init_from=/home/somebody/w"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Portable(&r.Config)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "somebody") {
		t.Errorf("a path is told:\n%s", b)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	again, err := Load(Request{File: path})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"data.dir was /home/somebody/f30k, is ", "run.dir was /home/somebody/run, is ",
		"train.init_from was /home/somebody/w, is "}
	got := Differences("", r.Config, again.Config)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
	if b, err = Portable(&r.Config, "model"); err != nil || strings.Contains(string(b), "loss") {
		t.Errorf("the network alone: %v\n%s", err, b)
	}
}
