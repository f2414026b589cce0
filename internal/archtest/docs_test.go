package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

var docsPage = regexp.MustCompile(`\bdocs/(log/)?([a-z0-9-]+|README)\.(md|svg|csv)\b`)

// texts reads the files of the repository with one of the endings, by their slash-separated names.
func texts(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	root, files := filepath.Join("..", ".."), map[string]string{}
	try.Do(t, filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && name != root || e.Name() == "bin" || e.Name() == "runs" ||
			e.Name() == "sweeps") {
			return fs.SkipDir
		}
		if e.Type().IsRegular() && slices.ContainsFunc(endings,
			func(s string) bool { return strings.HasSuffix(name, s) }) {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(rel)] = string(b)
		}
		return nil
	}))
	return files
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(name)))
	return err == nil
}

// Every page is in an index, and no file names a page that is gone. make docs checks the links of pages.
func TestDocs(t *testing.T) {
	pages := texts(t, ".md")
	for name := range pages {
		index := path.Join(path.Dir(name), "README.md")
		if strings.HasPrefix(name, "docs/") && name != index && !strings.Contains(pages[index], "]("+path.Base(name)) {
			t.Errorf("%s is not in %s", name, index)
		}
	}
	for name, text := range texts(t, ".md", ".go", ".sh", ".py", ".cu", ".cuh", ".cc", ".h", ".yaml", "Makefile",
		"Dockerfile.cuda") {
		if name == "internal/archtest/docs_test.go" {
			continue
		}
		for _, page := range docsPage.FindAllString(text, -1) {
			if !exists(page) {
				t.Errorf("%s names %s, which is not there", name, page)
			}
		}
	}
}

// limitRow is a row of the table of docs/security.md: file, name and value of a constant.
var limitRow = regexp.MustCompile("(?m)^\\|.*\\| `([a-z/_]+\\.go)`: `(\\w+)` = `([^`]+)` \\|$")

// The limits of readers are those that docs/security.md names.
func TestLimitsOfReaders(t *testing.T) {
	page := try.Get(os.ReadFile(filepath.Join("..", "..", "docs", "security.md")))(t)
	rows := limitRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 20 {
		t.Errorf("%d rows", len(rows))
	}
	for _, row := range rows {
		b, err := os.ReadFile(filepath.Join("..", "..", row[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(`(?m)\b` + row[2] + `\s*=\s*` + regexp.QuoteMeta(row[3]) + `(\s|$)`).Match(b) {
			t.Errorf("%s: no %s = %s, which docs/security.md names", row[1], row[2], row[3])
		}
	}
}
