package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
	"vsetrain/models"
)

func load(t *testing.T, req Request) *Resolved {
	t.Helper()
	return try.Get(Load(req))(t)
}

func TestDefaultsAreValid(t *testing.T) {
	r := load(t, Request{})
	if len(Differences("", r.Config, Default())) > 0 {
		t.Error("an empty request is not the default configuration")
	}
	if r.Optim.LR != 2e-4 || r.Loss.Margin != 0.2 || r.Train.Batch != 128 || r.Model.EmbedDim != 1024 ||
		r.Model.WordDim != 300 || r.Optim.Clip != 2 || r.Optim.Decay != 0.1 ||
		r.Optim.Betas != [2]float64{0.9, 0.999} || r.Optim.Eps != 1e-8 ||
		r.Loss.LSEH.Lambda != 0.025 || r.Loss.LUWM.Positive != [3]float64{0.5, -0.7, 0.2} ||
		r.Loss.LUWM.Negative != [3]float64{0.03, -0.4, 0.9} ||
		r.Model.SGRAF != (models.SGRAFOptions{SimDim: 256, Steps: 3, Dropout: 0.4}) {
		t.Errorf("defaults are not the common settings: %+v", r.Config)
	}
}

// Every layer wins over the weaker ones, and every value knows its layer.
func TestLayers(t *testing.T) {
	r := load(t, Request{
		File: "testdata/good/top.yaml",
		Env: []string{"HOME=/x", "VSETRAIN_TRAIN_EPOCHS=9", "VSETRAIN_OPTIM_BETAS=[0.7, 0.9]", "VSETRAIN_SEED=",
			"VSETRAIN_BLAS=openblas"},
		Set: []string{"optim.betas=[0.5, 0.6]", "run.dir=2017", "optim.clip=1", "optim.clip=3"},
	})
	for _, c := range []struct {
		path      string
		got, want any
		origin    string
	}{
		{"seed", r.Seed, uint64(11), "testdata/good/base.yaml:2"},
		{"optim.lr", r.Optim.LR, 0.001, "testdata/good/top.yaml:3"},
		{"optim.lr_update", r.Optim.LRUpdate, 15, "testdata/good/base.yaml:3"},
		{"optim.betas", r.Optim.Betas, [2]float64{0.5, 0.6}, "--set"},
		{"optim.clip", r.Optim.Clip, 3.0, "--set"},
		{"optim.eps", r.Optim.Eps, 1e-8, "default"},
		{"train.batch", r.Train.Batch, 64, "testdata/good/base.yaml:5"},
		{"train.epochs", r.Train.Epochs, 9, "VSETRAIN_TRAIN_EPOCHS"},
		{"model.gsmn.neighbors", r.Model.GSMN.Neighbors, "true", "testdata/good/top.yaml:4"},
		{"run.dir", r.Run.Dir, "2017", "--set"},
	} {
		if c.got != c.want || r.Origin(c.path).String() != c.origin {
			t.Errorf("%s = %v from %s, want %v from %s", c.path, c.got, r.Origin(c.path), c.want, c.origin)
		}
	}
}

// The base of a later file in a list wins over an earlier file.
func TestExtendsOrder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		try.Do(t, os.WriteFile(file, []byte(text), 0o644))
		return file
	}
	write("a.yaml", "seed: 1\ntrain: {epochs: 1, batch: 2}\n")
	write("b.yaml", "extends: c.yaml\ntrain: {epochs: 2}\n")
	write("c.yaml", "seed: 3\ntrain: {epochs: 3}\n")
	r := load(t, Request{File: write("top.yaml", "extends: [a.yaml, b.yaml]\n")})
	if r.Seed != 3 || r.Train.Epochs != 2 || r.Train.Batch != 2 {
		t.Errorf("seed %d, epochs %d, batch %d; want 3, 2, 2", r.Seed, r.Train.Epochs, r.Train.Batch)
	}
}

// Variables of others do not stop a run: what Kubernetes sets for services, and names that are like none of ours.
func TestVariablesOfOthers(t *testing.T) {
	load(t, Request{Env: []string{"VSETRAIN_SERVICE_HOST=10.0.0.1", "VSETRAIN_PORT=tcp://10.0.0.1:80",
		"VSETRAIN_OPTIM_SERVICE_PORT=80", "VSETRAIN_RUN_PORT_80_TCP_ADDR=10.0.0.1", "VSETRAIN_FLEETNAME=x"}})
}

func TestBadOverrides(t *testing.T) {
	for _, c := range []struct {
		name string
		req  Request
		want string
	}{
		{"near", Request{Set: []string{"optim.lrr=1"}}, `--set: optim.lrr: unknown key; did you mean optim.lr?`},
		{"no section", Request{Set: []string{"lr=1"}}, `--set: lr: unknown key; did you mean optim.lr?`},
		{"far", Request{Set: []string{"a.b.c=1"}}, "--set: a.b.c: unknown key; " +
			"the top level has version, seed, data, model, loss, optim, train, device, run, track"},
		{"section", Request{Set: []string{"model.sgraf=1"}},
			`--set: model.sgraf: is a section; set one of its keys: sim_dim, steps, dropout`},
		{"no value", Request{Set: []string{"seed"}}, `--set: expected key=value such as optim.lr=0.001, found "seed"`},
		{"type", Request{Set: []string{"train.epochs=many"}},
			`--set: train.epochs: expected a whole number in [1, 1000000], found "many"`},
		{"empty", Request{Set: []string{"train.epochs="}},
			`--set: train.epochs: expected a whole number in [1, 1000000], found ""`},
		{"enum", Request{Set: []string{"loss.name=lsseh"}},
			`--set: loss.name: expected ` + lossNames + `, found "lsseh"; did you mean lseh?`},
		{"file only", Request{Set: []string{"extends=x.yaml"}}, "--set: extends: unknown key; " +
			"the top level has version, seed, data, model, loss, optim, train, device, run, track"},
		{"env near", Request{Env: []string{"VSETRAIN_OPTM_LR=1"}},
			`VSETRAIN_OPTM_LR: unknown environment variable; did you mean VSETRAIN_OPTIM_LR?`},
		{"env known", Request{Env: []string{"VSETRAIN_BLASS=mkl"}},
			`VSETRAIN_BLASS: unknown environment variable; did you mean VSETRAIN_BLAS?`},
		{"env section", Request{Env: []string{"VSETRAIN_EPOCHS=1"}},
			`VSETRAIN_EPOCHS: unknown environment variable; did you mean VSETRAIN_TRAIN_EPOCHS?`},
		{"env key of a section", Request{Env: []string{"VSETRAIN_OPTIM_LEARNING_RATE=1"}},
			`VSETRAIN_OPTIM_LEARNING_RATE: unknown environment variable; did you mean VSETRAIN_OPTIM_LR?`},
		{"env far in a section", Request{Env: []string{"VSETRAIN_RUN_XYZZY=1"}}, "VSETRAIN_RUN_XYZZY: unknown " +
			"environment variable; run has the keys dir, tensorboard, lock, of which VSETRAIN_RUN_DIR is a variable"},
		{"alias", Request{Flags: []Alias{{"--overfit", "train.overfit", "-1"}}},
			`--overfit: train.overfit: expected a whole number in [0, 1000000], found -1`},
		{"alias together", Request{Flags: []Alias{{"--mlflow", "track.mlflow", "ftp://x"}}},
			`--mlflow: track.mlflow: expected the address of a server, http://HOST:PORT, or off, found "ftp://x"; a ` +
				`tracking server is reached over http or https`},
		{"alias and key", Request{Set: []string{"train.overfit=2"},
			Flags: []Alias{{"--overfit", "train.overfit", "3"}}},
			`--overfit: train.overfit: --set sets it too; leave one out`},
		{"argument", Request{File: "none.yaml", Named: "CONFIG"}, `CONFIG: no such file: none.yaml`},
		{"env value", Request{Env: []string{"VSETRAIN_OPTIM_LR=-1"}},
			`VSETRAIN_OPTIM_LR: optim.lr: expected a number in (0, 10], found -1`},
		{"cross", Request{Set: []string{"model.text_encoder=bert"}},
			`--set: model.text_encoder: expected gru for network vsepp, found "bert"`},
		{"no file", Request{File: "testdata/none.yaml"}, `--config: no such file: testdata/none.yaml`},
		{"directory", Request{File: "testdata"},
			`testdata: cannot read the configuration: expected a regular file, found a folder`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(c.req)
			var ce *Error
			if !errors.As(err, &ce) || err.Error() != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "big.yaml")
	try.Do(t, os.WriteFile(file, []byte(strings.Repeat("# padding\n", 1<<17)), 0o644))
	try.Refuses(Load(Request{File: file}))(t, "too large: 1310720 bytes; expected a configuration of at most 1048576")
}

// Files that extend each other many times over are not all read.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	const levels, names = 5, 30
	for i := range levels {
		text := "seed: 8\n"
		if i < levels-1 {
			text = "extends: [" + strings.Repeat(fmt.Sprintf("%d.yaml, ", i+1), names) + "]\n"
		}
		try.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o644))
	}
	_, err := Load(Request{File: filepath.Join(dir, "0.yaml")})
	if err == nil || strings.Count(err.Error(), "more than 200 files in total") != 1 || len(err.Error()) > 1000 {
		t.Errorf("got %v", err)
	}
}

func TestRunDir(t *testing.T) {
	c := Default()
	for file, want := range map[string]string{
		"configs/vsepp/f30k-lseh.yaml": "runs/vsepp-f30k-lseh", "vsepp.yaml": "runs/vsepp", "": "runs/vsepp-default",
	} {
		if got := c.RunDir(file); got != filepath.FromSlash(want) {
			t.Errorf("RunDir(%q) = %s, want %s", file, got, want)
		}
	}
	c.Run.Dir = "elsewhere"
	if got := c.RunDir("x.yaml"); got != "elsewhere" {
		t.Errorf("RunDir = %s, want run.dir", got)
	}
}

// FuzzLoad: whatever the bytes, Load returns an error with a position or a configuration that reads back to itself.
func FuzzLoad(f *testing.F) {
	texts, _ := badFiles(f)
	for _, text := range texts {
		f.Add([]byte(text))
	}
	for _, name := range try.Get(filepath.Glob("testdata/good/*.yaml"))(f) {
		f.Add(try.Get(os.ReadFile(name))(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "in.yaml")
		try.Do(t, os.WriteFile(file, b, 0o644))
		r, err := Load(Request{File: file})
		if err != nil {
			if !strings.HasPrefix(err.Error(), dir) {
				t.Errorf("no file in %q", err)
			}
			return
		}
		readsBack(t, filepath.Join(dir, "out.yaml"), r.Config)
	})
}

// A file of somebody else that a configuration extends is not quoted: neither line by line, nor where all of it is one
// text or a list.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	secret := strings.Repeat("x", 50) + "secret"
	for text, want := range map[string]string{
		secret + ": 1\npassword: hunter2\nother: 3\n": "this file is not a configuration",
		"root:x:0:0:root:/root:/bin/sh\n" + secret:    `found "root:x:0:0:`,
		"- - first\n  - " + secret + "\n- password\n": `found [["first", "xxx`,
	} {
		own := filepath.Join(dir, "own.yaml")
		for name, text := range map[string]string{filepath.Join(dir, "shadow"): text, own: "extends: shadow\n"} {
			try.Do(t, os.WriteFile(name, []byte(text), 0o600))
		}
		_, err := Load(Request{File: own})
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "password") ||
			!strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}
