package chart

import (
	"math"
	"slices"
)

// Figure is a plot of lines over one axis.
type Figure struct {
	Name    string // of its files
	Title   string
	Caption string // below it
	X, Y    string // what the axes are
	Series  []Series
	Marks   []Mark
	ZeroY   bool // the axis begins at 0
	LogX    bool // the horizontal axis is logarithmic
	Legend  Corner
}

// Series is a line, or points with a line through them.
type Series struct {
	Name   string // in the legend; the same name and colour may stand for several lines
	Color  int    // of the palette
	X, Y   []float64
	Style  Style
	Hidden bool // not in the legend
}

// Style is how a series is drawn.
type Style int

// Styles.
const (
	Solid  Style = iota
	Dotted       // a line with a dot at each point
	Points
)

// Mark is a vertical line.
type Mark struct {
	X     float64
	Color int
}

// Corner is the place of a legend.
type Corner int

// Corners.
const (
	Beside Corner = iota // on the right of the lines
	TopRight
	TopLeft
)

// axes returns the axes of the figure, and its series without the points that they cannot show.
func (f *Figure) axes() (x, y Axis, shown []Series) {
	x = Axis{Lo: math.Inf(1), Hi: math.Inf(-1), Log: f.LogX}
	if !f.LogX {
		x.Lo, x.Hi = 0, 0
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range f.Series {
		if s.X, s.Y = Shown(s.X, s.Y, f.LogX, false); len(s.X) > 0 {
			shown = append(shown, s)
			x.Lo, x.Hi = min(x.Lo, slices.Min(s.X)), max(x.Hi, slices.Max(s.X))
			lo, hi = min(lo, slices.Min(s.Y)), max(hi, slices.Max(s.Y))
		}
	}
	if len(shown) == 0 {
		x.Lo, lo, hi = 1, 0, 0
	}
	if x.Hi <= x.Lo {
		x.Hi = x.Lo + 1
	}
	return x, Values(lo, hi, f.ZeroY, false), shown
}

// Draw draws the figure.
func (f *Figure) Draw() *Drawing {
	d := New(17*centimetre, 9.5*centimetre, f.Title)
	x, y, shown := f.axes()
	var entries []Series
	width, named := 0.0, map[string]bool{}
	for _, s := range shown {
		if !s.Hidden && !named[s.Name] {
			named[s.Name] = true
			entries, width = append(entries, s), max(width, Plain.Width(s.Name)+28)
		}
	}
	const row = 13
	height := row * float64(len(entries))
	y.From, y.To = d.height-edge-30, d.top
	if f.Legend != Beside { // room for a legend above the lines
		y.Hi += (y.Hi - y.Lo) * height / (y.From - y.To)
	}
	x.From, x.To = edge+18, d.width-2*edge
	at := Point{x.To - width, y.To}
	if f.Legend == Beside {
		x.To -= min(width+8, d.width/2)
	}
	for _, v := range y.Ticks(6) {
		x.From = max(x.From, edge+18+Plain.Width(Number(v)))
	}
	d.horizontal(x, y.From, f.X)
	for _, v := range y.Ticks(6) {
		d.Line(Grey, 0.6, []Point{{x.From, y.At(v)}, {x.To, y.At(v)}})
		d.Text(Point{x.From - 4, y.At(v) + 3}, End, Number(v), Plain, Soft)
	}
	d.Text(Point{edge + 9, (y.From + y.To) / 2}, Middle, f.Y, Font{Size: Plain.Size, OnEnd: true}, Soft)
	d.Line(Soft, 0.8, []Point{{x.From, y.From}, {x.To, y.From}})
	for _, s := range shown {
		d.series(s, Trace(s.X, s.Y, x, y))
	}
	for _, m := range f.Marks {
		d.Line(Colour(m.Color), 1.2, []Point{{x.At(m.X), y.From}, {x.At(m.X), y.To}}, 3, 4)
	}
	if f.Legend == TopLeft {
		at.X = x.From + 6
	}
	if len(entries) > 0 {
		d.Area(white, Box(at.X-2, at.Y, width+2, height)...)
	}
	for i, s := range entries {
		middle := at.Y + row*(float64(i)+0.5)
		sample := []Point{{at.X, middle}, {at.X + 18, middle}}
		if s.Style == Points {
			sample = sample[1:]
		}
		d.series(s, sample)
		d.Text(Point{at.X + 23, middle + 3}, Start, s.Name, Plain, Black)
	}
	return d
}

func (d *Drawing) series(s Series, points []Point) {
	if s.Style != Points {
		d.Line(Colour(s.Color), 1.6, points)
	}
	if s.Style != Solid {
		for _, p := range points {
			d.Line(Colour(s.Color), 4, []Point{p})
		}
	}
}

// horizontal writes the numbers and the name of an axis below y.
func (d *Drawing) horizontal(x Axis, y float64, name string) {
	for _, v := range x.Ticks(6) {
		d.Text(Point{x.At(v), y + 13}, Middle, Number(v), Plain, Soft)
	}
	d.Text(Point{(x.From + x.To) / 2, y + 27}, Middle, name, Plain, Soft)
}

// Bars are groups of horizontal bars, one of each series in a group, with their values.
type Bars struct {
	Title, X string
	Groups   []string
	Series   []Series // X has a value for each group; 0 has no bar
	Label    func(v float64) string
	Width    float64 // in centimetres
	Unit     float64 // where above 0, a line for comparison
}

// Draw draws the bars, the first group at the top.
func (b *Bars) Draw() *Drawing {
	const bar, gap = 14.0, 14.0
	group := gap + bar*float64(len(b.Series))
	legend := 0.0
	if len(b.Series) > 1 {
		legend = 20
	}
	d := New(b.Width*centimetre, 1000, b.Title)
	x := Axis{From: edge, To: d.width - 7*edge}
	for _, name := range b.Groups {
		x.From = max(x.From, edge+Plain.Width(name)+5)
	}
	at := x.From
	for _, s := range b.Series {
		for _, v := range s.X {
			x.Hi = max(x.Hi, v)
		}
		if legend > 0 {
			d.Area(Colour(s.Color), Box(at, d.top, 9, 9)...)
			d.Text(Point{at + 13, d.top + 8}, Start, s.Name, Plain, Black)
			at += Plain.Width(s.Name) + 30
		}
	}
	top := d.top + legend
	bottom := top + group*float64(len(b.Groups))
	d.height = bottom + 30 + edge
	for _, v := range x.Ticks(6) {
		d.Line(Grey, 0.6, []Point{{x.At(v), top}, {x.At(v), bottom}})
	}
	d.horizontal(x, bottom, b.X)
	for i, name := range b.Groups {
		y := top + group*float64(i)
		d.Text(Point{x.From - 5, y + group/2 + 3}, End, name, Plain, Soft)
		for k, s := range b.Series {
			y, to := y+gap/2+bar*float64(k), x.At(s.X[i])
			d.Area(Colour(s.Color), Box(x.From, y+0.5, to-x.From, bar-1)...)
			d.boxed(Point{to, y + bar/2}, b.Label(s.X[i]))
		}
	}
	if b.Unit > 0 {
		d.Line(Black, 0.8, []Point{{x.At(b.Unit), top}, {x.At(b.Unit), bottom}})
	}
	return d
}
