package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Every package has one package comment, which begins "Package NAME" or, of a program, "Command NAME", in doc.go or the
// file named after the package. A package of tests alone has it in a test file.
func TestPackageComments(t *testing.T) {
	touch(t)
	root := filepath.Join("..", "..")
	try.Do(t, filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") && dir != root || e.Name() == "testdata" || e.Name() == "shared" {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			return err
		}
		name, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		for _, fault := range commentFaults(t, filepath.ToSlash(name), files) {
			t.Error(fault)
		}
		return nil
	}))
}

// commentFaults says what is wrong with the package comment of the files of a folder.
func commentFaults(t *testing.T, dir string, files []string) (faults []string) {
	t.Helper()
	isTest := func(file string) bool { return strings.HasSuffix(file, "_test.go") }
	onlyTests := !slices.ContainsFunc(files, func(f string) bool { return !isTest(f) })
	var in []string
	for _, file := range files {
		f := try.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments))(t)
		if f.Doc.Text() == "" || isTest(file) && !onlyTests {
			continue
		}
		base, word := filepath.Base(file), "Package "+f.Name.Name
		in = append(in, base)
		if f.Name.Name == "main" {
			word = "Command " + path.Base(dir)
		}
		if !strings.HasPrefix(f.Doc.Text(), word+" ") {
			faults = append(faults, dir+"/"+base+": the package comment does not begin \""+word+" \"")
		}
		if !onlyTests && base != "doc.go" && base != path.Base(dir)+".go" {
			faults = append(faults, dir+"/"+base+": the package comment belongs into doc.go or "+path.Base(dir)+".go")
		}
	}
	if len(in) != 1 {
		faults = append(faults, dir+": expected one package comment, found "+strings.Join(append(in, "no more"), ", "))
	}
	return faults
}
