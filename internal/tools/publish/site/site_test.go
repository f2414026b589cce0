package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

const root = "../../../.."

var unreached = regexp.MustCompile(`<pre>|<p><img src="[^"]*svg"|<table>|<th[^>]*></th>`)

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil
}

// Every link of every Markdown file of the repository leads to a file, and its anchor to a heading.
func TestLinks(t *testing.T) {
	pages := try.Get(readPages(root))(t)
	for _, p := range pages {
		for _, fault := range p.broken(pages, exists) {
			t.Error(fault)
		}
	}
	if len(pages) < 40 {
		t.Errorf("%d pages", len(pages))
	}
}

func TestBrokenLinks(t *testing.T) {
	pages := map[string]*page{}
	for name, source := range map[string]string{
		"text/a.md": "# One of two\n\n[b](b.md#what-it-needs-now) [self](#one-of-two) [up](../README.md) " +
			"[web](https://example.org/x.md) [again](b.md#twice-1)",
		"text/b.md": "## What `it` needs, now\n\n[gone](c.md) [no heading](a.md#two) ![picture](x.svg)\n\n" +
			"```\n[code](d.md)\n```\n\n## Twice\n\n## Twice\n",
		"README.md": "",
	} {
		pages[name] = parse(name, []byte(source))
	}
	none := func(string) bool { return false }
	if got := pages["text/a.md"].broken(pages, none); len(got) > 0 {
		t.Errorf("good links are reported: %q", got)
	}
	got := pages["text/b.md"].broken(pages, none)
	if len(got) != 3 || !strings.Contains(got[0], "c.md") || !strings.Contains(got[1], "a.md#two") ||
		!strings.Contains(got[2], "x.svg") {
		t.Errorf("found %q", got)
	}
}

var (
	address = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id      = regexp.MustCompile(`id="([^"]*)"`)
)

// The site has every page of docs/ in its navigation, every link of it leads to a file of the site and every anchor to
// a
// heading; it loads nothing from elsewhere; and made twice it is the same.
func TestSite(t *testing.T) {
	files := try.Get(build(root))(t)
	again, err := build(root)
	if err != nil || len(again) != len(files) {
		t.Fatal(err, len(again))
	}
	ids := map[string][]string{}
	for name, data := range files {
		if !bytes.Equal(data, again[name]) {
			t.Errorf("%s differs when it is made twice", name)
		}
		for _, m := range id.FindAllSubmatch(data, -1) {
			ids[name] = append(ids[name], string(m[1]))
		}
	}
	for name, data := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		if bytes.Count(data, []byte("<script")) != 1 || bytes.Contains(data, []byte("raw HTML omitted")) {
			t.Errorf("%s has another script than that of the search, or HTML of its own", name)
		}
		if bytes.Contains(data, []byte(" style=")) {
			t.Errorf("%s has a style in a line, which its content security policy refuses", name)
		}
		if m := unreached.Find(data); m != nil {
			t.Errorf("%s has %s: what scrolls is out of the keyboard's reach, or a head of a table has no name", name,
				m)
		}
		for _, m := range address.FindAllSubmatch(data, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") {
				if !strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "http://") ||
					strings.HasPrefix(string(m[0]), "src") {
					t.Errorf("%s loads %s", name, to)
				}
				continue
			}
			file, anchor, _ := strings.Cut(to, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			if _, ok := files[at]; !ok {
				t.Errorf("%s links to %s, which the site has not", name, to)
			} else if anchor != "" && path.Ext(at) == ".html" && !slices.Contains(ids[at], anchor) {
				t.Errorf("%s links to %s; there is no such heading", name, to)
			}
		}
		if strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/log/") &&
			!strings.Contains(string(files["index.html"]), `href="`+name+`"`) {
			t.Errorf("the navigation lacks %s", name)
		}
	}
	if len(files) < 50 || !bytes.Contains(files["docs/search.html"], []byte(`aria-current="page"`)) ||
		!bytes.Contains(files["index.html"], []byte(`src="docs/steps.svg"`)) {
		t.Errorf("%d files", len(files))
	}
}

func TestWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	n := try.Get(write(root, out))(t)
	if _, err := os.Stat(filepath.Join(out, "docs", "index.html")); err != nil || n < 40 {
		t.Errorf("%d pages, %v", n, err)
	}
	small := t.TempDir()
	try.Refuses(build(small))(t, "docs/README.md: missing")
	try.Do(t, os.MkdirAll(filepath.Join(small, "docs"), 0o777))
	for text, want := range map[string]string{"# Index\n": "", "# Index\n\n<script>x</script>\n": "HTML in Markdown"} {
		try.Do(t, os.WriteFile(filepath.Join(small, "docs", "README.md"), []byte(text), 0o666))
		if _, err := build(small); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
