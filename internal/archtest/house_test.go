// Package archtest tests rules of the repository: which package is on which level, and what it may import.
// docs/design.md gives the reasons. A new package gets a line in the table here. .golangci.yml has the rules of style,
// and says which package may import which other module.
package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

const module = "vsetrain/"

// levels are the levels of the packages, the lowest first. Imports lead downwards.
var levels = [][]string{
	{"batch", "configs", "internal/system/bind", "internal/system/build",
		"internal/apps/chart", "internal/apps/cluster", "internal/apps/web",
		"internal/files/mapped", "internal/run/mlflow", "internal/system/options", "internal/compute/par",
		"internal/compute/pages", "internal/compute/philox",
		"internal/files/pickle", "internal/stats", "internal/files/half", "internal/files/elements",
		"internal/compute/vec",
		"internal/system/libraries", "internal/files/onnx", "internal/system/onnxruntime", "internal/system/mpi",
		"internal/files/pictures", "internal/files/jsontext", "internal/files/csvfile",
		"internal/files/npy", "internal/files/safetensors", "internal/files/torchfile", "internal/files/tfevents",
		"internal/files/runfs", "internal/files/journal",
		"internal/compute/sparse", "internal/compute/tile64", "internal/compute/gemm",
		"internal/files/atomicfile", "internal/files/disk", "internal/files/integrity",
		"internal/system/process", "internal/files/regular"},
	{"internal/compute/device", "internal/compute/device/cpu",
		"internal/compute/device/composed", "internal/compute/device/ranks",
		"internal/compute/device/cuda", "internal/compute/device/cuda/driver", "internal/compute/device/cuda/kernels",
		"internal/compute/device/cuda/measure", "internal/run/launch"},
	{"internal/compute/graph"},
	{"data", "data/text", "data/synth", "data/convert", "semantic", "loss", "models", "models/nn"},
	{"eval"},
	{"train"},
	{"internal/run/config"},
	{"internal/run/inputs", "internal/run/records"},
	{"internal/run/placement", "internal/run/tracking"},
	{"internal/run/pretrained"},
	{"internal/run/bench", "internal/run/checkpoints", "internal/run/evaluate", "internal/run/analysis",
		"internal/run/verify"},
	{"internal/run/training"},
	{"internal/apps/extract", "internal/apps/report", "internal/apps/search",
		"internal/apps/sweep", "internal/apps/view", "internal/apps/serve",
		"internal/archtest"},
	{"cmd/vsetrain", "cmd/vsetrain/internal/flags", "cmd/vsetrain/internal/ui", "cmd/vsetrain/internal/probe"},
}

// sideways are the imports allowed within a level; all others are not. A loss knows no network and no data set.
var sideways = map[string][]string{
	"internal/files/atomicfile": {"internal/files/disk", "internal/system/process"},
	"internal/files/integrity":  {"internal/files/atomicfile", "internal/files/journal", "internal/files/regular"},
	"internal/apps/chart":       {"internal/files/atomicfile"},
	"internal/files/elements":   {"internal/files/half"},
	"internal/files/onnx":       {"internal/files/elements"},
	"internal/files/pickle":     {"internal/files/half"},
	// headers are Python literals
	"internal/files/npy": {"internal/files/elements", "internal/files/half", "internal/files/pickle",
		"internal/files/atomicfile", "internal/files/integrity", "internal/files/mapped", "internal/files/regular"},
	"internal/files/safetensors": {"internal/files/elements", "internal/files/jsontext", "internal/files/mapped",
		"internal/files/regular"},
	"internal/files/torchfile": {"internal/files/elements", "internal/files/pickle",
		"internal/files/atomicfile", "internal/files/regular"},
	// explains a full disk
	"internal/files/tfevents": {"internal/files/atomicfile", "internal/files/disk", "internal/files/regular"},
	"internal/files/journal":  {"internal/files/atomicfile", "internal/files/disk", "internal/files/regular"},
	"internal/run/mlflow":     {"internal/system/options"},
	"internal/files/regular":  {"internal/system/options"}, // proposes names
	"internal/files/runfs": {"internal/system/options", "internal/files/atomicfile", "internal/files/disk",
		"internal/files/integrity",
		"internal/files/regular"},
	"internal/system/onnxruntime": {"internal/system/libraries"},
	"internal/system/mpi":         {"internal/system/libraries"},
	"internal/files/pictures":     {"internal/files/regular"},
	"internal/files/jsontext":     {"internal/files/regular"},
	"internal/compute/gemm":       {"internal/system/libraries", "internal/compute/par"},
	"internal/compute/sparse": {"internal/compute/par", "internal/compute/philox",
		"internal/compute/tile64"},
	"internal/stats":              {"internal/compute/par", "internal/compute/philox"},
	"internal/compute/device/cpu": {"internal/compute/device"},
	"internal/compute/device/cuda": {"internal/compute/device", "internal/compute/device/cuda/driver",
		"internal/compute/device/cuda/kernels"},
	"internal/compute/device/composed": {"internal/compute/device"},
	"internal/compute/device/ranks":    {"internal/compute/device"},
	"data":                             {"data/text"},
	"models":                           {"models/nn"},
	"internal/apps/search":             {"internal/apps/extract"},
	"internal/apps/serve":              {"internal/apps/search"},
	// a page on what they tell
	"internal/apps/view": {"internal/apps/report", "internal/apps/search"},
	"cmd/vsetrain":       {"cmd/vsetrain/internal/flags", "cmd/vsetrain/internal/ui", "cmd/vsetrain/internal/probe"},

	"internal/compute/device/cuda/measure": {"internal/compute/device", "internal/compute/device/cuda",
		"internal/compute/device/cuda/driver"}}

// tests are the imports that only tests may have beside the imports of their package. They may lead upwards.
var tests = map[string][]string{
	// whole runs
	"internal/run/checkpoints":      {"internal/run/evaluate"},
	"internal/run/evaluate":         {"internal/run/checkpoints"},
	"internal/run/analysis":         {"internal/run/evaluate"},
	"internal/system/onnxruntime":   {"internal/files/onnx"},
	"internal/compute/device/cuda":  {"internal/compute/device/cpu", "internal/compute/device/composed"},
	"internal/compute/device/ranks": {"internal/compute/device/composed", "internal/compute/device/cpu"}}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
}

// touch looks at every source file, since `go test` reuses a result until a file that the test itself looked at
// changes.
func touch(t *testing.T) {
	t.Helper()
	try.Do(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), ".") && e.Name() != ".." {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	}))
}

// The rules hold for the sources of every system that is supported.
func TestHouse(t *testing.T) {
	touch(t)
	var all []goPackage // of every target
	for _, target := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64",
		"linux/amd64 vsecu", "linux/amd64 nodl"} {
		system, tag, _ := strings.Cut(target, " ")
		goos, goarch, _ := strings.Cut(system, "/")
		cgo := "CGO_ENABLED=0"
		if tag == "vsecu" {
			cgo = "CGO_ENABLED=1"
		}
		var pkgs []goPackage
		cmd := exec.Command("go", "list", "-tags="+tag, "-json=ImportPath,Dir,Imports,TestImports,XTestImports",
			"./...")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, cgo)
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Fatalf("%s: go list: %v\n%s", target, err, exit.Stderr)
			}
			t.Fatalf("%s: go list: %v", target, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
			var p goPackage
			try.Do(t, dec.Decode(&p))
			pkgs = append(pkgs, p)
		}
		all = append(all, pkgs...)
		for _, fault := range faults(pkgs) {
			t.Errorf("%s: %s", target, fault)
		}
		for _, missing := range absent(pkgs) {
			t.Errorf("%s: %s is in the table but not in the module", target, missing)
		}
	}
	for _, allowance := range unused(all) {
		t.Errorf("no target needs the allowance %s: take it out of its table", allowance)
	}
}

// level returns the level of a package, -1 if it has none.
func level(name string) int {
	return slices.IndexFunc(levels, func(names []string) bool { return slices.Contains(names, name) })
}

// faults lists every import that breaks a rule.
func faults(pkgs []goPackage) []string {
	var list []string
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module)
		if level(name) < 0 && !inLab(name) {
			list = append(list, fmt.Sprintf("%s has no level: put it into the table of internal/archtest", name))
			continue
		}
		for _, to := range p.Imports {
			list = append(list, forbidden(name, to, sideways[name])...)
		}
		allowed := append(slices.Clone(sideways[name]), tests[name]...)
		allowed = append(allowed, name) // an external test imports its own package
		for _, to := range append(p.TestImports, p.XTestImports...) {
			// tests may use any module, and the laboratory
			if strings.HasPrefix(to, module) && !inLab(strings.TrimPrefix(to, module)) {
				list = append(list, forbidden(name, to, allowed)...)
			}
		}
	}
	return list
}

// forbidden returns the fault of one import, none where it is allowed.
func forbidden(name, to string, allowed []string) []string {
	inner, ours := strings.CutPrefix(to, module)
	if !ours {
		if to == "C" {
			return []string{name + " imports C: nothing needs cgo"}
		}
		return nil // .golangci.yml says which packages may import what lies outside the module
	}
	from, at := level(name), level(inner)
	switch {
	case inLab(name) || name == "cmd/vsetrain" && inner == "lab/selftest":
		return nil
	case inLab(inner):
		return []string{fmt.Sprintf("%s imports %s: the product imports nothing of the laboratory, and the command "+
			"selftest only lab/selftest", name, inner)}
	case !satellite(name) && satellite(inner):
		return []string{fmt.Sprintf("%s imports %s: the core knows no satellite", name, inner)}
	case at < 0 || at < from || slices.Contains(allowed, inner):
		return nil // a package without a level is reported once, as itself
	case at == from:
		return []string{fmt.Sprintf("%s imports %s, sideways on level %d", name, inner, from)}
	}
	return []string{fmt.Sprintf("%s (level %d) imports %s (level %d): upwards", name, from, inner, at)}
}

// inLab reports whether a package builds, tests or proves the product.
func inLab(name string) bool { return strings.HasPrefix(name, "lab/") }

// satellite reports whether a package uses runs and serves nothing of the core: the commands link it.
func satellite(name string) bool {
	for _, part := range []string{"internal/apps/", "cmd/"} {
		if strings.HasPrefix(name, part) {
			return true
		}
	}
	return false
}

// maxFolders bounds what internal/ shows.
const maxFolders = 9

func TestFloorsCanBeSeen(t *testing.T) {
	entries := try.Get(os.ReadDir(".."))(t)
	if len(entries) > maxFolders {
		t.Errorf("internal/ holds %d folders, expected at most %d: a package belongs below one of them", len(entries),
			maxFolders)
	}
	pkgs := []goPackage{{ImportPath: module + "train", Imports: []string{module + "internal/apps/chart"}}}
	if list := faults(pkgs); len(list) != 1 || !strings.Contains(list[0], "satellite") {
		t.Errorf("a core that imports a satellite: %q", list)
	}
}

// The folders stand on each other: no circle of folders, whatever the levels of their packages are.
func TestFoldersAreFloors(t *testing.T) {
	touch(t)
	out, err := exec.Command("go", "list", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`,
		module+"...").Output()
	try.Do(t, err)
	folder := func(path string) string {
		parts := strings.Split(strings.TrimPrefix(path, module), "/")
		if parts[0] == "internal" {
			return "internal/" + parts[1]
		}
		return parts[0]
	}
	below := map[string]map[string]string{} // what a folder imports, by one of the imports
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		from, to, _ := strings.Cut(line, " ")
		if a, b := folder(from), folder(to); strings.HasPrefix(to, module) && a != b {
			if below[a] == nil {
				below[a] = map[string]string{}
			}
			below[a][b] = line
		}
	}
	state := map[string]int{} // 1: on the way, 2: done
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		if state[name] == 1 {
			t.Errorf("a circle of folders: %s", strings.Join(append(way, name), " -> "))
			return
		}
		if state[name] == 2 {
			return
		}
		state[name] = 1
		for next, line := range below[name] {
			visit(next, append(way, name+" ("+line+")"))
		}
		state[name] = 2
	}
	for name := range below {
		visit(name, nil)
	}
	if len(below) < 12 {
		t.Errorf("%d folders import others", len(below))
	}
}

// unused lists the allowances that no package makes use of.
func unused(pkgs []goPackage) []string {
	needed := map[string]bool{}
	for _, p := range pkgs {
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, to := range p.Imports {
			needed[from+" -> "+strings.TrimPrefix(to, module)] = true
		}
		for _, to := range append(p.TestImports, p.XTestImports...) {
			needed["tests of "+from+" -> "+strings.TrimPrefix(to, module)] = true
		}
	}
	var list []string
	check := func(allowance string) {
		if !needed[allowance] {
			list = append(list, allowance)
		}
	}
	for from, tos := range sideways {
		for _, to := range tos {
			check(from + " -> " + to)
		}
	}
	for from, tos := range tests {
		for _, to := range tos {
			check("tests of " + from + " -> " + to)
		}
	}
	slices.Sort(list)
	return list
}

// absent lists the packages of the table that do not exist.
func absent(pkgs []goPackage) []string {
	var list []string
	for _, names := range levels {
		for _, name := range names {
			if !slices.ContainsFunc(pkgs, func(p goPackage) bool { return p.ImportPath == module+name }) {
				list = append(list, name)
			}
		}
	}
	return list
}

// Every rule is broken once.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		pkg  goPackage
		want string // "" is not a fault
	}{
		{goPackage{ImportPath: "vsetrain/train", Imports: []string{"os", "vsetrain/eval",
			"vsetrain/internal/compute/gemm"}},
			""},
		{goPackage{ImportPath: "vsetrain/data", Imports: []string{"vsetrain/train"}},
			"data (level 3) imports train (level 5): upwards"},
		{goPackage{ImportPath: "vsetrain/loss", Imports: []string{"vsetrain/models"}},
			"loss imports models, sideways on level 3"},
		{goPackage{ImportPath: "vsetrain/models", Imports: []string{"vsetrain/models/nn"}}, ""},
		{goPackage{ImportPath: "vsetrain/models/nn", Imports: []string{"vsetrain/models"}},
			"models/nn imports models, sideways on level 3"},
		{goPackage{ImportPath: "vsetrain/internal/new"}, "internal/new has no level: put it into the table of " +
			"internal/archtest"},
		{goPackage{ImportPath: "vsetrain/internal/compute/gemm", Imports: []string{"C"}},
			"internal/compute/gemm imports C: nothing needs cgo"},
		{goPackage{ImportPath: "vsetrain/loss", XTestImports: []string{"vsetrain/loss",
			"vsetrain/lab/golden",
			"gonum.org/v1/gonum/mat"}}, ""},
		{goPackage{ImportPath: "vsetrain/loss", XTestImports: []string{"vsetrain/models"}},
			"loss imports models, sideways on level 3"},
		{goPackage{ImportPath: "vsetrain/internal/compute/graph", TestImports: []string{"vsetrain/train"}},
			"internal/compute/graph (level 2) imports train (level 5): upwards"},
		{goPackage{ImportPath: "vsetrain/train", Imports: []string{"vsetrain/lab/golden"}},
			"train imports lab/golden: the product imports nothing of the laboratory, and the command selftest only " +
				"lab/selftest"},
		{goPackage{ImportPath: "vsetrain/internal/run/bench", Imports: []string{"vsetrain/lab/selftest"}},
			"internal/run/bench imports lab/selftest: the product imports nothing of the laboratory, and the command " +
				"selftest only lab/selftest"},
		{goPackage{ImportPath: "vsetrain/cmd/vsetrain", Imports: []string{"vsetrain/lab/selftest"},
			XTestImports: []string{"vsetrain/lab/crash"}}, ""},
		{goPackage{ImportPath: "vsetrain/lab/crash", Imports: []string{"vsetrain/train"}}, ""},
	} {
		want := []string{}
		if c.want != "" {
			want = []string{c.want}
		}
		if got := faults([]goPackage{c.pkg}); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := unused(nil); !slices.Contains(got, "data -> data/text") {
		t.Errorf("without packages unused are %q", got)
	}
	if got := absent(nil); len(got) < 20 || got[0] != levels[0][0] {
		t.Errorf("without packages absent are %q", got)
	}
}

// An allowance for a package or from a package that is gone is a hole: no table names one.
func TestTables(t *testing.T) {
	for from, tos := range sideways {
		for _, to := range tos {
			if level(from) < 0 || level(from) != level(to) {
				t.Errorf("%s may import %s, but they do not share a level", from, to)
			}
		}
	}
	for from, tos := range tests {
		for _, to := range tos {
			if level(from) < 0 || level(from) > level(to) {
				t.Errorf("tests of %s may import %s, which needs no allowance", from, to)
			}
		}
	}
}
