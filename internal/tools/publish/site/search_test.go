package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// Every heading of a page of the site can be found, with the text below it, code and tables included.
func TestSearchIndex(t *testing.T) {
	p := parse("a.md", []byte("# A page\n\nIts *first* text.\n\n## A `part`\n\n| x | y |\n|---|---|\n| cell | z |\n"+
		"\n```sh\nvsetrain train\n```\n\n## Empty\n"))
	want := []section{{"A page", "A page", "a.html#a-page", "Its first text."},
		{"A page", "A part", "a.html#a-part", "x y cell z vsetrain train"},
		{"A page", "Empty", "a.html#empty", ""}}
	got := p.findable()
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	files := try.Get(build(root))(t)
	var all []section
	try.Do(t, json.Unmarshal(files["search-index.js"][len("window.sections = "):], &all))
	if len(all) < 200 {
		t.Errorf("%d sections", len(all))
	}
	for _, s := range all {
		file, anchor, _ := strings.Cut(s.Target, "#")
		if !strings.Contains(string(files[file]), `id="`+anchor+`"`) {
			t.Errorf("%s: no such heading", s.Target)
		}
	}
}

var result = regexp.MustCompile(`<li><a href="([^"]*)">([^<]*)</a><p>([^<]*)</p></li>`)

// The box finds sections in a real browser, from a page in a folder, opened as a file.
func TestSearchInBrowser(t *testing.T) {
	browser := os.Getenv("VSETRAIN_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && browser == "" {
			browser = path
		}
	}
	if browser == "" {
		t.Skip("no Chromium on this machine; scripts/install-test-tools.sh installs one")
	}
	dir := t.TempDir()
	try.Get(write(root, dir))(t)
	ask := func(query string) string {
		c := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
			"--user-data-dir="+filepath.Join(dir, "profile"), "--virtual-time-budget=10000", "--dump-dom",
			"file://"+filepath.Join(dir, "docs", "search.html")+"?q="+query)
		c.WaitDelay = 20 * time.Second
		out := try.Get(c.Output())(t)
		return string(out)
	}
	page := ask("micro-batch+memory")
	found := result.FindAllStringSubmatch(page, -1)
	if len(found) == 0 || found[0][1] != "../docs/training.html#batches-that-do-not-fit-memory" ||
		!strings.Contains(found[0][3], "micro") || !strings.Contains(page, " sections") {
		t.Errorf("found %q", found)
	}
	if page := ask("micro-batch+qwertzuiop"); result.MatchString(page) || !strings.Contains(page, "0 sections") ||
		!strings.Contains(page, `<form class="search" role="search">`) {
		t.Errorf("a word that is nowhere: %.3000s", page)
	}
}
