// Command mutants plants mistakes in the sources and reports which of them the tests miss: a sample of mutation
// testing, drawn by seed (make mutants).
//
//	go run ./lab/mutants -n 200 -seed 1 -log mutants.log
//
// A mistake exchanges a comparison, an operator, a number or a condition, or leaves out a call. All mistakes are
// compiled once, each behind a switch (package switches), into the tests of their packages and of the packages that
// import those. Each test runs once to record which switches it reaches. Then each mistake is switched on for the tests
// that reach it until one fails: the tests of its own package first, and the quick ones of a package first. The sources
// are never changed: the go command reads others in their place. Packages that no program contains are left out, as are
// places that cannot contain a switch, such as the length of an array.
//
// known.txt lists mutants that change nothing a test should see, each with its reason. With a log, an interrupted
// sample continues: mutants that the log reports as found are not tried again.
package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed known.txt
var known string

// draw orders mutants at random. The position of each is independent of the others, so a sample stays nearly the same
// when sources change.
func draw(all []*mutant, seed uint64) {
	place := func(m *mutant) string {
		return string(fmt.Appendf(nil, "%x", sha256.Sum256(fmt.Append(nil, seed, m.id()))))
	}
	slices.SortFunc(all, func(a, b *mutant) int { return strings.Compare(place(a), place(b)) })
}

// goPackage is the output of `go list -json` for a package.
type goPackage struct {
	ImportPath, Dir, Name, Export      string
	DepOnly                            bool // outside of the module
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// list returns all packages, each after those that it imports.
func list() (pkgs []*goPackage, err error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Name,Export,DepOnly,GoFiles,"+
		"TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	for dec := json.NewDecoder(bytes.NewReader(out)); err == nil && dec.More(); {
		pkgs = append(pkgs, &goPackage{})
		err = dec.Decode(pkgs[len(pkgs)-1])
	}
	return pkgs, err
}

// contained returns the packages of the module that programs are built from.
func contained(pkgs []*goPackage) (all []*goPackage) {
	in := map[string]bool{}
	for _, p := range slices.Backward(pkgs) {
		if !p.DepOnly && (in[p.ImportPath] || p.Name == "main") {
			all = append(all, p)
			for _, path := range p.Imports {
				in[path] = true
			}
		}
	}
	return all
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutants: ")
	n := flag.Int("n", 200, "mutants")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	limit := flag.Duration("limit", time.Minute,
		"processor time of a package for a mutant; its longest tests are left out")
	skip := flag.String("skip", "^$", "tests that are left out, a pattern")
	path := flag.String("log", os.DevNull, "file of verdicts, which is continued where it is there")
	least := flag.Float64("least", 95, "percentage that must be seen")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		log.Fatal(err)
	}
	r := &runner{dir: dir, skip: regexp.MustCompile(*skip), limit: *limit, patience: 30 * time.Second}
	percent, err := r.slice(*n, *seed, *path)
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	if percent < *least {
		log.Fatalf("less than %v %%: write the tests that are missing, or a reason into known.txt", *least)
	}
}

// slice tries n mutants and returns the percentage that tests find.
func (r *runner) slice(n int, seed uint64, path string) (float64, error) {
	root, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	pkgs, err := list()
	if err != nil {
		return 0, err
	}
	all, err := mutants(root, contained(pkgs))
	if err != nil {
		return 0, err
	}
	draw(all, seed)
	verdicts, record, err := openLog(path)
	if err != nil {
		return 0, err
	}
	defer record.Close()
	compiled := map[string]string{}
	for _, p := range pkgs {
		compiled[p.ImportPath] = p.Export
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path])
	})
	var drawn []*mutant
	pending := map[int]*mutant{}
	for ; len(all) > 0 && len(drawn) < n; all = all[1:] {
		m := all[0]
		if strings.Contains(known, m.id()+" -- ") {
			continue
		}
		if ok, err := m.compiles(imports); err != nil {
			return 0, err
		} else if ok {
			drawn = append(drawn, m)
			if verdict := verdicts[m.id()]; verdict == "" || verdict == survived {
				pending[len(drawn)] = m
			}
		}
	}
	fmt.Printf("%d mutants, seed %d; %d are to be tried\n", len(drawn), seed, len(pending))
	if err := r.plant(root, pending); err != nil {
		return 0, err
	}
	told := func(i int, verdict string) error {
		m := pending[i]
		delete(pending, i)
		verdicts[m.id()] = verdict
		fmt.Printf("%3d line %d of %s: %s\n", i, m.line, m.id(), verdict)
		_, err := fmt.Fprintf(record, "%s\t%s\n", m.id(), verdict)
		return err
	}
	for _, importing := range []bool{false, true} {
		for _, p := range pkgs {
			for _, i := range slices.Sorted(maps.Keys(pending)) {
				if !pending[i].pkg.testedBy(p, importing) {
					continue
				}
				verdict, err := r.try(i, p)
				if err == nil && verdict != survived {
					err = told(i, verdict)
				}
				if err != nil {
					return 0, err
				}
			}
		}
	}
	for _, i := range slices.Sorted(maps.Keys(pending)) {
		if err := told(i, survived); err != nil {
			return 0, err
		}
	}
	seen, late := 0, 0
	for _, m := range drawn {
		if verdicts[m.id()] != survived {
			seen++
		}
		if strings.HasPrefix(verdicts[m.id()], timeOut) {
			late++
		}
	}
	percent := 100 * float64(seen) / float64(max(1, len(drawn)))
	fmt.Printf("%d of %d mutants are seen, %.1f %%, %d of them by the time\n", seen, len(drawn), percent, late)
	return percent, nil
}

// testedBy reports whether other is p, or imports it in its sources or tests.
func (p *goPackage) testedBy(other *goPackage, importing bool) bool {
	if !importing {
		return p == other
	}
	return !other.DepOnly && slices.Contains(slices.Concat(other.Imports, other.TestImports, other.XTestImports),
		p.ImportPath)
}

// openLog reads the verdicts of a log, by mutant, and opens it for appending.
func openLog(path string) (map[string]string, *os.File, error) {
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
