package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"vsetrain/internal/apps/chart"
)

// The place of the curves in the viewBox of a plot.
const (
	plotLeft, plotRight, plotTop, plotBottom = 52, 588, 10, 236
	tableRows                                = 40 // of the table that says the same as the curves
)

// curve is one line of a plot.
type curve struct {
	Name  string
	Class string // style: s0, s1, ... ; "faint" beside it for raw values behind a mean
	X, Y  []float64
}

type mark struct {
	Name, Class string
	X           float64
	At          string // its place in the plot; lines of one X stand side by side
}

// plot is what a curve plot shows. Its exported methods are for the template.
type plot struct {
	ID, Title, X, Y string // labels of the axes
	Log             bool   // logarithmic axis for values; others than positive ones are left out
	Zero            bool   // the axis begins at 0
	Curves          []curve
	Marks           []mark
	Guess           float64 // what guessing gives, drawn as a level; 0 is not drawn
	Note            string
	Runs            bool // the curves are of runs: one alone needs its name, too

	Across, Up chart.Axis
}

// Legend returns the curves in the order of the legend. The best trial is drawn last, but comes first in the legend.
func (p *plot) Legend() []curve {
	list := slices.Clone(p.Curves)
	if p.ID == "trials" {
		slices.Reverse(list)
	}
	return list
}

// newPlot finds the ranges of the axes. It leaves out curves without points; a curve with one point becomes a dot.
func newPlot(p plot) *plot {
	kept := p.Curves[:0:0]
	lo, hi := math.Inf(1), math.Inf(-1)
	first, end := math.Inf(1), math.Inf(-1)
	for _, c := range p.Curves {
		if c.X, c.Y = chart.Shown(c.X, c.Y, false, p.Log); len(c.X) == 0 {
			continue
		}
		first, end = min(first, slices.Min(c.X)), max(end, slices.Max(c.X))
		lo, hi = min(lo, slices.Min(c.Y)), max(hi, slices.Max(c.Y))
		if c.X, c.Y = thin(c.X, c.Y, 400); len(c.X) == 1 {
			c.Class += " dot"
		}
		kept = append(kept, c)
	}
	p.Curves = kept
	if len(kept) == 0 {
		return &p
	}
	if p.Guess > 0 {
		lo, hi = min(lo, p.Guess), max(hi, p.Guess)
	}
	p.Across = chart.Positions(first, end)
	p.Across.From, p.Across.To = plotLeft, plotRight
	p.Marks = slices.DeleteFunc(slices.Clone(p.Marks), func(m mark) bool {
		return m.X < p.Across.Lo || m.X > p.Across.Hi
	})
	places := map[float64]float64{}
	for i := range p.Marks {
		m := &p.Marks[i]
		at, side := p.Across.At(m.X), 1.0
		if at > plotRight-20 {
			side = -1
		}
		m.At = chart.Coordinate(at + side*places[m.X])
		places[m.X] += 3
	}
	p.Up = chart.Values(lo, hi, p.Zero, p.Log)
	p.Up.From, p.Up.To = plotBottom, plotTop
	return &p
}

// Empty reports that there is nothing to draw.
func (p *plot) Empty() bool { return len(p.Curves) == 0 }

// Points returns a curve as the points of an SVG polyline.
func (p *plot) Points(c curve) string {
	return chart.Coordinates(chart.Trace(c.X, c.Y, p.Across, p.Up))
}

// Description describes the curves in words, for screen readers.
func (p *plot) Description() string {
	var parts []string
	for _, c := range p.Curves {
		if strings.Contains(c.Class, "faint") {
			continue
		}
		lo, hi := 0, 0
		for i, y := range c.Y {
			if y < c.Y[lo] {
				lo = i
			}
			if y > c.Y[hi] {
				hi = i
			}
		}
		last := len(c.Y) - 1
		n := chart.Number
		parts = append(parts, fmt.Sprintf("%s: from %s to %s at %s %s; lowest %s at %s, highest %s at %s.", c.Name,
			n(c.Y[0]), n(c.Y[last]), p.X, n(c.X[last]), n(c.Y[lo]), n(c.X[lo]), n(c.Y[hi]), n(c.X[hi])))
	}
	return strings.Join(parts, " ")
}

// Table returns the values of the curves that are not faint, at most tableRows for each, in rows with the same x.
func (p *plot) Table() (rows [][]string) {
	shown := slices.DeleteFunc(slices.Clone(p.Curves), func(c curve) bool { return strings.Contains(c.Class, "faint") })
	at := map[float64][]string{}
	for k, c := range shown {
		step := max(1, (len(c.X)+tableRows-1)/tableRows)
		for i := 0; i < len(c.X); i += step {
			x := c.X[i]
			if at[x] == nil {
				at[x] = make([]string, 1+len(shown))
				at[x][0] = chart.Number(x)
			}
			at[x][k+1] = chart.Number(c.Y[i])
		}
	}
	for _, x := range slices.Sorted(maps.Keys(at)) {
		rows = append(rows, at[x])
	}
	return rows
}
