package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"vsetrain/internal/apps/chart"
)

// seedMarkers gives each seed of the groups a marker, and names the markers if there are several seeds.
func seedMarkers(groups []*Group) (of map[uint64]int, names []string) {
	var seeds []uint64
	for _, g := range groups {
		for _, r := range g.Runs {
			seeds = append(seeds, r.Config.Seed)
		}
	}
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	of = map[uint64]int{}
	for i, seed := range seeds {
		of[seed] = i
		if len(seeds) > 1 {
			names = append(names, fmt.Sprintf("seed %d", seed))
		}
	}
	return of, names
}

// Curves draws the learning curves of each network of a data set: M-Recall on the validation split over epochs. Each
// run has a line, with the colour and dashes of its loss and the marker of its seed. Vertical lines show where a base
// reached its best, where a loss passed it, and where the warm-up of a loss ends.
func (d *DataSet) Curves(comparisons []*Comparison) []*chart.Figure {
	var out []*chart.Figure
	for _, groups := range d.networks() {
		f := &chart.Figure{Name: "curves-" + slug(groups[0].Network), Title: groups[0].Network + " on " + d.Name,
			X: "epoch", Y: "M-Recall on dev"}
		color := map[*Group]int{}
		markers, names := seedMarkers(groups)
		f.Markers = names
		for i, g := range groups {
			color[g] = i
			for _, r := range g.Runs {
				s := chart.Series{Name: g.Loss, Color: i, Marker: markers[r.Config.Seed], Style: chart.Marked}
				for _, p := range r.Validations {
					s.X, s.Y = append(s.X, p.Epoch), append(s.Y, p.MRecall)
				}
				if len(s.X) > 0 {
					f.Series = append(f.Series, s)
				}
			}
		}
		if len(f.Series) == 0 {
			continue
		}
		mark := func(name string, at float64, color int) {
			if m := (chart.Mark{Name: name, X: at, Color: color}); !slices.Contains(f.Marks, m) {
				f.Marks = append(f.Marks, m)
			}
		}
		for _, c := range comparisons {
			if c.Base.Network != groups[0].Network {
				continue
			}
			for _, e := range c.Pairs {
				mark(c.Base.Loss+" at its best", e.BaseEpochs, color[c.Base])
				if e.Reached {
					mark(c.Target.Loss+" passes "+c.Base.Loss, e.Epochs, color[c.Target])
				}
			}
		}
		warm := map[int][]string{} // losses by the epochs of their warm-up
		for _, g := range groups {
			if o := &g.Runs[0].Config.Loss; o.WarmsUp() {
				warm[o.WarmupEpochs] = append(warm[o.WarmupEpochs], g.Loss)
			}
		}
		for _, epochs := range slices.Sorted(maps.Keys(warm)) {
			const grey = 6 // of the palette
			name := "warm-up ends"
			if losses := warm[epochs]; len(losses) < len(groups) {
				name = strings.Join(losses, ", ") + ": " + name
			}
			mark(name, float64(epochs), grey)
		}
		out = append(out, f)
	}
	return out
}

// slug returns a text as part of a file name: lower-case letters, digits and dashes.
func slug(s string) string {
	s = strings.ReplaceAll(strings.ToLower(s), "+", "p")
	return strings.Trim(strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-"), "-")
}

// numbers returns the numbers that a figure shows, as a table.
func numbers(f *chart.Figure) *Table {
	t := &Table{Name: f.Name, Title: f.Title, Heads: heads("series", "marker", ">"+f.X, ">"+f.Y)}
	for _, s := range f.Series {
		marker := ""
		if len(f.Markers) > 0 {
			marker = f.Markers[s.Marker]
		}
		for i := range s.X {
			t.row(false, s.Name, marker, numberCell(s.X[i], 3), numberCell(s.Y[i], 3))
		}
	}
	if len(f.Markers) == 0 {
		t.dropColumn(1)
	}
	return t
}
