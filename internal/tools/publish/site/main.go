package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/atomicfile"
)

//go:embed site.css
var style []byte

//go:embed icon.svg
var icon []byte

//go:embed page.html
var layout string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site FOLDER")
		os.Exit(2)
	}
	n, err := write(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s: open %s\n", n, os.Args[1], filepath.Join(os.Args[1], "index.html"))
}

// write makes the site of the repository at root in a folder, and returns the number of its pages.
func write(root, out string) (int, error) {
	files, err := build(root)
	if err != nil {
		return 0, err
	}
	pages := 0
	for name, data := range files {
		if strings.HasSuffix(name, ".html") {
			pages++
		}
		to := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return 0, err
		}
		if err := atomicfile.WriteFile(to, atomicfile.Bytes(data)); err != nil {
			return 0, err
		}
	}
	return pages, nil
}

// build returns the files of the site by their slash-separated names.
func build(root string) (map[string][]byte, error) {
	pages, err := readPages(root)
	if err != nil {
		return nil, err
	}
	index := pages[indexPage]
	if index == nil {
		return nil, fmt.Errorf("%s: missing; it is the navigation", indexPage)
	}
	groups := navigation(index, pages)
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, err
	}
	search, err := searchIndex(pages)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"site.css": style, "icon.svg": icon, "search.js": searchScript,
		"search-index.js": search}
	for name, p := range pages {
		if !p.onSite() {
			continue
		}
		copies, err := p.relink(root, pages)
		if err != nil {
			return nil, err
		}
		for _, c := range copies {
			if files[c], err = os.ReadFile(filepath.Join(root, filepath.FromSlash(c))); err != nil {
				return nil, err
			}
		}
		body, err := p.html()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var out bytes.Buffer
		up := strings.Repeat("../", strings.Count(p.target(), "/"))
		err = t.Execute(&out, struct {
			Title, Up, Here string
			Groups          []group
			Sections        []heading
			Body            template.HTML
		}{p.title(), up, p.target(), groups, p.sections(), template.HTML(body)})
		if err != nil {
			return nil, err
		}
		files[p.target()] = out.Bytes()
	}
	return files, nil
}

// group is a part of the navigation.
type group struct {
	Title string
	Items []item
}

type item struct{ Title, Target string }

// navigation is what an index lists: a group for each heading of the second level, with the pages that it links to.
func navigation(index *page, pages map[string]*page) []group {
	groups := []group{{Items: []item{{"vsetrain", "index.html"}, {"All pages", index.target()}}}}
	for _, l := range index.links() {
		if l.section != "" && (len(groups) == 1 || groups[len(groups)-1].Title != l.section) {
			groups = append(groups, group{Title: l.section})
		}
		g := &groups[len(groups)-1]
		to := pages[path.Join(path.Dir(index.name), l.path())]
		if len(groups) == 1 || to == nil ||
			slices.ContainsFunc(g.Items, func(i item) bool { return i.Target == to.target() }) {
			continue
		}
		g.Items = append(g.Items, item{to.title(), to.target()})
	}
	return groups
}
