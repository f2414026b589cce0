package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// indexPage lists all pages.
const indexPage = "docs/README.md"

// page is a Markdown file of the repository.
type page struct {
	name   string // slash-separated
	source []byte
	tree   ast.Node
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Linkify, extension.Strikethrough,
	// an attribute: the content security policy refuses a style in a line
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// parse reads a page.
func parse(name string, source []byte) *page {
	context := parser.NewContext(parser.WithIDs(&anchors{seen: map[string]int{}}))
	return &page{name, source, markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))}
}

// readPages reads all Markdown files below root, by their slash-separated names.
func readPages(root string) (map[string]*page, error) {
	pages := map[string]*page{}
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && name != root && (strings.HasPrefix(e.Name(), ".") ||
			slices.Contains([]string{"bin", "runs", "sweeps", "shared"}, e.Name())) {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() || filepath.Ext(name) != ".md" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		pages[rel] = parse(rel, source)
		return nil
	})
	return pages, err
}

// onSite reports whether the site has a page: those of docs/ and those at the root.
func (p *page) onSite() bool {
	return strings.HasPrefix(p.name, "docs/") || !strings.Contains(p.name, "/")
}

// target is the name of a page on the site.
func (p *page) target() string {
	dir, base := path.Split(p.name)
	if base == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(base, ".md") + ".html"
}

// anchors gives headings the names that GitHub gives them.
type anchors struct{ seen map[string]int }

// Generate implements parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	n := a.seen[name]
	if a.seen[name]++; n > 0 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return []byte(name)
}

// Put implements parser.IDs.
func (a *anchors) Put(value []byte) { a.seen[string(value)]++ }

// heading is a heading of a page.
type heading struct {
	Level    int
	Text, ID string
}

func (p *page) headings() (all []heading) {
	p.walk(func(n ast.Node) {
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			name, _ := id.([]byte)
			all = append(all, heading{h.Level, plain(h, p.source), string(name)})
		}
	})
	return all
}

// sections are the headings of the second level.
func (p *page) sections() []heading {
	return slices.DeleteFunc(p.headings(), func(h heading) bool { return h.Level != 2 })
}

// title is the first heading.
func (p *page) title() string {
	if all := p.headings(); len(all) > 0 {
		return all[0].Text
	}
	return p.name
}

// link is a link or a picture of a page.
type link struct {
	to      string
	section string // the heading of the second level above it
	node    ast.Node
}

// outside reports whether a link leads to another site.
func (l link) outside() bool {
	return strings.Contains(l.to, "://") || strings.HasPrefix(l.to, "mailto:")
}

// path and anchor are the parts of the link.
func (l link) path() string   { return strings.SplitN(l.to, "#", 2)[0] }
func (l link) anchor() string { _, anchor, _ := strings.Cut(l.to, "#"); return anchor }

func (p *page) links() (all []link) {
	section := ""
	p.walk(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				section = plain(n, p.source)
			}
		case *ast.Link:
			all = append(all, link{string(n.Destination), section, n})
		case *ast.Image:
			all = append(all, link{string(n.Destination), section, n})
		}
	})
	return all
}

func (p *page) walk(see func(ast.Node)) {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			see(n)
		}
		return ast.WalkContinue, nil
	})
}

// plain is the text of a node without its marks.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// broken lists the links of a page that lead nowhere: to a file that exists does not know, or to a heading that the
// page has not.
func (p *page) broken(pages map[string]*page, exists func(name string) bool) (faults []string) {
	for _, l := range p.links() {
		if l.outside() {
			continue
		}
		at := p.name
		if l.path() != "" {
			at = path.Join(path.Dir(p.name), l.path())
		}
		to := pages[at]
		has := func(h heading) bool { return h.ID == l.anchor() }
		switch {
		case to == nil && !exists(at):
			faults = append(faults, fmt.Sprintf("%s links to %s, which is not there", p.name, l.to))
		case to != nil && l.anchor() != "" && !slices.ContainsFunc(to.headings(), has):
			faults = append(faults, fmt.Sprintf("%s links to %s; the headings there are %v", p.name, l.to,
				to.headings()))
		}
	}
	return faults
}

// relink makes the links of a page those of the site, and returns the files that they need. Links to sources, which the
// site has not, become plain text.
func (p *page) relink(root string, pages map[string]*page) (copies []string, err error) {
	for _, l := range p.links() {
		if l.outside() || l.path() == "" {
			continue
		}
		at := path.Join(path.Dir(p.name), l.path())
		if st, err := os.Stat(filepath.Join(root, filepath.FromSlash(at))); err == nil && st.IsDir() {
			at = path.Join(at, "README.md")
		}
		to := pages[at]
		switch {
		case to != nil && to.onSite():
			set(l.node, relative(p.target(), to.target())+strings.TrimPrefix(l.to, l.path()))
		case isCopied(at):
			copies = append(copies, at)
		default:
			parent := l.node.Parent()
			for c := l.node.FirstChild(); c != nil; c = l.node.FirstChild() {
				parent.InsertBefore(parent, l.node, c)
			}
			parent.RemoveChild(parent, l.node)
		}
	}
	return copies, nil
}

// isCopied reports whether the site has a copy of a file: pictures, tables, and texts at the root.
func isCopied(name string) bool {
	return strings.HasPrefix(name, "docs/") &&
		slices.Contains([]string{".svg", ".png", ".csv", ".json", ".ipynb"}, path.Ext(name)) ||
		slices.Contains([]string{"LICENSE", "NOTICE", "CITATION.cff"}, name)
}

func set(n ast.Node, to string) {
	switch n := n.(type) {
	case *ast.Link:
		n.Destination = []byte(to)
	case *ast.Image:
		n.Destination = []byte(to)
	}
}

// relative is the address of a file of the site seen from a page.
func relative(from, to string) string {
	rel, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(to))
	if err != nil {
		return to
	}
	return filepath.ToSlash(rel)
}

// reached puts what scrolls sideways within reach of the keyboard, and makes a head of a column without a name a cell.
// The text of a page cannot hold these marks: there < is written &lt;.
var reached = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`,
	"<th></th>", "<td></td>", `<th align="right"></th>`, "<td></td>")

// diagram is a drawing that stands alone, which scrolls on a narrow page.
var diagram = regexp.MustCompile(`<p>(<img src="[^"]+\.svg")`)

// html renders a page. HTML in its source is an error, comments aside: the site is made of Markdown alone.
func (p *page) html() ([]byte, error) {
	var raw []string
	var comments []ast.Node
	p.walk(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.HTMLBlock:
			if n.HTMLBlockType == ast.HTMLBlockType2 {
				comments = append(comments, n)
				return
			}
			raw = append(raw, "a block")
		case *ast.RawHTML:
			raw = append(raw, "in a line")
		}
	})
	for _, n := range comments {
		n.Parent().RemoveChild(n.Parent(), n)
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("HTML in Markdown (%s)", strings.Join(raw, ", "))
	}
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, p.source, p.tree)
	return diagram.ReplaceAll([]byte(reached.Replace(out.String())), []byte(`<p tabindex="0">$1`)), err
}
