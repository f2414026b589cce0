package training_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// resumed continues a run.
func resumed(t *testing.T, c *config.Config, dir string, w *runtest.Watcher) error {
	t.Helper()
	r := runtest.Request(c, dir, w)
	r.Resume = true
	_, err := training.Train(t.Context(), r)
	return err
}

// killedInSave trains until the validation of step 5 is logged and leaves the directory as a kill does that comes
// before the checkpoints, or between the two.
func killedInSave(t *testing.T, c *config.Config, best bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	short := *c
	short.Train.MaxSteps = 5
	try.Get(training.Train(t.Context(), runtest.Request(&short, dir, &runtest.Watcher{})))(t)
	names := []string{runfs.LastName}
	if !best {
		names = append(names, runfs.BestName)
	}
	lose(t, dir, names...)
	return dir
}

func lose(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		try.Do(t, os.Remove(runtest.Checkpoint(dir, name)))
	}
}

// contents returns the bytes of all files of a run but its lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	try.Do(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == ".lock" {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	}))
	return out
}

func equalContents(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// A run that had come beyond its first checkpoint does not begin anew when that is lost; nothing of it changes.
func TestLostCheckpoint(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	whole := runtest.Train(t, c)
	for name, lost := range map[string][]string{"last": {runfs.LastName}, "both": {runfs.LastName, runfs.BestName}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			try.Do(t, os.CopyFS(dir, os.DirFS(whole)))
			lose(t, dir, lost...)
			before := contents(t, dir)
			err := resumed(t, c, dir, &runtest.Watcher{})
			try.Fails(t, err, runfs.LastName+" is missing", "step 13", "bring it back", "--run")
			if has := strings.Contains(err.Error(),
				"train.init_from="+runtest.Checkpoint(dir, runfs.BestName)); has != (len(lost) == 1) {
				t.Errorf("remedy of %v", err)
			}
			if !equalContents(contents(t, dir), before) {
				t.Error("files of the run have changed")
			}
		})
	}
	t.Run("log too", func(t *testing.T) { // what is left is a best checkpoint, of step 13
		dir := filepath.Join(t.TempDir(), "run")
		try.Do(t, os.CopyFS(dir, os.DirFS(whole)))
		try.Do(t, os.Rename(runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(dir, runfs.BestName)))
		try.Do(t, os.Remove(filepath.Join(dir, runfs.MetricsName)))
		try.Fails(t, resumed(t, c, dir, &runtest.Watcher{}), runfs.LastName+" is missing")
	})
	t.Run("a link that leads nowhere", func(t *testing.T) {
		dir := killedInSave(t, c, false)
		if err := os.Symlink(filepath.Join(dir, "not", "mounted"), runtest.Checkpoint(dir,
			runfs.LastName)); err != nil {
			t.Skip(err)
		}
		try.Fails(t, resumed(t, c, dir, &runtest.Watcher{}), runfs.LastName)
	})
}

// A run that was killed before its first checkpoint begins anew, says so, and ends as the undisturbed one.
func TestKilledBeforeItsFirstCheckpoint(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	whole := runtest.Train(t, c)
	for _, at := range []struct{ best, cut bool }{{false, false}, {true, false}, {true, true}} {
		dir := killedInSave(t, c, at.best)
		if at.cut { // a session that began anew was killed in its turn
			path := filepath.Join(dir, runfs.MetricsName)
			b := try.Get(os.ReadFile(path))(t)
			try.Do(t, os.Truncate(path, int64(bytes.IndexByte(b, '\n')+1)))
		}
		w := &runtest.Watcher{}
		try.Do(t, resumed(t, c, dir, w))
		if !w.Plan.Resume || w.Plan.Resumed.Step != 0 || w.Steps[0] != 1 {
			t.Errorf("resumed at %+v", w.Plan.Resumed)
		}
		for _, name := range []string{runfs.LastName, runfs.BestName} {
			runtest.SameTensors(t, runtest.Checkpoint(dir, name), runtest.Checkpoint(whole, name))
		}
		if got, want := runtest.Metrics(t, dir), runtest.Metrics(t, whole); !slices.Equal(got, want) {
			t.Errorf("%+v: metrics %q, want %q", at, got, want)
		}
	}
}

// Best weights of a later step are never replaced by earlier ones.
func TestBestOfALaterStepStays(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	best := runtest.Checkpoint(runtest.Train(t, c), runfs.BestName)
	short := *c
	short.Train.MaxSteps = 3
	dir := killedInSave(t, c, true) // best of step 5; the next session ends before that
	before := try.Get(os.ReadFile(runtest.Checkpoint(dir, runfs.BestName)))(t)
	try.Fails(t, resumed(t, &short, dir, &runtest.Watcher{}),
		"is of step 5 and is not replaced by the weights of step 3",
		"continue with --resume")
	if after, err := os.ReadFile(runtest.Checkpoint(dir, runfs.BestName)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("best has changed, %v", err)
	}
	// An old last checkpoint beside a newer best one.
	dir = filepath.Join(t.TempDir(), "run")
	try.Get(training.Train(t.Context(), runtest.Request(&short, dir, &runtest.Watcher{})))(t)
	b := try.Get(os.ReadFile(best))(t)
	try.Do(t, os.WriteFile(runtest.Checkpoint(dir, runfs.BestName), b, 0o666))
	try.Fails(t, resumed(t, c, dir, &runtest.Watcher{}), "but last.safetensors of step 3", "older")
	// A best checkpoint that is gone is told.
	lose(t, dir, runfs.BestName)
	w := &runtest.Watcher{}
	try.Do(t, resumed(t, c, dir, w))
	if len(w.Warnings) != 1 || !strings.Contains(w.Warnings[0].Error(), runfs.BestName) {
		t.Errorf("warnings %v", w.Warnings)
	}
}

// Checkpoints without a configuration are no empty directory.
func TestCheckpointsWithoutAConfiguration(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	dir := runtest.Train(t, c)
	try.Do(t, os.Remove(filepath.Join(dir, runfs.ConfigName)))
	before := contents(t, dir)
	_, err := training.Train(t.Context(), runtest.Request(c, dir, &runtest.Watcher{}))
	try.Fails(t, err, dir, "holds checkpoints but no config.yaml")
	if !equalContents(contents(t, dir), before) {
		t.Error("files of the run have changed")
	}
}

// A log that was cut off since the checkpoint was written is refused; one that is gone is told.
func TestLogEndsBeforeTheCheckpoint(t *testing.T) {
	c := runtest.TinyConfig()
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Interrupt(t, runtest.Request(c, dir, &runtest.Watcher{}), 7)
	path := filepath.Join(dir, runfs.MetricsName)
	whole := try.Get(os.ReadFile(path))(t)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for _, cut := range [][]byte{bytes.Join(lines[:3], nil), whole[:len(whole)-3], bytes.Join(lines[1:], nil)} {
		try.Do(t, os.WriteFile(path, cut, 0o666))
		err := resumed(t, c, dir, &runtest.Watcher{})
		try.Fails(t, err, path, fmt.Sprintf("has %d lines up to step 7", bytes.Count(cut, []byte("\n"))),
			"after 8",
			"bring the whole file back")
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, cut) {
			t.Errorf("the log has changed, %v", err)
		}
	}
	try.Do(t, os.Remove(path))
	for _, most := range []int{7, 26} { // the first session leaves an empty log, and the checkpoint as it is
		c.Train.MaxSteps = most
		w := &runtest.Watcher{}
		try.Do(t, resumed(t, c, dir, w))
		if len(w.Warnings) != 1 || !strings.Contains(w.Warnings[0].Error(), "has lost its 8 lines up to step 7") {
			t.Errorf("warnings %v", w.Warnings)
		}
	}
	c.Train.MaxSteps = 0
	runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(runtest.Train(t, c),
		runfs.LastName))
}

// A position that cannot be is refused, also in a file whose checksum fits or that has none.
func TestImpossiblePosition(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.MaxSteps = 6
	dir := runtest.Train(t, c)
	path := runtest.Checkpoint(dir, runfs.LastName)
	good := try.Get(os.ReadFile(path))(t)
	f := runtest.OpenTensors(t, path)
	all := make([]safetensors.Tensor, 0, len(f.Names()))
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		x.Data = bytes.Clone(x.Data)
		all = append(all, x)
	}
	info := f.Metadata()["vsetrain"]
	for _, change := range [][2]string{
		{`"position":{"step":6`, `"position":{"step":5`},
		{`"position":{"step":6`, `"position":{"step":-6`},
		{`"epoch":0,"iter":6`, `"epoch":1,"iter":6`},
		{`"epoch":0,"iter":6`, `"epoch":0,"iter":7`},
		{`"step":6,"epoch":0,"iter":6`, `"step":13,"epoch":0,"iter":13`},
		{`"stale":`, `"stale":-1`},
		{`"best_step":`, `"best_step":1`},
	} {
		changed := strings.Replace(info, change[0], change[1], 1)
		changed = strings.Replace(changed, `"format":2`, `"format":1`, 1)
		if changed == info || !strings.Contains(info, change[0]) {
			t.Fatalf("%s is not in %s", change[0], info)
		}
		var b bytes.Buffer
		try.Do(t, safetensors.Write(&b, all, map[string]string{"vsetrain": changed}, nil))
		try.Do(t, os.WriteFile(path, b.Bytes(), 0o666))
		try.Fails(t, resumed(t, c, dir, &runtest.Watcher{}), path, "broken training state")
	}
	try.Do(t, os.WriteFile(path, good, 0o666))
	try.Do(t, resumed(t, c, dir, &runtest.Watcher{}))
}
