package verify

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/tfevents"
	"vsetrain/internal/run/config"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// notChecked says why a part of a run may be missing, or from another run, without being named.
var notChecked = map[string]string{
	".lock":         "names the process that trains",
	tfevents.Prefix: "curves for TensorBoard; the log has the same numbers",
	runfs.EnvName:   "machine and command line of the sessions, no result; named where it is missing",
}

// TestSetsOfParts takes parts of runs away and puts parts of other runs, or of another time, in their places. Each is
// named, whatever a training writes. Which files there are comes from the disk.
func TestSetsOfParts(t *testing.T) {
	train := func(set func(c *config.Config)) string {
		c := runtest.TinyConfig()
		c.Train.Keep, c.Train.Epochs, c.Optim.EMA = 2, 3, 0.5
		set(c)
		return runtest.Train(t, c)
	}
	run := train(func(*config.Config) {})
	others := []string{
		train(func(c *config.Config) { c.Seed++ }),
		train(func(c *config.Config) { c.Model.EmbedDim *= 2 }),
		train(func(c *config.Config) { c.Train.Epochs = 4 }),
		train(func(c *config.Config) { c.Optim.LR /= 2 }),
	}
	var files []string
	try.Do(t, filepath.WalkDir(run, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, strings.TrimPrefix(path, run+"/"))
		}
		return err
	}))
	if r := try.Get(Path(t.Context(), run, quiet))(t); len(r.Damaged)+len(r.Without) > 0 || len(files) < 9 {
		t.Fatalf("before: %+v of %q", r, files)
	}
	r := rand.New(rand.NewPCG(*damageSeed, 3))
	named := map[string]int{}
	tried, failed, until := 0, 0, time.Now().Add(*damageTime)
	for n := 0; n < 300 || time.Now().Before(until); n++ {
		name := files[r.IntN(len(files))]
		path := filepath.Join(run, name)
		before := try.Get(os.ReadFile(path))(t)
		how, foreign := "is missing", []byte(nil)
		switch k := r.IntN(len(others) + 2); {
		case k < len(others):
			how = "from " + others[k]
			foreign, _ = os.ReadFile(filepath.Join(others[k], name))
		case k == len(others) && strings.HasPrefix(name, runfs.CheckpointsName): // of the same run
			other := filepath.Join(runfs.CheckpointsName, []string{runfs.BestName, runfs.AverageName,
				runfs.LastName}[r.IntN(3)])
			how, foreign = "from "+other, try.Get(os.ReadFile(filepath.Join(run, other)))(t)
		}
		if name == runfs.ConfigName && how == "from "+others[2] { // a run may be resumed for more epochs
			continue
		}
		if bytes.Equal(before, foreign) || strings.HasPrefix(how, "from") && foreign == nil {
			continue
		}
		if foreign == nil {
			try.Do(t, os.Remove(path))
		} else {
			try.Do(t, os.WriteFile(path, foreign, 0o666))
		}
		found := try.Get(Path(t.Context(), run, quiet))(t)
		try.Do(t, os.WriteFile(path, before, 0o666))
		why := ""
		for prefix, reason := range notChecked {
			if strings.HasPrefix(filepath.Base(name), prefix) && (prefix != runfs.EnvName || foreign != nil) {
				why = reason
			}
		}
		// The last checkpoint is what the others are compared with: one of them is named in its place.
		isNamed := slices.ContainsFunc(found.Damaged, func(d Damage) bool {
			return d.Path == path || filepath.Base(name) == runfs.LastName
		})
		if tried++; isNamed != (why == "") {
			failed++
			t.Errorf("%s %s: named %v, %+v", name, how, isNamed, found)
		}
		named[name]++
	}
	t.Logf("campaign: parts of a run taken away or swapped: %d found, %[1]d tried, %d failed", tried, failed)
	if len(named) < len(files)-1 {
		t.Errorf("drawn were %v of %q", named, files)
	}
}
