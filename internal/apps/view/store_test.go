package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/lab/try"
)

const validated = `{"kind":"train","step":%d,"epoch":%g}
{"kind":"val","step":%d,"epoch":%g,"m_recall":%g,"best":%t}
`

func line2(step int, epoch, recall float64, best bool) string {
	return fmt.Sprintf(validated, step, epoch, step, epoch, recall, best)
}

// States follow the lock and the plan of the run.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		name, metrics   string
		epochs, max     int
		early           int
		locked, started bool
		want            State
		done            float64
	}{
		{name: "done", metrics: line2(10, 2, 5, true), epochs: 2, want: Finished, done: 1},
		{name: "half", metrics: line2(10, 1, 5, true), epochs: 2, want: Interrupted, done: 0.5},
		{name: "nothing", epochs: 2, want: Interrupted},
		{name: "held", metrics: line2(10, 1, 5, true), epochs: 2, locked: true, want: Running, done: 0.5},
		{name: "max", metrics: line2(10, 1, 5, true), epochs: 20, max: 10, want: Finished, done: 1},
		{name: "early", metrics: line2(10, 1, 5, true) + line2(20, 2, 4, false) + line2(30, 3, 4, false), epochs: 20,
			early: 2, want: Finished, done: 0.15},
		{name: "late", metrics: line2(10, 1, 5, true) + line2(20, 2, 4, false), epochs: 20, early: 2, want: Interrupted,
			done: 0.1},
		{name: "unvalidated", metrics: line2(10, 1, 5, true) + `{"kind":"train","step":20,"epoch":2}` + "\n", epochs: 2,
			want: Interrupted, done: 1},
		{name: "broken", metrics: "no\n", epochs: 2, want: Unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			cfg := tiny()
			cfg.Train.Epochs, cfg.Train.MaxSteps, cfg.Train.EarlyStop = c.epochs, c.max, c.early
			fakeRun(t, root, cfg, c.metrics)
			if c.locked {
				d := try.Get(runfs.Open(root, runfs.Owner{PID: 7, Host: "there"}))(t)
				defer d.Close()
			}
			all, _ := newStore(root).all(time.Now())
			if len(all) != 1 || all[0].State != c.want || all[0].Done != c.done || all[0].ID != "." ||
				all[0].Name != filepath.Base(root) {
				t.Fatalf("%+v, want %s, %g done", all[0], c.want, c.done)
			}
			if r := all[0]; c.locked != (r.Owner.PID == 7) || (c.want == Unreadable) != strings.Contains(r.Err,
				"metrics.jsonl:1:") {
				t.Errorf("owner %v, error %q", r.Owner, r.Err)
			}
		})
	}
}

// Runs are found at any depth up to the limit, through links, once a second; a folder that goes is forgotten.
func TestStore(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a/b/c/d/e")
	for _, dir := range []string{"x", "y/z", "s/trials/1", ".hidden", "x/inner", "a/b/c/d/e", "a/b/c/d/e2/f"} {
		fakeRun(t, filepath.Join(root, dir), tiny(), "")
	}
	write(t, filepath.Join(root, "y", runfs.MetricsName), "not a run")
	if err := os.Symlink(root, filepath.Join(root, "loop")); err != nil {
		t.Logf("links are not tested: %v", err)
	}
	s := newStore(root)
	now := time.Now()
	ids := func() (out []string) {
		all, full := s.all(now)
		if full {
			t.Error("full")
		}
		for _, r := range all {
			if !strings.HasPrefix(r.ID, "loop") {
				out = append(out, r.ID)
			}
		}
		return out
	}
	if got := strings.Join(ids(), " "); got != "a/b/c/d/e s/trials/1 x y/z" {
		t.Errorf("found %s", got)
	}
	try.Do(t, os.RemoveAll(deep))
	if got := len(ids()); got != 4 {
		t.Errorf("looked again within a second: %d runs", got)
	}
	now = now.Add(2 * rescan)
	if got := strings.Join(ids(), " "); got != "s/trials/1 x y/z" {
		t.Errorf("after a run was deleted: %s", got)
	}
	if s.find("x", now) == nil || s.find("../x", now) != nil || s.find("x/inner", now) != nil ||
		s.find("", now) != nil {
		t.Error("find")
	}
	write(t, filepath.Join(root, "x", runfs.ConfigName), "version: 99\n")
	now = now.Add(2 * rescan)
	if r := s.find("x", now); r.State != Unreadable || !strings.Contains(r.Err, "version") || r.Config != nil {
		t.Errorf("a configuration that cannot be read: %+v", r)
	}
}
