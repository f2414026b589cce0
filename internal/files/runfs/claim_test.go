package runfs

import (
	"os"
	"path/filepath"
	"testing"

	"vsetrain/lab/try"
)

// A folder becomes a run where no name that the run writes is taken, or the run itself took it.
func TestUnclaimed(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	for _, c := range []struct {
		name  string
		files map[string]string // -> is a link
		taken string
	}{
		{"none", nil, ""},
		{"other files", map[string]string{"notes.txt": "mine", "train_caps.txt": "a dog\n"}, ""},
		{"a log", map[string]string{MetricsName: "mine"}, MetricsName},
		{"an empty log", map[string]string{MetricsName: ""}, MetricsName},
		{"a link", map[string]string{MetricsName: "->"}, MetricsName},
		{"a link as lock", map[string]string{lockName: "->"}, lockName},
		{"the lock of another program", map[string]string{lockName: "1234\n"}, lockName},
		{"a lock like ours", map[string]string{lockName: `{"pid":1,"owner":"apt"}`}, lockName},
		{"a first file of another program", map[string]string{"data.json": `{"data": [1]}`}, "data.json"},
		{"checkpoints", map[string]string{"checkpoints/model.pt": "x"}, CheckpointsName},
		{"a file as checkpoints", map[string]string{"checkpoints": "x"}, CheckpointsName},
		{"checkpoints elsewhere", map[string]string{"checkpoints": "->"}, CheckpointsName},
		{"ended before its configuration",
			map[string]string{lockName: `{"pid":1,"host":"h","since":"2026-01-01T00:00:00Z"}`,
				MetricsName: "{}\n", "data.json": "{}", "checkpoints/x": ""}, ""},
		{"ended while it wrote its lock", map[string]string{lockName: "", "data.json": "{}"}, ""},
		{"its lock, and a link", map[string]string{lockName: "", MetricsName: "->"}, MetricsName},
		{"a run", map[string]string{ConfigName: "seed: 7\n", MetricsName: "->", "data.json": "x"}, ""},
	} {
		dir, shown := t.TempDir(), true
		for name, text := range c.files {
			path := filepath.Join(dir, name)
			try.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
			if text == "->" {
				try.Do(t, os.Symlink(precious, path))
				st, err := os.Lstat(path)
				shown = err == nil && st.Mode()&os.ModeSymlink != 0
			} else {
				try.Do(t, os.WriteFile(path, []byte(text), 0o666))
			}
		}
		if !shown { // Wine shows no links
			t.Logf("%s: left out, links are not shown here", c.name)
			continue
		}
		err := Unclaimed(dir, "data.json", MetricsName, EnvName)
		if c.taken == "" {
			try.Do(t, err)
		} else {
			try.Fails(t, err, filepath.Join(dir, c.taken)+": it is there already")
		}
	}
	dir := t.TempDir()
	run := try.Get(Open(dir, Owner{PID: 1}))(t)
	try.Do(t, run.WriteJSON("data.json", map[string]int{"a": 1}))
	run.Close()
	try.Do(t, os.Remove(filepath.Join(dir, lockName))) // as a power failure may leave it
	try.Do(t, os.WriteFile(filepath.Join(dir, MetricsName), nil, 0o666))
	try.Do(t, Unclaimed(dir, "data.json", MetricsName))
}
