package report

import (
	"fmt"
	"strings"

	"vsetrain/internal/apps/chart"
)

// maxDots is the largest number of validations whose curve has dots.
const maxDots = 60

// Curves draws the learning curves of each network of a data set: M-Recall on the validation split over epochs, a
// colour for each loss and a line for each run. Vertical lines stand where a base reached its best and where the loss
// passed it.
func (d *DataSet) Curves(comparisons []*Comparison) []*chart.Figure {
	var out []*chart.Figure
	for _, groups := range d.networks() {
		f := &chart.Figure{Name: "curves-" + slug(groups[0].Network), Title: groups[0].Network + " on " + d.Name,
			X: "epoch", Y: "M-Recall on dev"}
		color := map[*Group]int{}
		for i, g := range groups {
			color[g] = i
			for _, r := range g.Runs {
				s := chart.Series{Name: g.Loss, Color: i}
				for _, p := range r.History() {
					s.X, s.Y = append(s.X, p.Epoch), append(s.Y, p.MRecall)
				}
				if len(s.X) <= maxDots {
					s.Style = chart.Dotted
				}
				if len(s.X) > 0 {
					f.Series = append(f.Series, s)
				}
			}
		}
		if len(f.Series) == 0 {
			continue
		}
		seeds := 0
		for _, g := range groups {
			seeds = max(seeds, len(g.Runs))
		}
		marked := map[chart.Mark]bool{}
		mark := func(m chart.Mark) {
			if !marked[m] {
				marked[m] = true
				f.Marks = append(f.Marks, m)
			}
		}
		for _, c := range comparisons {
			if c.Base.Network != groups[0].Network {
				continue
			}
			for _, e := range c.Pairs {
				mark(chart.Mark{X: e.BaseEpochs, Color: color[c.Base]})
				if e.Reached {
					mark(chart.Mark{X: e.Epochs, Color: color[c.Target]})
				}
			}
		}
		if len(f.Marks) > 0 {
			f.Caption = "Vertical lines: where a base reached its best, and where another loss passed that value."
		}
		if seeds > 1 {
			f.Caption = strings.TrimSpace(f.Caption + fmt.Sprintf(" A line for each of up to %d seeds.", seeds))
		}
		out = append(out, f)
	}
	return out
}

// slug is a text as part of a file name: lower case, letters, digits and dashes.
func slug(s string) string {
	s = strings.ReplaceAll(strings.ToLower(s), "+", "p")
	return strings.Trim(strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-"), "-")
}

// numbers returns the numbers that a figure shows.
func numbers(f *chart.Figure) *Table {
	t := &Table{Name: f.Name, Title: f.Title, Heads: heads("series", ">"+f.X, ">"+f.Y)}
	for _, s := range f.Series {
		for i := range s.X {
			t.row(false, s.Name, numberCell(s.X[i], 3), numberCell(s.Y[i], 3))
		}
	}
	return t
}
