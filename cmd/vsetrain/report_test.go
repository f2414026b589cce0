package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

// Of runs with damages that are drawn at random, named or found in folders, those that can be read are opened, and a
// warning names each other one. Where none can be read, or a name is the name of no run, it is an error.
func TestOpenRuns(t *testing.T) {
	standard := config.Default()
	whole := map[string]string{runfs.ConfigName: string(config.Marshal(&standard)),
		runfs.MetricsName: `{"kind":"val","step":1,"epoch":1,"m_recall":20}` + "\n"}
	damages := []map[string]string{nil, nil, {runfs.ConfigName: "loss: {name: own}\n"}, {runfs.ConfigName: "new: 1\n"},
		{runfs.ConfigName: "a: [\n"}, {runfs.MetricsName: ""}, {runfs.MetricsName: "{\n{}\n"},
		{runfs.MetricsName: `{"kind":"new","epoch":1}` + "\n"}, {runfs.EnvName: "{"}}
	random := rand.New(rand.NewPCG(8, 1))
	for round := range 60 {
		root := t.TempDir()
		var args, want, bad []string
		for i := range 1 + random.IntN(5) {
			damage := damages[random.IntN(len(damages))]
			dir := filepath.Join(root, fmt.Sprint("r", i))
			if random.IntN(3) == 0 { // found in a folder
				dir = filepath.Join(root, fmt.Sprint("folder", i), "deep/er")
			}
			for name, text := range whole {
				if other, damaged := damage[name]; damaged {
					text = other
				}
				if text != "" {
					try.Do(t, os.MkdirAll(dir, 0o777))
					try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
				}
			}
			if env := damage[runfs.EnvName]; env != "" {
				try.Do(t, os.WriteFile(filepath.Join(dir, runfs.EnvName), []byte(env), 0o666))
			}
			if damage == nil {
				want = append(want, dir)
			} else {
				bad = append(bad, dir)
			}
			arg := strings.TrimSuffix(dir, "/deep/er")
			if random.IntN(4) == 0 {
				arg = "LABEL=" + arg
			}
			args = append(args, arg)
		}
		gone := random.IntN(8) == 0
		if gone {
			args = slices.Insert(args, random.IntN(len(args)+1), filepath.Join(root, "gone"))
		}
		var errs bytes.Buffer
		runs, err := openRuns(newApp(&errs, &errs), args)
		if (err != nil) != (gone || len(want) == 0) {
			t.Fatalf("round %d: %v: %v", round, args, err)
		}
		if err != nil {
			if gone && !strings.Contains(err.Error(), "gone") {
				t.Errorf("round %d: %v", round, err)
			}
			continue
		}
		var got []string
		for _, r := range runs {
			got = append(got, r.Dir)
		}
		if !slices.Equal(got, want) || strings.Count(errs.String(), "warning: left out: ") != len(bad) {
			t.Errorf("round %d: %v are open, want %v; %s", round, got, want, errs.String())
		}
		for _, dir := range bad {
			if !strings.Contains(errs.String(), dir) {
				t.Errorf("round %d: no word of %s: %s", round, dir, errs.String())
			}
		}
	}
}
