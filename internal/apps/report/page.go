package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"svg":     func(f *chart.Figure) template.HTML { return template.HTML(f.Draw().Inline()) }, // which escapes texts
	"palette": func() template.CSS { return template.CSS(chart.CSS()) },
	"src":     func(uri string) template.URL { return template.URL(uri) }, // made by dataURI
}).Parse(pageText))

// HTML writes the report as one self-contained page: figures are inline SVG, pictures are data URIs, and there are no
// scripts.
func (r *Report) HTML(w io.Writer, now time.Time) error {
	return page.Execute(w, struct {
		*Report
		Made string
	}{r, now.Format("2006-01-02 15:04")})
}

// Text writes the tables that fit in a terminal. bold marks headings; it may be nil.
func (r *Report) Text(w io.Writer, bold func(string) string) error {
	for _, s := range r.Sections {
		for _, i := range s.Items {
			if i.Table != nil && !i.Aside {
				if _, err := fmt.Fprintf(w, "%s\n", i.Table.Text(bold)); err != nil {
					return err
				}
			}
		}
		for _, p := range s.Paragraphs {
			if _, err := fmt.Fprintf(w, "%s\n\n", p); err != nil {
				return err
			}
		}
	}
	return nil
}

// Tables returns all tables.
func (r *Report) Tables() (out []*Table) {
	for _, s := range r.Sections {
		for _, i := range s.Items {
			if i.Table != nil {
				out = append(out, i.Table)
			}
		}
	}
	return out
}

// Markdown returns all tables in Markdown.
func (r *Report) Markdown() string { return r.join((*Table).Markdown) }

// LaTeX returns all tables in LaTeX.
func (r *Report) LaTeX() string { return "% \\usepackage{booktabs}\n" + r.join((*Table).LaTeX) }

func (r *Report) join(render func(*Table) string) string {
	var parts []string
	for _, t := range r.Tables() {
		parts = append(parts, render(t))
	}
	return strings.Join(parts, "\n")
}

// CSV returns all tables in CSV, each below its title.
func (r *Report) CSV() string {
	return r.join(func(t *Table) string { return "# " + t.Title + "\n" + t.CSV() })
}

// Write writes the report into a folder: index.html, tables.md, tables.tex, a .csv for each table and figure, .svg and
// .pdf for each figure, .png for each heat map, and their manifest. It returns the number of files without the
// manifest.
func (r *Report) Write(dir string, now time.Time) (files int, err error) {
	f, err := integrity.NewFolder(dir)
	if err != nil {
		return 0, err
	}
	defer f.Abort()
	write := func(name string, b []byte) {
		if err == nil {
			err = f.Write(name, atomicfile.Bytes(b))
		}
	}
	var html bytes.Buffer
	if err := r.HTML(&html, now); err != nil {
		return 0, err
	}
	write("index.html", html.Bytes())
	write("tables.md", []byte(r.Markdown()))
	write("tables.tex", []byte(r.LaTeX()))
	for _, s := range r.Sections {
		for _, i := range s.Items {
			switch {
			case i.Table != nil:
				write(i.Table.Name+".csv", []byte(i.Table.CSV()))
			case i.Figure != nil:
				write(i.Figure.Name+".csv", []byte(numbers(i.Figure).CSV()))
				write(i.Figure.Name+".svg", i.Figure.Draw().SVG())
				write(i.Figure.Name+".pdf", i.Figure.Draw().PDF())
			case i.Gallery != nil:
				for _, row := range i.Gallery.Rows {
					for _, c := range row.Cards {
						if c.PNG != nil {
							write(c.File+".png", c.PNG)
						}
					}
				}
			}
		}
	}
	if err != nil {
		return 0, err
	}
	files = len(f.Files())
	return files, f.Commit()
}

func dataURI(kind string, b []byte) string {
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(b)
}
