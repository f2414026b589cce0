package archtest

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// arrows are the uses of a package: arrows[a][b] says that file a names something that file b declares, a function, a
// method, a type, a constant or a variable. Fields are not counted: their type is.
type arrows map[string]map[string]bool

func (a arrows) count() (n int) {
	for _, to := range a {
		n += len(to)
	}
	return n
}

// climbing is how many arrows lead upwards in the order of the files in which the fewest do: what a reader from the
// top, who meets a use before its declaration, has to go back for. It is exact, file by file within circles: the best
// order of a set of files ends with one of them, below all others.
func (a arrows) climbing() (n int) {
	for _, circle := range a.circles() {
		if len(circle) > 24 {
			return a.count() // too many files for a table of their sets
		}
		index := map[string]int{}
		for i, f := range circle {
			index[f] = i
		}
		uses := make([]uint32, len(circle)) // of file i, a bit for each
		for i, f := range circle {
			for to := range a[f] {
				if j, ok := index[to]; ok {
					uses[i] |= 1 << j
				}
			}
		}
		fewest := make([]uint16, 1<<len(circle)) // of the files of a set, placed above all others
		for set := 1; set < len(fewest); set++ {
			fewest[set] = 1 << 15
			for rest := uint32(set); rest != 0; rest &= rest - 1 {
				last := bits.TrailingZeros32(rest)
				above := uint32(set) &^ (1 << last)
				fewest[set] = min(fewest[set], fewest[above]+uint16(bits.OnesCount32(uses[last]&above)))
			}
		}
		n += int(fewest[len(fewest)-1])
	}
	return n
}

// circles are the sets of files that reach each other, by Tarjan's algorithm.
func (a arrows) circles() (all [][]string) {
	number, low := map[string]int{}, map[string]int{}
	var stack []string
	var visit func(f string)
	visit = func(f string) {
		number[f] = len(number) + 1
		low[f] = number[f]
		stack = append(stack, f)
		for to := range a[f] {
			if number[to] == 0 {
				visit(to)
				low[f] = min(low[f], low[to])
			} else if slices.Contains(stack, to) {
				low[f] = min(low[f], number[to])
			}
		}
		if low[f] == number[f] {
			i := slices.Index(stack, f)
			if len(stack)-i > 1 {
				all = append(all, slices.Clone(stack[i:]))
			}
			stack = stack[:i]
		}
	}
	for f := range a {
		if number[f] == 0 {
			visit(f)
		}
	}
	return all
}

// between finds the arrows between the files of a package that were type-checked into info.
func between(set *token.FileSet, pkg *types.Package, info *types.Info) arrows {
	a := arrows{}
	file := func(p token.Pos) string { return filepath.Base(set.Position(p).Filename) }
	for id, o := range info.Uses {
		if v, ok := o.(*types.Var); ok && (v.IsField() || v.Parent() != pkg.Scope()) || o.Pkg() != pkg {
			continue
		}
		if _, ok := o.(*types.Func); !ok && o.Parent() != pkg.Scope() {
			continue
		}
		from, to := file(id.Pos()), file(o.Pos())
		if from == to {
			continue
		}
		if a[from] == nil {
			a[from] = map[string]bool{}
		}
		a[from][to] = true
	}
	return a
}

// climbing is how many arrows may climb in a package that has some. A number may fall and not rise.
var climbing = map[string]int{
	"models":                 8, // of 185
	"train":                  2, // of 33
	"loss":                   3, // of 46: options know two losses, and these their options
	"eval":                   3, // of 60
	"data":                   3, // of 74
	"internal/compute/graph": 5, // of 98
	"internal/run/config":    1, // of 49
}

// TestArrows holds how many arrows between the files of a package climb: in the packages of climbing what it says, in
// the rooms of runs none.
func TestArrows(t *testing.T) {
	touch(t)
	args := []string{"list", "-export", "-deps", "-f", `{{.ImportPath}}={{.Export}}={{.Dir}}={{join .GoFiles " "}}`,
		module + "internal/run/..."}
	for dir := range climbing {
		args = append(args, module+dir)
	}
	out := try.Get(exec.Command("go", args...).Output())(t)
	export, counted := map[string]string{}, 0
	set := token.NewFileSet()
	from := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	for line := range strings.Lines(string(out)) { // a package comes after those that it imports
		p := strings.Split(strings.TrimSpace(line), "=")
		export[p[0]] = p[1]
		dir := strings.TrimPrefix(p[0], module)
		most, ok := climbing[dir]
		if !ok && !strings.HasPrefix(dir, "internal/run/") {
			continue
		}
		var files []*ast.File
		for name := range strings.FieldsSeq(p[3]) {
			f := try.Get(parser.ParseFile(set, filepath.Join(p[2], name), nil, parser.SkipObjectResolution))(t)
			files = append(files, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		pkg := try.Get((&types.Config{Importer: from}).Check(p[0], set, files, info))(t)
		a := between(set, pkg, info)
		counted += a.count()
		switch n := a.climbing(); {
		case n > most:
			t.Errorf("%s: %d of %d arrows between files climb, expected at most %d: move what two files need from "+
				"each "+
				"other into a third; files that reach each other are %q", dir, n, a.count(), most, a.circles())
		case n < most:
			t.Errorf("%s: %d of %d arrows between files climb, the table allows %d: lower it", dir, n, a.count(), most)
		}
	}
	if counted < 300 {
		t.Errorf("%d arrows were found", counted)
	}
}

func TestClimbing(t *testing.T) {
	for _, c := range []struct {
		files string // what each file uses
		want  int
	}{
		{"a>b a>c b>c", 0},
		{"a>b b>a", 1},
		{"a>b b>c c>a d>a", 1},
		{"a>b b>a a>c c>a b>c c>b", 3},
		{"a>b b>c c>a c>d d>e e>c", 2},
	} {
		a := arrows{}
		for arrow := range strings.FieldsSeq(c.files) {
			from, to, _ := strings.Cut(arrow, ">")
			if a[from] == nil {
				a[from] = map[string]bool{}
			}
			a[from][to] = true
		}
		if n := a.climbing(); n != c.want {
			t.Errorf("%s: %d climb, want %d", c.files, n, c.want)
		}
	}
	src := []string{"package x\n\ntype T struct{ N int }\n\nfunc (T) M() {}\n", `package x

func f(t T) int {
	M := 1
	return M + t.N
}

func g() { var t interface{ M() } = nil; t.M() }
`, "package x\n\nfunc h() { f(T{}); T{}.M() }\n"}
	set, info := token.NewFileSet(), &types.Info{Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	for i, s := range src {
		f := try.Get(parser.ParseFile(set, string(rune('a'+i)), s, 0))(t)
		files = append(files, f)
	}
	pkg := try.Get(new(types.Config).Check("x", set, files, info))(t)
	if a := between(set, pkg, info); a.count() != 3 || !a["b"]["a"] || !a["c"]["a"] || !a["c"]["b"] {
		t.Errorf("arrows are %v", a)
	}
}
