package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docsPage   = regexp.MustCompile(`\bdocs/(log/)?([a-z0-9-]+|README)\.(md|svg|csv)\b`)
	codeBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// texts reads the files of the repository with one of the endings, by their slash-separated names.
func texts(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	root, files := filepath.Join("..", ".."), map[string]string{}
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
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
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// anchors are the names that GitHub gives the headings of a page.
func anchors(page string) (names []string) {
	for _, line := range strings.Split(codeBlock.ReplaceAllString(page, ""), "\n") {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(strings.TrimLeft(line, "#")))
		names = append(names, name)
	}
	return names
}

// brokenLinks lists the links of a page that lead nowhere. pages holds all pages, and exists tells of other files.
func brokenLinks(name string, pages map[string]string, exists func(name string) bool) (broken []string) {
	for _, m := range linkTarget.FindAllStringSubmatch(codeBlock.ReplaceAllString(pages[name], ""), -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		at := name
		if target != "" {
			at = path.Join(path.Dir(name), target)
		}
		page, isPage := pages[at]
		switch {
		case !isPage && !exists(at):
			broken = append(broken, fmt.Sprintf("%s links to %s, which is not there", name, m[1]))
		case anchor != "" && isPage && !slices.Contains(anchors(page), anchor):
			broken = append(broken, fmt.Sprintf("%s links to %s; the headings there are %q", name, m[1], anchors(page)))
		}
	}
	return broken
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(name)))
	return err == nil
}

// Every link leads somewhere, every page is in an index, and no file names a page that is gone.
func TestDocs(t *testing.T) {
	pages := texts(t, ".md")
	for name := range pages {
		for _, fault := range brokenLinks(name, pages, exists) {
			t.Error(fault)
		}
		index := path.Join(path.Dir(name), "README.md")
		if strings.HasPrefix(name, "docs/") && name != index && !strings.Contains(pages[index], "]("+path.Base(name)) {
			t.Errorf("%s is not in %s", name, index)
		}
	}
	for name, text := range texts(t, ".md", ".go", ".sh", ".py", ".cu", ".cuh", ".cc", ".h", ".yaml", "Makefile",
		"Dockerfile.cuda") {
		if name == "internal/house/docs_test.go" {
			continue
		}
		for _, page := range docsPage.FindAllString(text, -1) {
			if !exists(page) {
				t.Errorf("%s names %s, which is not there", name, page)
			}
		}
	}
}

func TestDocsFindBrokenLinks(t *testing.T) {
	pages := map[string]string{
		"docs/a.md": "# One of two\n[b](b.md#what-it-needs-now) [self](#one-of-two) [up](../README.md) " +
			"[web](https://example.org/x.md)",
		"docs/b.md": "## What it needs, now\n[gone](c.md) [no heading](a.md#two)\n```\n[code](d.md)\n```\n",
		"README.md": "",
	}
	none := func(string) bool { return false }
	if got := brokenLinks("docs/a.md", pages, none); len(got) > 0 {
		t.Errorf("good links are reported: %q", got)
	}
	if got := brokenLinks("docs/b.md", pages, none); len(got) != 2 || !strings.Contains(got[0], "c.md") ||
		!strings.Contains(got[1], "a.md#two") {
		t.Errorf("found %q", got)
	}
}
