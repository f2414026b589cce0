package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// maxModelMethods bounds what models.Model is: a network and its parameters. What runs and feeds it are types of their
// own.
const maxModelMethods = 20

// methodsOf counts the methods of a type in the sources of a package, tests left out.
func methodsOf(t *testing.T, dir, typeName string) (names []string) {
	t.Helper()
	for _, f := range sources(t, dir) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && receiver(fn.Recv.List[0].Type) == typeName {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// sources parses the Go files of a package, tests left out.
func sources(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths := try.Get(filepath.Glob(filepath.Join("../..", filepath.FromSlash(dir), "*.go")))(t)
	set := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f := try.Get(parser.ParseFile(set, path, nil, 0))(t)
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no Go files", dir)
	}
	return files
}

// A network, and a loss, is known by its traits: no package but its own names one. Package models/nn holds layers of
// networks.
func TestNetworksAreNamedInTheirPackage(t *testing.T) {
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
	f := try.Get(parser.ParseFile(token.NewFileSet(), "x.go", planted, 0))(t)
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

// named returns where a file names a constant of a package, or has its value as its own string.
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

// strangers lists where files outside a package, tests left out, name one of its constants.
func strangers(t *testing.T, home string, idents, values []string) (list []string) {
	try.Do(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		name := filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(e.Name(), ".") && e.Name() != ".." || name == "../../"+home ||
			e.Name() == "runtest"): // of tests too
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
	}))
	return list
}

// maxDeviceMethods bounds the interface that every device implements.
const maxDeviceMethods = 16

// methodsOfInterface lists the methods of an interface of a package, including the methods of the interfaces within it.
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

// lacking is the table of devices and kernels: what a device has no kernel for, and what is neither composed of others
// nor defined by them (lab/definitions).
var lacking = map[string][]string{
	"cpu": append([]string{"Decoder", "FiltrateSimilarities", "Guard", "SegmentProducts", "Gather", "GatherLists"},
		ofRanks...),
	"cuda": {"CrossScores"},
	"definitions": {"Gemm", "Combine", "Activate", "Fill", "Copy", "Multiply", "Map", "Reduce",
		"GatherWords", "Gather", "GatherLists"},
}

// ofRanks are the kernels of several ranks: device/ranks computes them around a device in memory of the host.
var ofRanks = []string{"AllReduce", "Broadcast", "AllGather", "ReduceScatter", "Wait"}

// resident are the kernels of devices with tables in memory of their own (device.Resident) and with recordings
// (device.Recorder).
var resident = []string{"Gather", "GatherLists", "Guard"}

// A device has few methods, and computes every kernel itself or by others: no kernel is missing that nobody calls yet.
func TestTableOfKernels(t *testing.T) {
	touch(t)
	files := sources(t, "internal/compute/device")
	if m := methodsOfInterface(files, "Device"); len(m) == 0 || len(m) > maxDeviceMethods || !slices.Contains(m, "Do") {
		t.Errorf("device.Device has %d methods, expected at most %d: %q", len(m), maxDeviceMethods, m)
	}
	all := kernels(files)
	if list := listed(files); len(all) < 50 || !slices.Equal(sorted(list), all) {
		t.Errorf("device.kinds lists %q, kernels are %q", list, all)
	}
	composed := computed(sources(t, "internal/compute/device/composed"))
	forms := map[string][]string{
		"cpu":         computed(sources(t, "internal/compute/device/cpu")),
		"cuda":        computed(sources(t, "internal/compute/device/cuda")),
		"definitions": append(computed(sources(t, "lab/definitions")), composed...),
	}
	for name, has := range forms {
		var lacks []string
		for _, k := range all {
			if !slices.Contains(has, k) {
				lacks = append(lacks, k)
				if name != "definitions" && !slices.Contains(composed, k) && !slices.Contains(resident, k) {
					t.Errorf("%s has no kernel %s, and none is composed", name, k)
				}
			}
		}
		if want := sorted(lacking[name]); !slices.Equal(lacks, want) {
			t.Errorf("%s lacks %q, the table says %q", name, lacks, want)
		}
	}
	for _, k := range lacking["definitions"] {
		if reference := computed(sources(t, "lab/reference")); !slices.Contains(append(reference, resident...), k) {
			t.Errorf("lab/reference has no kernel %s, and nothing defines it", k)
		}
	}
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// kernels are the types with a method Views(*Checker), sorted.
func kernels(files []*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "Views" {
				names = append(names, receiver(fn.Recv.List[0].Type))
			}
		}
	}
	return sorted(names)
}

// computed are the kernels that the methods of a package compute: each takes a kernel and has its name, or is a case
// *device.NAME of a method collective.
func computed(files []*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || len(fn.Type.Params.List) != 1 {
				continue
			}
			if s, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr); ok && s.Sel.Name == fn.Name.Name {
				names = append(names, fn.Name.Name)
			}
			if fn.Name.Name != "collective" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if x, ok := n.(*ast.StarExpr); ok {
					if s, ok := x.X.(*ast.SelectorExpr); ok {
						names = append(names, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	return names
}

// listed are the kernels of device.kinds.
func listed(files []*ast.File) (names []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			if v := g.Specs[0].(*ast.ValueSpec); v.Names[0].Name == "kinds" {
				for _, k := range v.Values[0].(*ast.CompositeLit).Elts {
					params := k.(*ast.CallExpr).Args[0].(*ast.FuncLit).Type.Params.List
					names = append(names, params[1].Type.(*ast.Ident).Name)
				}
			}
		}
	}
	return names
}

// maxMethods bounds the methods of a type, tests aside: what has more is several things.
const maxMethods = 25

// larger are the types above it, with as many methods as they have: a number here may fall and not rise. Methods that
// compute a kernel, and operations of a graph, are not counted.
var larger = map[string]int{
	"internal/compute/device/cuda.dev": 177, "internal/compute/device/cpu.dev": 50,
	"lab/definitions.Device":                      38,
	"lab/devicetest.harness":                      58,
	"internal/compute/device/cuda/driver.libcuda": 41,
	"internal/compute/device/cuda/driver.linked":  27,
	"lab/asmgen.assembler":                        60, "internal/compute/gemm.Engine": 27,
	"data.Split": 44, "data/synth.speaker": 30,
	"internal/apps/search.Index": 31,
}

func TestTypesAreSmall(t *testing.T) {
	touch(t)
	methods := map[string]int{}
	try.Do(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && !ofAKernel(fn) {
				dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
				methods[dir+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
		return nil
	}))
	for name, n := range methods {
		if most := max(maxMethods, larger[name]); n > most {
			t.Errorf("%s has %d methods, expected at most %d: divide it by what changes together", name, n, most)
		}
	}
	for name, n := range larger {
		if methods[name] < n {
			t.Errorf("%s has %d methods, the table allows %d: lower it", name, methods[name], n)
		}
	}
}

// ofAKernel reports whether a method computes the kernel of its name or its gradient, or adds an operation to a graph.
func ofAKernel(fn *ast.FuncDecl) bool {
	if r := fn.Type.Results; r != nil && len(r.List) == 1 && receiver(fn.Recv.List[0].Type) == "Graph" {
		if p, ok := r.List[0].Type.(*ast.StarExpr); ok {
			n, ok := p.X.(*ast.Ident)
			return ok && n.Name == "Node"
		}
	}
	if len(fn.Type.Params.List) != 1 {
		return false
	}
	s, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && strings.TrimSuffix(fn.Name.Name, "Grad") == s.Sel.Name
}

// receiver is the name of the type of a method.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	}
	return e.(*ast.Ident).Name
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

// maxNetworkLines bounds the file of a network that is composed of operations that others have too.
const maxNetworkLines = 200

// SCAN and CHAN show what a network takes that came from outside: one file, and one more for the checkpoints of its
// repository. What they share belongs to package models, what every network could use to models/nn or
// internal/compute/graph.
func TestNetworksAreOneFile(t *testing.T) {
	for _, name := range []string{"scan", "chan"} {
		paths := try.Get(filepath.Glob(filepath.Join("../../models", name+"*.go")))(t)
		var own []string
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, "_reference.go") {
				own = append(own, path)
			}
		}
		if len(own) != 1 || filepath.Base(own[0]) != name+".go" {
			t.Errorf("the network %s is in %q, expected one file", name, own)
			continue
		}
		b := try.Get(os.ReadFile(own[0]))(t)
		if n := strings.Count(string(b), "\n"); n > maxNetworkLines {
			t.Errorf("%s has %d lines, expected at most %d", own[0], n, maxNetworkLines)
		}
	}
}
