package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/config"
	"vsetrain/train"
)

// resumed continues a run.
func resumed(t *testing.T, c *config.Config, dir string, w *watcher) error {
	t.Helper()
	r := request(c, dir, w)
	r.Resume = true
	_, err := Train(t.Context(), r)
	return err
}

// killedInSave trains until the validation of step 5 is logged and leaves the directory as a kill does that comes
// before the checkpoints, or between the two.
func killedInSave(t *testing.T, c *config.Config, best bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	short := *c
	short.Train.MaxSteps = 5
	if _, err := Train(t.Context(), request(&short, dir, &watcher{})); err != nil {
		t.Fatal(err)
	}
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
		if err := os.Remove(checkpoint(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns the bytes of all files of a run but its lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == ".lock" {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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
	c := tinyConfig()
	c.Train.Epochs = 1
	whole := mustTrain(t, c)
	for name, lost := range map[string][]string{"last": {runfs.LastName}, "both": {runfs.LastName, runfs.BestName}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			lose(t, dir, lost...)
			before := contents(t, dir)
			err := resumed(t, c, dir, &watcher{})
			wantError(t, err, runfs.LastName+" is missing", "step 13", "bring it back", "--run")
			if has := strings.Contains(err.Error(),
				"train.init_from="+checkpoint(dir, runfs.BestName)); has != (len(lost) == 1) {
				t.Errorf("remedy of %v", err)
			}
			if !equalContents(contents(t, dir), before) {
				t.Error("files of the run have changed")
			}
		})
	}
	t.Run("log too", func(t *testing.T) { // what is left is a best checkpoint, of step 13
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(checkpoint(dir, runfs.LastName), checkpoint(dir, runfs.BestName)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, runfs.MetricsName)); err != nil {
			t.Fatal(err)
		}
		wantError(t, resumed(t, c, dir, &watcher{}), runfs.LastName+" is missing")
	})
	t.Run("a link that leads nowhere", func(t *testing.T) {
		dir := killedInSave(t, c, false)
		if err := os.Symlink(filepath.Join(dir, "not", "mounted"), checkpoint(dir, runfs.LastName)); err != nil {
			t.Skip(err)
		}
		wantError(t, resumed(t, c, dir, &watcher{}), runfs.LastName)
	})
}

// A run that was killed before its first checkpoint begins anew, says so, and ends as the undisturbed one.
func TestKilledBeforeItsFirstCheckpoint(t *testing.T) {
	c := tinyConfig()
	c.Train.Epochs = 1
	whole := mustTrain(t, c)
	for _, at := range []struct{ best, cut bool }{{false, false}, {true, false}, {true, true}} {
		dir := killedInSave(t, c, at.best)
		if at.cut { // a session that began anew was killed in its turn
			path := filepath.Join(dir, runfs.MetricsName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, int64(bytes.IndexByte(b, '\n')+1)); err != nil {
				t.Fatal(err)
			}
		}
		w := &watcher{}
		if err := resumed(t, c, dir, w); err != nil {
			t.Fatal(err)
		}
		if !w.plan.Resume || w.plan.Resumed.Step != 0 || w.steps[0] != 1 {
			t.Errorf("resumed at %+v", w.plan.Resumed)
		}
		for _, name := range []string{runfs.LastName, runfs.BestName} {
			sameTensors(t, checkpoint(dir, name), checkpoint(whole, name))
		}
		if got, want := metrics(t, dir), metrics(t, whole); !slices.Equal(got, want) {
			t.Errorf("%+v: metrics %q, want %q", at, got, want)
		}
	}
}

// Best weights of a later step are never replaced by earlier ones.
func TestBestOfALaterStepStays(t *testing.T) {
	c := tinyConfig()
	c.Train.Epochs = 1
	best := checkpoint(mustTrain(t, c), runfs.BestName)
	short := *c
	short.Train.MaxSteps = 3
	dir := killedInSave(t, c, true) // best of step 5; the next session ends before that
	before, err := os.ReadFile(checkpoint(dir, runfs.BestName))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, resumed(t, &short, dir, &watcher{}), "is of step 5 and is not replaced by the weights of step 3",
		"continue with --resume")
	if after, err := os.ReadFile(checkpoint(dir, runfs.BestName)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("best has changed, %v", err)
	}
	// An old last checkpoint beside a newer best one.
	dir = filepath.Join(t.TempDir(), "run")
	if _, err := Train(t.Context(), request(&short, dir, &watcher{})); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(best)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(checkpoint(dir, runfs.BestName), b, 0o666); err != nil {
		t.Fatal(err)
	}
	wantError(t, resumed(t, c, dir, &watcher{}), "but last.safetensors of step 3", "older")
	// A best checkpoint that is gone is told.
	lose(t, dir, runfs.BestName)
	w := &watcher{}
	if err := resumed(t, c, dir, w); err != nil {
		t.Fatal(err)
	}
	if len(w.warnings) != 1 || !strings.Contains(w.warnings[0].Error(), runfs.BestName) {
		t.Errorf("warnings %v", w.warnings)
	}
}

// Checkpoints without a configuration are no empty directory.
func TestCheckpointsWithoutAConfiguration(t *testing.T) {
	c := tinyConfig()
	c.Train.Epochs = 1
	dir := mustTrain(t, c)
	if err := os.Remove(filepath.Join(dir, runfs.ConfigName)); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	_, err := Train(t.Context(), request(c, dir, &watcher{}))
	wantError(t, err, dir, "holds checkpoints but no config.yaml")
	if !equalContents(contents(t, dir), before) {
		t.Error("files of the run have changed")
	}
}

// A log that was cut off since the checkpoint was written is refused; one that is gone is told.
func TestLogEndsBeforeTheCheckpoint(t *testing.T) {
	c := tinyConfig()
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Train(ctx, request(c, dir, &watcher{onStep: func(i train.StepInfo) {
		if i.Step == 7 {
			cancel()
		}
	}})); !errors.Is(err, train.ErrInterrupted) {
		t.Fatal(err)
	}
	path := filepath.Join(dir, runfs.MetricsName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for _, cut := range [][]byte{bytes.Join(lines[:3], nil), whole[:len(whole)-3], bytes.Join(lines[1:], nil)} {
		if err := os.WriteFile(path, cut, 0o666); err != nil {
			t.Fatal(err)
		}
		err := resumed(t, c, dir, &watcher{})
		wantError(t, err, path, fmt.Sprintf("has %d lines up to step 7", bytes.Count(cut, []byte("\n"))), "after 8",
			"bring the whole file back")
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, cut) {
			t.Errorf("the log has changed, %v", err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{7, 26} { // the first session leaves an empty log, and the checkpoint as it is
		c.Train.MaxSteps = most
		w := &watcher{}
		if err := resumed(t, c, dir, w); err != nil {
			t.Fatal(err)
		}
		if len(w.warnings) != 1 || !strings.Contains(w.warnings[0].Error(), "has lost its 8 lines up to step 7") {
			t.Errorf("warnings %v", w.warnings)
		}
	}
	c.Train.MaxSteps = 0
	sameTensors(t, checkpoint(dir, runfs.LastName), checkpoint(mustTrain(t, c), runfs.LastName))
}

// A position that cannot be is refused, also in a file whose checksum fits or that has none.
func TestImpossiblePosition(t *testing.T) {
	c := tinyConfig()
	c.Train.MaxSteps = 6
	dir := mustTrain(t, c)
	path := checkpoint(dir, runfs.LastName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := openTensors(t, path)
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
		if err := safetensors.Write(&b, all, map[string]string{"vsetrain": changed}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		wantError(t, resumed(t, c, dir, &watcher{}), path, "broken training state")
	}
	if err := os.WriteFile(path, good, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := resumed(t, c, dir, &watcher{}); err != nil {
		t.Error(err)
	}
}
