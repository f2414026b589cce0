// Package house holds the rules of the house and nothing else: which package stands on which level, what it may import,
// and which of them may touch the outside world. docs/design.md tells the reasons. A new package gets a line in the
// table here.
package house

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "vsetrain/"

// levels are the floors of the house, the ground floor first. Imports lead downwards.
var levels = [][]string{
	{"configs", "internal/asm", "internal/build", "internal/chart", "internal/golden",
		"internal/mapped", "internal/options", "internal/par",
		"internal/philox",
		"internal/pickle", "internal/stats", "internal/half", "internal/vec", "internal/vec/asmgen",
		"internal/npy", "internal/safetensors", "internal/torchfile", "internal/tfevents", "internal/runfs",
		"internal/sparse", "internal/gemm", "internal/gemm/asmgen",
		"internal/atomicfile", "internal/process", "internal/regular"},
	{"internal/device", "internal/device/cpu", "internal/device/devicetest", "internal/device/composed",
		"internal/device/toy",
		"internal/device/cuda", "internal/device/cuda/driver", "internal/device/cuda/emulator",
		"internal/device/cuda/emulator/ptx", "internal/device/cuda/kernels"},
	{"internal/graph"},
	{"data", "data/text", "data/synth", "data/convert", "semantic", "loss", "models", "models/nn"},
	{"eval"},
	{"train"},
	{"internal/config", "internal/experiment", "internal/report", "internal/search", "internal/sweep", "internal/view",
		"internal/figures",
		"internal/house"},
	{"cmd/vsetrain", "cmd/vsetrain/internal/ui", "cmd/vsetrain/internal/probe"},
}

// sideways are the imports allowed on one floor; all others are not. A loss knows no network and no data set.
var sideways = map[string][]string{
	"internal/atomicfile": {"internal/process"},
	// headers are Python literals
	"internal/npy": {"internal/half", "internal/pickle", "internal/atomicfile", "internal/mapped",
		"internal/regular"},
	"internal/safetensors":       {"internal/half", "internal/mapped", "internal/regular"},
	"internal/torchfile":         {"internal/half", "internal/pickle", "internal/atomicfile", "internal/regular"},
	"internal/tfevents":          {"internal/atomicfile", "internal/regular"}, // explains a full disk
	"internal/runfs":             {"internal/options", "internal/atomicfile", "internal/regular"},
	"internal/gemm":              {"internal/par"},
	"internal/gemm/asmgen":       {"internal/asm"},
	"internal/vec/asmgen":        {"internal/asm"},
	"internal/sparse":            {"internal/par", "internal/philox"},
	"internal/stats":             {"internal/par", "internal/philox"},
	"internal/device/cpu":        {"internal/device"},
	"internal/device/cuda":       {"internal/device", "internal/device/cuda/driver", "internal/device/cuda/kernels"},
	"internal/device/devicetest": {"internal/device"},
	"internal/device/composed":   {"internal/device"},
	"internal/device/toy":        {"internal/device"},
	"data":                       {"data/text"},
	"models":                     {"models/nn"},
	"internal/experiment":        {"internal/config"},
	"internal/report":            {"internal/config", "internal/experiment"}, // reads what experiment writes
	"internal/figures":           {"internal/config"},
	"internal/search":            {"internal/experiment"},
	// trials are runs
	"internal/sweep": {"internal/config", "internal/experiment", "internal/report"},
	// a page on what they tell
	"internal/view": {"internal/config", "internal/experiment", "internal/report", "internal/search"},
	"cmd/vsetrain":  {"cmd/vsetrain/internal/ui", "cmd/vsetrain/internal/probe"},

	"internal/device/cuda/emulator": {"internal/device/cuda/emulator/ptx"},
}

// tests are the imports that only tests may have beside those of their package.
var tests = map[string][]string{
	"internal/search":     {"internal/config"},
	"internal/device/cpu": {"internal/device/devicetest"},
	"internal/device/cuda": {"internal/device/cpu", "internal/device/devicetest",
		"internal/device/cuda/emulator"},
	"internal/device/composed":      {"internal/device/cpu", "internal/device/devicetest"},
	"internal/device/toy":           {"internal/device/composed", "internal/device/devicetest"},
	"internal/device/cuda/driver":   {"internal/device/cuda/emulator"},
	"internal/device/cuda/emulator": {"internal/device/cuda/driver"},
}

// outside says which packages may import what lies outside the module: a package, or all packages below a path.
var outside = map[string][]string{
	"github.com/spf13/cobra":       {"cmd/vsetrain"},
	"github.com/spf13/pflag":       {"cmd/vsetrain"},
	"github.com/spf13/viper":       {"internal/config"},
	"github.com/chromedp":          {}, // drives a browser in tests
	"go.yaml.in":                   {"internal/config", "internal/sweep"},
	"github.com/vbauerster":        {"cmd/vsetrain/internal/ui"},
	"golang.org/x/term":            {"cmd/vsetrain/internal/ui"},
	"gorgonia.org/gorgonia":        {"internal/graph"},
	"gorgonia.org/tensor":          {"internal/graph", "loss"},
	"gorgonia.org/cu":              {"internal/device/cuda/driver"}, // build tag vsecu
	"github.com/chewxy/hm":         {"internal/graph"},
	"gonum.org/v1/gonum":           {"internal/gemm", "internal/sparse", "internal/stats"},
	"gonum.org/v1/plot":            {"internal/report"},
	"github.com/ebitengine/purego": {"internal/gemm", "internal/device/cuda/driver", "internal/device/cuda/emulator"},
	"k8s.io":                       {}, // tests alone
	"sigs.k8s.io":                  {},
	"flag":                         {},
	"math/rand":                    {},
	// of tests: the program links the suite of devicetest without it
	"testing":   {"internal/device/cuda/emulator"},
	"os/signal": {"cmd/vsetrain"},
	"C":         {},
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
}

// touch looks at every source file, since `go test` reuses a result until a file that the test itself looked at
// changes.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), ".") && e.Name() != ".." {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The rules hold for the sources of every system that is supported.
func TestHouse(t *testing.T) {
	touch(t)
	for _, target := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64",
		"linux/amd64 vsecu"} {
		system, tag, tagged := strings.Cut(target, " ")
		goos, goarch, _ := strings.Cut(system, "/")
		cgo := "CGO_ENABLED=0"
		if tagged {
			cgo = "CGO_ENABLED=1"
		}
		cmd := exec.Command("go", "list", "-tags="+tag, "-json=ImportPath,Dir,Imports,TestImports,XTestImports",
			module+"...")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, cgo)
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Fatalf("%s: go list: %v\n%s", target, err, exit.Stderr)
			}
			t.Fatalf("%s: go list: %v", target, err)
		}
		var pkgs []goPackage
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p goPackage
			if err := dec.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			pkgs = append(pkgs, p)
		}
		for _, fault := range faults(pkgs) {
			t.Errorf("%s: %s", target, fault)
		}
		for _, missing := range absent(pkgs) {
			t.Errorf("%s: %s is in the table but not in the module", target, missing)
		}
	}
}

// level returns the floor of a package, -1 where it has none.
func level(name string) int {
	return slices.IndexFunc(levels, func(names []string) bool { return slices.Contains(names, name) })
}

// faults lists every import that breaks a rule.
func faults(pkgs []goPackage) []string {
	var list []string
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module)
		if level(name) < 0 {
			list = append(list, fmt.Sprintf("%s has no level: put it into the table of internal/house", name))
			continue
		}
		for _, to := range p.Imports {
			list = append(list, forbidden(name, to, sideways[name])...)
		}
		allowed := append(slices.Clone(sideways[name]), tests[name]...)
		allowed = append(allowed, name) // an external test imports its own package
		for _, to := range append(p.TestImports, p.XTestImports...) {
			if strings.HasPrefix(to, module) { // tests may use any module
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
		for prefix, users := range outside {
			if (to == prefix || strings.HasPrefix(to, prefix+"/")) && !slices.Contains(users, name) {
				return []string{fmt.Sprintf("%s imports %s, which is left to %q", name, to, users)}
			}
		}
		return nil
	}
	from, at := level(name), level(inner)
	switch {
	case at < 0 || at < from || slices.Contains(allowed, inner):
		return nil // a package without a level is reported once, as itself
	case at == from:
		return []string{fmt.Sprintf("%s imports %s, sideways on level %d", name, inner, from)}
	}
	return []string{fmt.Sprintf("%s (level %d) imports %s (level %d): upwards", name, from, inner, at)}
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

// maxModelMethods bounds what models.Model is: a network and its parameters. What runs and feeds it are types of their
// own.
const maxModelMethods = 20

// methodsOf counts the methods of a type in the sources of a package, tests left out.
func methodsOf(t *testing.T, dir, typeName string) (names []string) {
	t.Helper()
	for _, f := range sources(t, dir) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			recv := fn.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			if id, ok := recv.(*ast.Ident); ok && id.Name == typeName {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// sources parses the Go files of a package, tests left out.
func sources(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no Go files", dir)
	}
	return files
}

// A network, and a loss, is known by its traits: no package but its own names one. Package models/nn holds layers of
// networks.
func TestNetworksAreNamedAtHome(t *testing.T) {
	touch(t)
	for _, home := range []string{"models", "loss"} {
		idents, values := names(t, home)
		if len(idents) < 4 {
			t.Fatalf("%s names only %v", home, idents)
		}
		for _, at := range strangers(t, home, idents, values) {
			t.Errorf("%s: outside package %s ask for a trait of what the options name, not for its name", at, home)
		}
	}
	planted := `package x

import "vsetrain/models"

// gsmn in a comment, and "model.gsmn.mode" in a text, name no network.
var a, b = models.GSMN, "see model.gsmn.mode"
var c = "gsmn"
`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", planted, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(named(f, "models", []string{"GSMN"}, []string{"gsmn"})); n != 2 {
		t.Errorf("%d names found in a file with two", n)
	}
}

// names returns the constants of a package that name its networks or losses: the string constants of its options.go
// whose value is the lower-case name of the constant.
func names(t *testing.T, dir string) (idents, values []string) {
	for _, f := range sources(t, dir) {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, value := range v.Values {
					lit, ok := value.(*ast.BasicLit)
					if ok && lit.Kind == token.STRING && lit.Value == strconv.Quote(strings.ToLower(v.Names[i].Name)) {
						idents, values = append(idents, v.Names[i].Name), append(values, lit.Value[1:len(lit.Value)-1])
					}
				}
			}
		}
	}
	return idents, values
}

// named returns where a file names a constant of a package, or has its value as a string of its own.
func named(f *ast.File, pkg string, idents, values []string) (at []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok && id.Name == pkg && slices.Contains(idents, x.Sel.Name) {
				at = append(at, x.Pos())
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING && slices.Contains(values, s) {
				at = append(at, x.Pos())
			}
		}
		return true
	})
	return at
}

// strangers lists the places outside a package, tests left out, that name one of its constants.
func strangers(t *testing.T, home string, idents, values []string) (list []string) {
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		name := filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(e.Name(), ".") && e.Name() != ".." || name == "../../"+home):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		for _, pos := range named(f, home, idents, values) {
			list = append(list, strings.TrimPrefix(filepath.ToSlash(set.Position(pos).String()), "../../"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// maxCoreMethods bounds what a device must have before networks train on it. A kernel that can be written in the others
// belongs to a family of its own, with its form in internal/device/composed.
const maxCoreMethods = 30

// methodsOfInterface lists the methods of an interface of a package, those of the interfaces within it included.
func methodsOfInterface(files []*ast.File, name string) (methods []string) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			for _, m := range spec.Type.(*ast.InterfaceType).Methods.List {
				for _, id := range m.Names {
					methods = append(methods, id.Name)
				}
				if id, ok := m.Type.(*ast.Ident); ok {
					methods = append(methods, methodsOfInterface(files, id.Name)...)
				}
			}
			return false
		})
	}
	return methods
}

func TestCoreOfADeviceIsSmall(t *testing.T) {
	touch(t)
	files := sources(t, "internal/device")
	core, whole := methodsOfInterface(files, "Core"), methodsOfInterface(files, "Device")
	if len(core) > maxCoreMethods || !slices.Contains(core, "Gemm") || !slices.Contains(core, "Sync") {
		t.Errorf("device.Core has %d methods, expected at most %d: %q", len(core), maxCoreMethods, core)
	}
	for _, m := range []string{"Gemm", "GRU", "BlockMatch"} {
		if !slices.Contains(whole, m) {
			t.Errorf("device.Device is without %s: %q", m, whole)
		}
	}
}

func TestModelIsSmall(t *testing.T) {
	touch(t)
	if m := methodsOf(t, "models", "Model"); len(m) == 0 || len(m) > maxModelMethods {
		t.Errorf("models.Model has %d methods, expected 1 to %d: %q", len(m), maxModelMethods, m)
	}
	if m := methodsOf(t, "models", "Feeder"); !slices.Contains(m, "Images") || slices.Contains(m, "NewFeeder") {
		t.Errorf("the methods of models.Feeder are %q", m)
	}
}

// Every rule is broken once.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		pkg  goPackage
		want string // "" is no fault
	}{
		{goPackage{ImportPath: "vsetrain/train", Imports: []string{"os", "vsetrain/eval", "vsetrain/internal/gemm"}},
			""},
		{goPackage{ImportPath: "vsetrain/data", Imports: []string{"vsetrain/train"}},
			"data (level 3) imports train (level 5): upwards"},
		{goPackage{ImportPath: "vsetrain/loss", Imports: []string{"vsetrain/models"}},
			"loss imports models, sideways on level 3"},
		{goPackage{ImportPath: "vsetrain/models", Imports: []string{"vsetrain/models/nn"}}, ""},
		{goPackage{ImportPath: "vsetrain/models/nn", Imports: []string{"vsetrain/models"}},
			"models/nn imports models, sideways on level 3"},
		{goPackage{ImportPath: "vsetrain/internal/new"}, "internal/new has no level: put it into the table of " +
			"internal/house"},
		{goPackage{ImportPath: "vsetrain/models", Imports: []string{"gorgonia.org/gorgonia"}},
			`models imports gorgonia.org/gorgonia, which is left to ["internal/graph"]`},
		{goPackage{ImportPath: "vsetrain/internal/gemm", Imports: []string{"C"}}, "internal/gemm imports C, which is " +
			"left to []"},
		{goPackage{ImportPath: "vsetrain/loss", XTestImports: []string{"vsetrain/loss", "vsetrain/internal/golden",
			"gonum.org/v1/gonum/mat"}}, ""},
		{goPackage{ImportPath: "vsetrain/loss", XTestImports: []string{"vsetrain/models"}},
			"loss imports models, sideways on level 3"},
		{goPackage{ImportPath: "vsetrain/internal/graph", TestImports: []string{"vsetrain/train"}},
			"internal/graph (level 2) imports train (level 5): upwards"},
		{goPackage{ImportPath: "vsetrain/internal/device/cpu",
			Imports: []string{"vsetrain/internal/device/devicetest"}},
			"internal/device/cpu imports internal/device/devicetest, sideways on level 1"},
	} {
		want := []string{}
		if c.want != "" {
			want = []string{c.want}
		}
		if got := faults([]goPackage{c.pkg}); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := absent(nil); len(got) < 20 || got[0] != levels[0][0] {
		t.Errorf("without packages absent are %q", got)
	}
}

// An allowance for a package or from a package that is gone is a hole: no table names one.
func TestTables(t *testing.T) {
	for _, table := range []map[string][]string{sideways, tests} {
		for from, tos := range table {
			for _, to := range tos {
				if level(from) < 0 || level(from) != level(to) {
					t.Errorf("%s may import %s, but they do not share a level", from, to)
				}
			}
		}
	}
	for module, users := range outside {
		for _, name := range users {
			if level(name) < 0 {
				t.Errorf("%s may be used by %s, which is not in the table", module, name)
			}
		}
	}
}
