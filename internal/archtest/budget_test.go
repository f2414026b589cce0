package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// budget is how many lines of Go each package of the product may have without its tests, and the laboratory and all
// tests together. Whoever raises a number says in the commit what the lines are for.
var budget = map[string]int{
	"batch":                                80,
	"cmd/vsetrain":                         8680,
	"cmd/vsetrain/internal/flags":          570,
	"cmd/vsetrain/internal/probe":          360,
	"cmd/vsetrain/internal/ui":             690,
	"configs":                              20,
	"data":                                 5050,
	"data/convert":                         2990,
	"data/synth":                           2230,
	"data/text":                            2300,
	"eval":                                 4560,
	"internal/apps/chart":                  1140,
	"internal/apps/cluster":                410,
	"internal/apps/extract":                1170,
	"internal/apps/report":                 3450,
	"internal/apps/search":                 3070,
	"internal/apps/serve":                  1860,
	"internal/apps/sweep":                  3440,
	"internal/apps/view":                   3500,
	"internal/apps/web":                    450,
	"internal/compute/device":              3170,
	"internal/compute/device/composed":     340,
	"internal/compute/device/cpu":          7090,
	"internal/compute/device/cuda":         7490,
	"internal/compute/device/cuda/driver":  1920,
	"internal/compute/device/cuda/kernels": 110,
	"internal/compute/device/cuda/measure": 530,
	"internal/compute/device/ranks":        630,
	"internal/compute/gemm":                2450,
	"internal/compute/graph":               5270,
	"internal/compute/pages":               80,
	"internal/compute/par":                 150,
	"internal/compute/philox":              200,
	"internal/compute/sparse":              970,
	"internal/compute/tile64":              140,
	"internal/compute/vec":                 1380,
	"internal/files/atomicfile":            750,
	"internal/files/csvfile":               40,
	"internal/files/disk":                  210,
	"internal/files/elements":              110,
	"internal/files/half":                  140,
	"internal/files/integrity":             670,
	"internal/files/journal":               290,
	"internal/files/jsontext":              550,
	"internal/files/mapped":                120,
	"internal/files/npy":                   1060,
	"internal/files/onnx":                  440,
	"internal/files/pickle":                1730,
	"internal/files/pictures":              770,
	"internal/files/regular":               660,
	"internal/files/runfs":                 810,
	"internal/files/safetensors":           670,
	"internal/files/tfevents":              550,
	"internal/files/torchfile":             830,
	"internal/run/analysis":                1130,
	"internal/run/bench":                   1070,
	"internal/run/checkpoints":             940,
	"internal/run/config":                  2620,
	"internal/run/evaluate":                720,
	"internal/run/inputs":                  460,
	"internal/run/launch":                  1120,
	"internal/run/mlflow":                  350,
	"internal/run/placement":               840,
	"internal/run/pretrained":              1110,
	"internal/run/records":                 370,
	"internal/run/tracking":                450,
	"internal/run/training":                1740,
	"internal/run/verify":                  330,
	"internal/stats":                       600,
	"internal/system/bind":                 70,
	"internal/system/build":                70,
	"internal/system/libraries":            660,
	"internal/system/mpi":                  540,
	"internal/system/onnxruntime":          460,
	"internal/system/options":              510,
	"internal/system/process":              60,
	"loss":                                 1850,
	"models":                               5940,
	"models/nn":                            920,
	"semantic":                             1270,
	"train":                                3870,

	"lab":   16130,
	"tests": 66130,
}

// account is the entry of the budget that a file counts for.
func account(name string) string {
	switch dir := filepath.ToSlash(filepath.Dir(name)); {
	case strings.HasSuffix(name, "_test.go"):
		return "tests"
	case inLab(dir + "/"):
		return "lab"
	default:
		return dir
	}
}

// overspent lists the accounts with more lines than the budget allows, and the entries that no file counts for.
func overspent(lines map[string]int) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if allowed, ok := budget[name]; !ok {
			faults = append(faults, fmt.Sprintf("%s has no budget: put its %d lines into the table", name, lines[name]))
		} else if lines[name] > allowed {
			faults = append(faults, fmt.Sprintf("%s has %d lines, its budget is %d: make it smaller, or raise the "+
				"number and say why in the commit", name, lines[name], allowed))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(budget)) {
		if lines[name] == 0 {
			faults = append(faults, fmt.Sprintf("%s has a budget and no lines: take it out of the table", name))
		}
	}
	return faults
}

func TestBudget(t *testing.T) {
	root := filepath.Join("..", "..")
	lines := map[string]int{}
	try.Do(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		lines[account(name)] += bytes.Count(text, []byte("\n"))
		return err
	}))
	for _, fault := range overspent(lines) {
		t.Error(fault)
	}
}

func TestOverspent(t *testing.T) {
	lines := maps.Clone(budget)
	if got := overspent(lines); len(got) > 0 {
		t.Errorf("a spent budget: %q", got)
	}
	lines["loss"]++
	lines["new"] = 3
	delete(lines, "train")
	want := []string{"loss has ", "new has no budget: put its 3 lines", "train has a budget and no lines"}
	got := overspent(lines)
	if len(got) != len(want) {
		t.Fatalf("faults are %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("fault %q, expected %q", got[i], want[i])
		}
	}
	for name, want := range map[string]string{"train/step.go": "train", "train/step_test.go": "tests",
		"lab/crash/record.go": "lab", "lab/crash/crash_test.go": "tests", "cmd/vsetrain/eval.go": "cmd/vsetrain"} {
		if got := account(name); got != want {
			t.Errorf("%s counts for %s, expected %s", name, got, want)
		}
	}
}
