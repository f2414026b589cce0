package cuda

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/lab/try"
)

// Kernels are called by their names. Every kernel is called, and what is given for a parameter k is the name of one.
func TestNamesOfKernels(t *testing.T) {
	called := map[string]bool{}
	for _, m := range try.Get(kernels.Modules())(t) {
		for _, e := range m.Entries {
			called[strings.TrimSuffix(e.Name, tf32)] = false
		}
	}
	names, given := map[string]bool{}, map[string]string{} // functions with a parameter k; strings given to functions
	for _, path := range try.Get(filepath.Glob("*.go"))(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f := try.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				if p := x.Type.Params.List; len(p) > 0 && p[0].Names[0].Name == "k" {
					names[x.Name.Name] = true
				}
			case *ast.CallExpr:
				s, method := x.Fun.(*ast.SelectorExpr)
				if l, ok := literal(x.Args); method && ok {
					given[l] = s.Sel.Name
				}
			case *ast.BasicLit:
				if l, ok := literal([]ast.Expr{x}); ok {
					if _, ok := called[l]; ok {
						called[l] = true
					}
				}
			}
			return true
		})
	}
	for k, is := range called {
		if !is {
			t.Errorf("no code calls the kernel %s", k)
		}
	}
	for l, function := range given {
		if _, ok := called[l]; names[function] && !ok {
			t.Errorf("%s calls the kernel %s, which does not exist", function, l)
		}
	}
}

// literal is the string that the first argument is.
func literal(args []ast.Expr) (string, bool) {
	if len(args) == 0 {
		return "", false
	}
	l, ok := args[0].(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}
