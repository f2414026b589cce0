package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/apps/chart"
)

// Size of a plot in units of its viewBox, and the room around the curves.
const (
	plotW, plotH                              = 600.0, 270.0
	plotLeft, plotRight, plotTop, plotBottom_ = 52.0, 12.0, 10.0, 34.0
	plotBottom                                = plotH - plotBottom_
	tableRows                                 = 40 // of the table that says the same as the curves
)

// curve is one line of a plot.
type curve struct {
	Name  string
	Class string // style: s0, s1, ... ; "faint" beside it for raw values behind a mean
	X, Y  []float64
}

// mark is a vertical line.
type mark struct {
	Name, Class string
	X           float64
}

// plot is what a curve plot shows. Its exported methods are for the template.
type plot struct {
	ID, Title, X, Y string // labels of the axes
	Log             bool   // logarithmic axis for values; others than positive ones are left out
	Zero            bool   // the axis begins at 0
	Curves          []curve
	Marks           []mark
	Note            string

	x0, x1, y0, y1 float64
}

// Legend returns the curves in the order of their names below the plot: of trials the best, which is drawn last, first.
func (p *plot) Legend() []curve {
	list := slices.Clone(p.Curves)
	if p.ID == "trials" {
		slices.Reverse(list)
	}
	return list
}

// newPlot finds the ranges of the axes. Curves without points stay out.
func newPlot(p plot) *plot {
	kept := p.Curves[:0:0]
	p.x0, p.x1, p.y0, p.y1 = 0, 0, math.Inf(1), math.Inf(-1)
	for _, c := range p.Curves {
		if c = p.usable(c); len(c.X) == 0 {
			continue
		}
		for i, y := range c.Y {
			p.x1 = max(p.x1, c.X[i])
			p.y0, p.y1 = min(p.y0, y), max(p.y1, y)
		}
		c.X, c.Y = thin(c.X, c.Y, 400)
		kept = append(kept, c)
	}
	p.Curves = kept
	if len(kept) == 0 {
		return &p
	}
	if p.x1 == 0 {
		p.x1 = 1
	}
	switch {
	case p.Log:
		p.y0, p.y1 = p.y0/1.1, p.y1*1.1
	case p.Zero:
		p.y0, p.y1 = min(0, p.y0), p.y1*1.05
	default:
		pad := 0.05 * (p.y1 - p.y0)
		p.y0, p.y1 = p.y0-pad, p.y1+pad
	}
	if y := math.Abs(p.y0); p.y1-p.y0 <= 1e-9*y { // one value: the axis begins at 0
		if y == 0 {
			y = 1
		}
		p.y1 += y
		if !p.Zero {
			p.y0 -= y
		}
	}
	return &p
}

// usable leaves out the points that the axes cannot show.
func (p *plot) usable(c curve) curve {
	out := curve{Name: c.Name, Class: c.Class}
	for i, y := range c.Y {
		x := c.X[i]
		if math.IsNaN(x+y) || math.IsInf(x+y, 0) || math.Abs(x) > 1e15 || math.Abs(y) > 1e30 || p.Log && y <= 0 {
			continue
		}
		out.X, out.Y = append(out.X, x), append(out.Y, y)
	}
	return out
}

// Empty reports that there is nothing to draw.
func (p *plot) Empty() bool { return len(p.Curves) == 0 }

func (p *plot) px(x float64) float64 {
	return plotLeft + (x-p.x0)/(p.x1-p.x0)*(plotW-plotLeft-plotRight)
}

func (p *plot) py(y float64) float64 {
	at := (y - p.y0) / (p.y1 - p.y0)
	if p.Log {
		at = math.Log(y/p.y0) / math.Log(p.y1/p.y0)
	}
	return plotBottom - at*(plotBottom-plotTop)
}

// Points returns a curve as the points of an SVG polyline.
func (p *plot) Points(c curve) string {
	var b strings.Builder
	for i := range c.X {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(coordinate(p.px(c.X[i])) + "," + coordinate(p.py(c.Y[i])))
	}
	if len(c.X) == 1 { // a line of one point shows its round cap
		b.WriteString(" " + coordinate(p.px(c.X[0])+0.01) + "," + coordinate(p.py(c.Y[0])))
	}
	return b.String()
}

func coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// tick is a label of an axis at a place of the viewBox.
type tick struct{ At, Text string }

// XTicks and YTicks return the labels of the axes.
func (p *plot) XTicks() []tick { return p.ticks(chart.Ticks(p.x0, p.x1, 7), p.px) }

// YTicks: see XTicks.
func (p *plot) YTicks() []tick {
	if p.Log {
		return p.ticks(chart.LogTicks(p.y0, p.y1), p.py)
	}
	return p.ticks(chart.Ticks(p.y0, p.y1, 5), p.py)
}

func (p *plot) ticks(values []float64, place func(float64) float64) []tick {
	var out []tick
	for _, v := range values {
		out = append(out, tick{coordinate(place(v)), chart.Number(v)})
	}
	return out
}

// MarkAt returns the place of a vertical line.
func (p *plot) MarkAt(m mark) string { return coordinate(p.px(m.X)) }

// Range returns x0, x1, y0, y1 for the script that shows values under the pointer.
func (p *plot) Range() string { return fmt.Sprintf("%g %g %g %g", p.x0, p.x1, p.y0, p.y1) }

// Frame returns the box of the curves: left, top, right, bottom.
func (p *plot) Frame() string {
	return fmt.Sprintf("%g %g %g %g", plotLeft, plotTop, plotW-plotRight, plotBottom)
}

// Description tells the curves in words, for those who do not see them.
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

// Table returns the values of the curves that are not faint, at most tableRows of them for each, in rows of the same
// place.
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
