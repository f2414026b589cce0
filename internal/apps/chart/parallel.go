package chart

import (
	"cmp"
	"math"
	"slices"
)

// Column is a vertical axis of a parallel-coordinates plot: its name, and labels at heights in [0, 1].
type Column struct {
	Name   string
	Labels []string
	At     []float64
}

// Track is a line of a parallel-coordinates plot: a height in [0, 1] for each column, NaN for none, and the value that
// determines its colour.
type Track struct {
	At    []float64
	Value float64
}

// Parallel draws parallel coordinates (Inselberg 1985): a column for each setting and for the result, and a line for
// each point. The best point is in front, in the strongest colour. If names are wider than a column, they alternate
// between two rows.
func Parallel(title string, columns []Column, tracks []Track) *Drawing {
	d := New(float64(max(14, 4*len(columns)))*centimetre, 11*centimetre, title)
	x := Axis{Lo: -0.3, Hi: float64(len(columns)) - 0.3, From: edge, To: d.width - edge}
	rows := 1
	for i := 1; i < len(columns); i++ {
		if Plain.Width(columns[i-1].Name)+Plain.Width(columns[i].Name)+12 > 2*(x.At(1)-x.At(0)) {
			rows = 2
		}
	}
	y := Axis{Hi: 1, From: d.height - 18 - 12*float64(rows), To: d.top + 6}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, t := range tracks {
		lo, hi = min(lo, t.Value), max(hi, t.Value)
	}
	tracks = slices.Clone(tracks)
	slices.SortStableFunc(tracks, func(a, b Track) int { return cmp.Compare(a.Value, b.Value) })
	for _, t := range tracks {
		share := 1.0
		if hi > lo {
			share = (t.Value - lo) / (hi - lo)
		}
		last := -1
		for i, v := range t.At {
			if math.IsNaN(v) {
				continue
			}
			if last >= 0 {
				var dashes []int
				if i > last+1 { // across columns without a height
					dashes = []int{2, 3}
				}
				d.Line(ramp(share), 0.8+1.4*share, Trace([]float64{float64(last), float64(i)},
					[]float64{t.At[last], v}, x, y), dashes...)
			}
			last = i
		}
	}
	for i, c := range columns {
		at := x.At(float64(i))
		d.Line(Soft, 1, []Point{{at, y.From}, {at, y.To}})
		half := Plain.Width(c.Name) / 2
		d.Text(Point{min(max(at, edge+half), d.width-edge-half), y.From + 22 + 12*float64(i%rows)}, Middle, c.Name,
			Plain, Black)
		for k, label := range c.Labels {
			d.boxed(Point{at, y.At(c.At[k])}, label)
		}
	}
	return d
}
