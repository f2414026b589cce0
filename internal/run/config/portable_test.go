package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// What is portable is read back to the same values, and no setting that names a file is in it.
func TestPortable(t *testing.T) {
	r := try.Get(Load(Request{File: "vsepp/f30k-lseh", Set: []string{"data.dir=/home/somebody/f30k", "seed=11",
		"optim.eps=1e-9", "run.dir=/home/somebody/run", "model.word_dim=17", "train.init_from=/home/somebody/w"}}))(t)
	b := try.Get(Portable(&r.Config))(t)
	if strings.Contains(string(b), "somebody") {
		t.Errorf("a path is told:\n%s", b)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	try.Do(t, os.WriteFile(path, b, 0o666))
	again, err := Load(Request{File: path})
	try.Do(t, err)
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
