package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed search.js
var searchScript []byte

// section is a part of a page that can be found: what stands below a heading, up to the next.
type section struct {
	Page   string `json:"page"` // title
	Title  string `json:"title"`
	Target string `json:"target"` // from the root of the site
	Text   string `json:"text"`
}

// findable returns the sections of a page with their text, that of code and tables included.
func (p *page) findable() (all []section) {
	headings, text := p.headings(), strings.Builder{}
	end := func() {
		if n := len(all); n > 0 {
			all[n-1].Text = strings.Join(strings.Fields(text.String()), " ")
		}
		text.Reset()
	}
	p.walk(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			end()
			h := headings[len(all)]
			all = append(all, section{Page: p.title(), Title: h.Text, Target: p.target() + "#" + h.ID})
		case *ast.Text:
			if !inHeading(n) {
				text.Write(n.Segment.Value(p.source))
				text.WriteByte(' ')
			}
		case *ast.FencedCodeBlock:
			text.Write(n.Lines().Value(p.source))
			text.WriteByte(' ')
		}
	})
	end()
	return all
}

func inHeading(n ast.Node) bool {
	for n = n.Parent(); n != nil; n = n.Parent() {
		if n.Kind() == ast.KindHeading {
			return true
		}
	}
	return false
}

// searchIndex is the script with what the search box looks through: a file of its own that is loaded when it is used,
// and a script, because a page that was opened as a file may load nothing else.
func searchIndex(pages map[string]*page) ([]byte, error) {
	all := []section{}
	for _, p := range pages {
		if p.onSite() && !strings.HasPrefix(p.name, "docs/log/") {
			all = append(all, p.findable()...)
		}
	}
	slices.SortFunc(all, func(a, b section) int { return strings.Compare(a.Target, b.Target) })
	var out bytes.Buffer
	out.WriteString("window.sections = ")
	err := json.NewEncoder(&out).Encode(all)
	return out.Bytes(), err
}
