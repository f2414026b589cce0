package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"vsetrain/internal/files/csvfile"
)

// Markdown returns the table in GitHub's Markdown: a heading, the table, the notes.
func (t *Table) Markdown() string {
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`)
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n|", escape.Replace(t.Title))
	for _, h := range t.Heads {
		name := h.Name
		if h.Over != "" {
			name = h.Over + " " + name
		}
		b.WriteString(" " + escape.Replace(name) + " |")
	}
	b.WriteString("\n|")
	for _, h := range t.Heads {
		if h.Number {
			b.WriteString("---:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteString("\n")
	for _, r := range t.Rows {
		b.WriteString("|")
		for _, c := range r.Cells {
			text := escape.Replace(c.Text)
			if r.Bold && text != "" {
				text = "**" + text + "**"
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteString("\n")
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", escape.Replace(n))
	}
	return b.String()
}

// latexEscape escapes the special characters of LaTeX.
var latexEscape = strings.NewReplacer(`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`,
	"{", `\{`, "}", `\}`,
	"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "±", `$\pm$`, ">", `$>$`, "<", `$<$`, "≥", `$\geq$`,
	"α", `$\alpha$`)

// LaTeX returns the table as a table environment; it needs \usepackage{booktabs}.
func (t *Table) LaTeX() string {
	var b strings.Builder
	b.WriteString("\\begin{table}\n\\centering\n\\caption{" + latexEscape.Replace(strings.Join(append([]string{t.Title +
		"."}, t.Notes...), " ")) +
		"}\n\\label{tab:" + t.Name + "}\n\\begin{tabular}{")
	for _, h := range t.Heads {
		if h.Number {
			b.WriteString("r")
		} else {
			b.WriteString("l")
		}
	}
	b.WriteString("}\n\\toprule\n")
	if spans := t.Spans(); spans != nil {
		var cells, lines []string
		at := 1
		for _, s := range spans {
			if s.Text == "" {
				cells = append(cells, make([]string, s.Width)...)
			} else {
				cells = append(cells, fmt.Sprintf("\\multicolumn{%d}{c}{%s}", s.Width, latexEscape.Replace(s.Text)))
				lines = append(lines, fmt.Sprintf("\\cmidrule(lr){%d-%d}", at, at+s.Width-1))
			}
			at += s.Width
		}
		b.WriteString(strings.Join(cells, " & ") + " \\\\\n" + strings.Join(lines, " ") + "\n")
	}
	row := func(text func(i int) string) {
		cells := make([]string, len(t.Heads))
		for i := range cells {
			cells[i] = text(i)
		}
		b.WriteString(strings.Join(cells, " & ") + " \\\\\n")
	}
	row(func(i int) string { return latexEscape.Replace(t.Heads[i].Name) })
	b.WriteString("\\midrule\n")
	for i, r := range t.Rows {
		if r.Rule && i > 0 {
			b.WriteString("\\midrule\n")
		}
		row(func(i int) string {
			text := latexEscape.Replace(r.Cells[i].Text)
			if r.Cells[i].Number && r.Cells[i].Value < 0 {
				text = strings.Replace(text, "-", "$-$", 1)
			}
			if r.Bold && text != "" {
				text = "\\textbf{" + text + "}"
			}
			return text
		})
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n\\end{table}\n")
	return b.String()
}

// CSV returns the rows for programs: numbers with all digits, and standard deviations in columns of their own.
func (t *Table) CSV() string {
	spread := make([]bool, len(t.Heads))
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			spread[i] = spread[i] || c.Number && !math.IsNaN(c.Std)
		}
	}
	var b strings.Builder
	w := csvfile.NewWriter(&b)
	var head []string
	for i, h := range t.Heads {
		name := strings.TrimSpace(h.Over + " " + h.Name)
		head = append(head, name)
		if spread[i] {
			head = append(head, name+" std")
		}
	}
	must(w.Write(head))
	for _, r := range t.Rows {
		var line []string
		for i, c := range r.Cells {
			text, std := c.Text, ""
			if c.Number {
				text = strconv.FormatFloat(c.Value, 'g', -1, 64)
				if !math.IsNaN(c.Std) {
					std = strconv.FormatFloat(c.Std, 'g', -1, 64)
				}
			}
			line = append(line, text)
			if spread[i] {
				line = append(line, std)
			}
		}
		must(w.Write(line))
	}
	w.Flush()
	must(w.Error())
	return b.String()
}

// must panics at an error of a writer into memory, which cannot fail.
func must(err error) {
	if err != nil {
		panic("report: " + err.Error())
	}
}
