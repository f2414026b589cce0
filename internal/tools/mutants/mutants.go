// Command mutants plants mistakes in the sources, one at a time, and says which of them the tests do not see: a slice
// of mutation testing, drawn by seed (make mutants).
//
//	go run ./internal/tools/mutants -n 200 -seed 1 -log mutants.log
//
// A mistake is a comparison, an operator, a number or a condition that is exchanged, or a call that is left out. The
// tests of its package run first, those of the packages that import it where these pass. Packages that serve tests only
// are left out. Sources are never changed: the go command reads the mutant from another folder. known.txt lists mutants
// that change nothing a test should see, each with its reason. With a log a slice that was stopped is continued: what
// the log says of a mutant is not tried again.
package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed known.txt
var known string

// mutant is a file in which the bytes from one position to another are replaced.
type mutant struct {
	file, pkg, function, change string
	line, from, to              int
	text                        string
	twin                        int // how many mutants before it are alike but for their place
}

// id is what known.txt and a log know a mutant by: lines move.
func (m *mutant) id() string {
	if m.twin > 0 {
		return fmt.Sprintf("%s %s (%d): %s", m.file, m.function, m.twin, m.change)
	}
	return m.file + " " + m.function + ": " + m.change
}

// draw orders mutants at random. The place of one does not depend on the others, so that a slice stays nearly the same
// where sources change.
func draw(all []*mutant, seed uint64) {
	place := func(m *mutant) string {
		return string(fmt.Appendf(nil, "%x", sha256.Sum256(fmt.Append(nil, seed, m.id()))))
	}
	slices.SortFunc(all, func(a, b *mutant) int { return strings.Compare(place(a), place(b)) })
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir, Name                       string
	GoFiles, Imports, TestGoFiles, XTestGoFiles []string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutants: ")
	n := flag.Int("n", 200, "mutants")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	limit := flag.Duration("limit", 10*time.Minute, "the tests of a package that take longer have seen the mistake")
	skip := flag.String("skip", "", "tests that are left out, a pattern")
	path := flag.String("log", "", "file of verdicts, which is continued where it is there")
	least := flag.Float64("least", 95, "percentage that must be seen")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	pkgs, err := list("./...")
	if err != nil {
		log.Fatal(err)
	}
	chosen, err := list(patterns...)
	if err != nil {
		log.Fatal(err)
	}
	all, err := mutants(chosen, contained(pkgs))
	if err != nil {
		log.Fatal(err)
	}
	draw(all, *seed)
	verdicts, record, err := openLog(*path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d places; %d mutants, seed %d\n", len(all), *n, *seed)
	seen, tried := 0, 0
	for _, m := range all {
		if tried == *n {
			break
		}
		if strings.Contains(known, m.id()+" -- ") {
			continue
		}
		verdict, start := verdicts[m.id()], time.Now()
		if verdict == "" {
			if verdict, err = m.try(pkgs, *limit, *skip); err != nil {
				log.Fatal(err)
			}
			if _, err := fmt.Fprintf(record, "%s\t%s\n", m.id(), verdict); err != nil {
				log.Fatal(err)
			}
		}
		if verdict == noGo {
			continue
		}
		tried++
		if verdict != survived {
			seen++
		}
		fmt.Printf("%3d %5.1f s  %s:%d %s: %s: %s\n", tried, time.Since(start).Seconds(), m.file, m.line, m.function,
			m.change, verdict)
	}
	percent := 100 * float64(seen) / float64(max(1, tried))
	fmt.Printf("%d of %d mutants are seen, %.1f %%\n", seen, tried, percent)
	if percent < *least {
		log.Fatalf("less than %v %%: write the tests that are missing, or a reason into known.txt", *least)
	}
}

// openLog reads the verdicts of a log, by mutant, and opens it for those that follow.
func openLog(path string) (map[string]string, io.Writer, error) {
	if path == "" {
		return nil, io.Discard, nil
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	verdicts := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if id, verdict, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			verdicts[id] = verdict
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	return verdicts, f, err
}

func list(patterns ...string) ([]goPackage, error) {
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,GoFiles,Imports,TestGoFiles," +
		"XTestGoFiles"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %v: %w", patterns, err)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, nil
}

// swaps are the operators that stand in for each other.
var swaps = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
	token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL, token.ADD: token.SUB, token.SUB: token.ADD,
	token.MUL: token.QUO, token.QUO: token.MUL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN}

// contained are the packages that programs among them are built from.
func contained(pkgs []goPackage) map[string]bool {
	all, in := map[string]goPackage{}, map[string]bool{}
	for _, p := range pkgs {
		all[p.ImportPath] = p
	}
	var add func(path string)
	add = func(path string) {
		if p, ok := all[path]; ok && !in[path] {
			in[path] = true
			for _, i := range p.Imports {
				add(i)
			}
		}
	}
	for _, p := range pkgs {
		if p.Name == "main" {
			add(p.ImportPath)
		}
	}
	return in
}

// mutants are those of all functions that a person wrote, of the packages that some program contains.
func mutants(pkgs []goPackage, inProgram map[string]bool) ([]*mutant, error) {
	var all []*mutant
	twins := map[string]int{}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for _, p := range pkgs {
		if !inProgram[p.ImportPath] {
			continue
		}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			source, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, source, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			if ast.IsGenerated(f) {
				continue
			}
			inner, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			for _, d := range f.Decls {
				function, ok := d.(*ast.FuncDecl)
				if !ok || function.Body == nil {
					continue
				}
				add := func(at, end token.Pos, text string) {
					from, to := files.Position(at), files.Position(end)
					was := string(source[from.Offset:to.Offset])
					change := strings.Join(strings.Fields(was+" -> "+text), " ")
					m := &mutant{file: filepath.ToSlash(inner), pkg: p.ImportPath, function: function.Name.Name,
						change: change, line: from.Line, from: from.Offset, to: to.Offset, text: text}
					id := m.id()
					m.twin = twins[id]
					twins[id]++
					all = append(all, m)
				}
				ast.Inspect(function.Body, func(n ast.Node) bool {
					places(n, source, files, add)
					return true
				})
			}
		}
	}
	return all, nil
}

// places adds the mutants of one node.
func places(n ast.Node, source []byte, files *token.FileSet, add func(at, end token.Pos, text string)) {
	swap := func(at token.Pos, op token.Token) {
		if other, ok := swaps[op]; ok {
			add(at, at+token.Pos(len(op.String())), other.String())
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		swap(n.OpPos, n.Op)
	case *ast.AssignStmt:
		swap(n.TokPos, n.Tok)
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); err == nil {
			add(n.Pos(), n.End(), strconv.Itoa(v+1))
		}
	case *ast.IfStmt:
		cond := source[files.Position(n.Cond.Pos()).Offset:files.Position(n.Cond.End()).Offset]
		add(n.Cond.Pos(), n.Cond.End(), "!("+string(cond)+")")
	case *ast.ExprStmt:
		add(n.Pos(), n.End(), "")
	}
}

// The verdicts on a mutant that no package sees.
const (
	survived = "survived"
	noGo     = "does not compile"
)

// try runs the tests on a mutant: those of its package, then those of the packages that import it. The verdict names
// the package that sees it.
func (m *mutant) try(pkgs []goPackage, limit time.Duration, skip string) (verdict string, err error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text := slices.Concat(source[:m.from], []byte(m.text), source[m.to:])
	table, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, table, 0o600)); err != nil {
		return "", err
	}
	if exec.Command("go", "build", "-overlay", overlay, "-o", os.DevNull, m.pkg).Run() != nil {
		return noGo, nil
	}
	tested := []string{m.pkg}
	for _, p := range pkgs {
		if slices.Contains(p.Imports, m.pkg) && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			tested = append(tested, p.ImportPath)
		}
	}
	for _, p := range tested {
		out, err := exec.Command("go", "test", "-count=1", "-failfast", "-vet=off", "-timeout", limit.String(), "-skip",
			skip, "-overlay", overlay, p).CombinedOutput()
		if err != nil && bytes.Contains(out, []byte("panic: test timed out")) {
			return "time runs out in " + p, nil
		}
		if err != nil {
			return "seen by " + p, nil
		}
	}
	return survived, nil
}
