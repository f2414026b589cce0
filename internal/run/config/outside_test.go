package config

import (
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"vsetrain/lab/try"
)

func given(key, tag, value string) Setting {
	at := Source{File: "s.yaml", Line: 3, Column: 9}
	return Setting{Key: key, Value: &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}, KeyAt: at, At: at}
}

// Settings of another file win over the configuration, are checked as strictly, and their place is remembered.
func TestSettings(t *testing.T) {
	r := load(t, Request{File: "testdata/good/top.yaml", Set: []string{"optim.lr=0.5"},
		Settings: []Setting{given("optim.lr", "!!float", "0.25"), given("train.batch", "!!int", "9")}})
	if r.Optim.LR != 0.25 || r.Train.Batch != 9 || r.Origin("optim.lr").String() != "s.yaml:3" {
		t.Errorf("lr %v from %v, batch %d", r.Optim.LR, r.Origin("optim.lr"), r.Train.Batch)
	}
	for _, c := range []struct {
		setting Setting
		want    string
	}{
		{given("optim.lrr", "!!float", "1"), "s.yaml:3:9: optim.lrr: unknown key; did you mean optim.lr?"},
		{given("optim.lr", "!!float", "11"), "s.yaml:3:9: optim.lr: expected a number in (0, 10], found 11"},
		{given("optim", "!!float", "11"), "s.yaml:3:9: optim: is a section; set one of its keys: name, lr, bert_lr, " +
			"decay, schedule, lr_update, lr_update2, cosine_epochs, cosine_end, warmup_steps, clip, " +
			"weight_decay, betas, eps, ema, reduce_dtype, legacy_eps"},
	} {
		if _, err := Load(Request{Settings: []Setting{c.setting}}); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Changed lists what differs from the defaults and nothing else.
func TestChanged(t *testing.T) {
	c := Default()
	if got := c.Changed(); len(got) != 0 {
		t.Errorf("the defaults differ from themselves: %q", got)
	}
	c.Seed, c.Optim.Betas[1] = 8, 0.5
	if got := c.Changed(); !slices.Equal(got, []string{"seed: 8", "optim.betas: [0.9, 0.5]"}) {
		t.Errorf("%q", got)
	}
	if c.Text("optim.betas") != "[0.9, 0.5]" || c.Text("optim") != "" || c.Text("nothing") != "" {
		t.Errorf("%q", c.Text("optim.betas"))
	}
}

// ~ at the beginning of a setting that names a file or folder is the home directory; elsewhere it is a character.
func TestHome(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	r := try.Get(Load(Request{Set: []string{
		"data.dir=~/f30k", "data.vocab=x/~/v.json", "model.bert.dir=~/", "run.dir=./~other/runs", "train.init_from=~",
		"loss.crcl.labels=a$b",
	}}))(t)
	if r.Data.Dir != "/home/me/f30k" || r.Data.Vocab != "x/~/v.json" ||
		r.Model.Bert.Dir != "/home/me" || r.Run.Dir != "./~other/runs" || r.Train.InitFrom != "/home/me" {
		t.Errorf("%+v, bert %q, run %q", r.Data, r.Model.Bert.Dir, r.Run.Dir)
	}
	for _, path := range []string{"~other/runs", "${HOME}/x", "$HOME", "/scratch/$USER/x", "a/${USER}"} {
		if _, err := Load(Request{Set: []string{"run.dir=" + path}}); err == nil {
			t.Errorf("%s is taken for a folder of that name", path)
		}
	}
	t.Setenv("HOME", "")
	t.Setenv("USER", "")
	home, err := ExpandHome("~/x")
	if u, bad := user.LookupId(strconv.Itoa(os.Getuid())); bad == nil && home != filepath.Join(u.HomeDir, "x") ||
		bad != nil && (err == nil || !strings.Contains(err.Error(), "set HOME")) {
		t.Errorf("without HOME: %q, %v", home, err)
	}
	for _, key := range pathKeys {
		if f := root.find(key); f == nil || f.typ.Kind() != reflect.String {
			t.Errorf("%s is no setting with a text", key)
		}
	}
}

func TestKindsOfFiles(t *testing.T) {
	for text, want := range map[string]string{
		"axes: []\nseeds: [7, 8]":      "sweep",
		"base: a.yaml\nset: {seed: 1}": "sweep",
		"data: {dir: x}":               "run",
		"extends: a.yaml\nseed: 3":     "run",
		"extends: a.yaml\naxes: []":    "",
		"data: {dir: x}\nmethod: grid": "",
		"modle: {}":                    "",
		"seed: 3":                      "",
		"{}":                           "",
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		try.Do(t, os.WriteFile(file, []byte(text), 0o666))
		top := try.Get(ParseFile(file))(t)
		if got := kindOf(top); got != want || IsRun(top) != (want == "run") {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
