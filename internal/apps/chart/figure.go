package chart

import (
	"image/color"
	"math"
	"slices"
)

// Figure is a plot of lines over one axis.
type Figure struct {
	Name    string // of its files
	Title   string
	Caption string // below the figure
	X, Y    string // names of the axes
	Series  []Series
	Markers []string // what the markers of the series stand for, such as seeds; may be nil
	Marks   []Mark
	ZeroY   bool // the vertical axis begins at 0
	LogX    bool // the horizontal axis is logarithmic
	Legend  Corner
}

// Series is a line, or points with a line through them. A series of one value is a point.
type Series struct {
	Name   string // in the legend; several lines may have the same name and colour
	Color  int    // in the palette; it also selects the dashes, so that lines differ without colours
	Marker int    // form of the points
	X, Y   []float64
	Style  Style
	Hidden bool // not in the legend
}

// Style is how a series is drawn.
type Style int

// Styles.
const (
	Solid  Style = iota
	Marked       // a line with markers: at each of up to 24 points, otherwise at about a dozen
	Points
)

// Mark is a vertical line. Marks with the same name share a letter next to the line and in the legend.
type Mark struct {
	Name  string // "" is not in the legend
	X     float64
	Color int
}

// dashes are the strokes and gaps of lines, by colour. Their number differs from the number of colours, so that forty
// series all look different.
var dashes = [][]int{nil, {7, 4}, {2, 4}, {10, 4, 2, 4}, {10, 3, 2, 3, 2, 3}}

// Dashes returns the strokes and gaps of lines of colour i; nil is a solid line.
func Dashes(i int) []int { return dashes[i%len(dashes)] }

// Corner is the position of a legend.
type Corner int

// Corners.
const (
	Beside Corner = iota // on the right of the lines
	TopRight
	TopLeft
)

// axes returns the axes of the figure, and its series without points that cannot be drawn.
func (f *Figure) axes() (x, y Axis, shown []Series) {
	first, last := math.Inf(1), math.Inf(-1)
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range f.Series {
		if s.X, s.Y = Shown(s.X, s.Y, f.LogX, false); len(s.X) > 0 {
			shown = append(shown, s)
			first, last = min(first, slices.Min(s.X)), max(last, slices.Max(s.X))
			lo, hi = min(lo, slices.Min(s.Y)), max(hi, slices.Max(s.Y))
		}
	}
	if len(shown) == 0 {
		first, last, lo, hi = 1, 1, 0, 0
	}
	x = Positions(first, last)
	if f.LogX {
		x = Axis{Lo: first, Hi: max(last, first*2), Log: true}
	}
	return x, Values(lo, hi, f.ZeroY, false), shown
}

// legendEntry is a line of a legend.
type legendEntry struct {
	name string
	draw func(d *Drawing, left, right Point) // the sample
}

// legend lists the shown series, the meanings of the markers and the vertical lines on an axis, each once. It gives the
// vertical lines their letters.
func (f *Figure) legend(shown []Series, x Axis) (entries []legendEntry, letters map[string]string) {
	seen := map[string]bool{}
	add := func(name string, draw func(*Drawing, Point, Point)) {
		if name != "" && !seen[name] {
			seen[name] = true
			entries = append(entries, legendEntry{name, draw})
		}
	}
	for _, s := range shown {
		if s.Hidden {
			continue
		}
		add(s.Name, func(d *Drawing, left, right Point) {
			if s.Style == Marked && len(f.Markers) > 0 {
				s.Style = Solid // the markers have entries of their own
			}
			points := []Point{left, right}
			if s.Style == Points || len(s.X) == 1 {
				points = points[1:]
			}
			d.series(s, points)
		})
	}
	for i, name := range f.Markers {
		add(name, func(d *Drawing, _, right Point) { d.marker(Soft, i, Point{right.X - 9, right.Y}) })
	}
	letters = map[string]string{}
	for _, m := range f.Marks {
		if m.X < x.Lo || m.X > x.Hi || m.Name == "" {
			continue
		}
		if letters[m.Name] == "" {
			letters[m.Name] = string(rune('a' + len(letters)%26))
		}
		add(m.Name, func(d *Drawing, _, right Point) {
			at := Point{right.X - 9, right.Y}
			d.Line(Colour(m.Color), 1.2, []Point{{at.X, at.Y + 5}, {at.X, at.Y - 5}}, vertical...)
			d.Text(Point{at.X + 3, at.Y + 3}, Start, letters[m.Name], Plain, Soft)
		})
	}
	return entries, letters
}

// inward is 1 if there is space to the right of a value, -1 at the end of the axis.
func inward(value float64, x Axis) float64 {
	if x.At(value) > x.To-20 {
		return -1
	}
	return 1
}

// vertical are the dashes of vertical lines; no series has them.
var vertical = []int{1, 3}

// Draw draws the figure.
func (f *Figure) Draw() *Drawing {
	d := New(17*centimetre, 9.5*centimetre, f.Title)
	x, y, shown := f.axes()
	entries, letters := f.legend(shown, x)
	width := 0.0
	for _, e := range entries {
		width = max(width, Plain.Width(e.name)+28)
	}
	const row = 13
	height := row * float64(len(entries))
	y.From, y.To = d.height-edge-30, d.top
	if f.Legend != Beside { // space for a legend above the lines
		y.Hi += (y.Hi - y.Lo) * height / max(y.From-y.To-height, height/2)
	}
	x.From, x.To = edge+18, d.width-2*edge
	at := Point{x.To - width, y.To}
	if f.Legend == Beside {
		x.To -= min(width+8, d.width/2)
	}
	for _, v := range y.Ticks(6) {
		x.From = max(x.From, edge+18+Plain.Width(y.Label(v)))
	}
	d.horizontal(x, y.From, f.X)
	for _, v := range y.Ticks(6) {
		d.Line(Grey, 0.6, []Point{{x.From, y.At(v)}, {x.To, y.At(v)}})
		d.Text(Point{x.From - 4, y.At(v) + 3}, End, y.Label(v), Plain, Soft)
	}
	d.Text(Point{edge + 9, (y.From + y.To) / 2}, Middle, f.Y, Font{Size: Plain.Size, OnEnd: true}, Soft)
	d.Line(Soft, 0.8, []Point{{x.From, y.From}, {x.To, y.From}})
	for _, s := range shown {
		d.series(s, Trace(s.X, s.Y, x, y))
	}
	there := map[float64]string{} // letters of the vertical lines at a value, which are drawn side by side
	var places []float64
	for _, m := range f.Marks {
		if m.X < x.Lo || m.X > x.Hi {
			continue
		}
		if !slices.Contains(places, m.X) {
			places = append(places, m.X)
		}
		at := x.At(m.X) + 2.5*inward(m.X, x)*float64(len(there[m.X]))
		there[m.X] += letters[m.Name]
		d.Line(Colour(m.Color), 1.2, []Point{{at, y.From}, {at, y.To}}, vertical...)
	}
	for _, place := range places {
		side, align := inward(place, x), Start
		if side < 0 {
			align = End
		}
		at := x.At(place) + side*(2.5*float64(len(there[place]))-1)
		d.Text(Point{at, y.To + 8}, align, there[place], Plain, Soft)
	}
	if f.Legend == TopLeft {
		at.X = x.From + 6
	}
	if len(entries) > 0 {
		d.Area(white, Box(at.X-2, at.Y, width+2, height)...)
	}
	for i, e := range entries {
		middle := at.Y + row*(float64(i)+0.5)
		e.draw(d, Point{at.X, middle}, Point{at.X + 18, middle})
		d.Text(Point{at.X + 23, middle + 3}, Start, e.name, Plain, Black)
	}
	return d
}

func (d *Drawing) series(s Series, points []Point) {
	if s.Style != Points {
		d.Line(Colour(s.Color), 1.6, points, Dashes(s.Color)...)
	}
	step := 1
	switch {
	case len(points) == 1, s.Style == Points:
	case s.Style == Solid:
		return
	case len(points) > 24:
		step = (len(points) + 11) / 12
	}
	for i := 0; i < len(points); i += step {
		d.marker(Colour(s.Color), s.Marker, points[i])
	}
}

// markers are the corners of forms relative to their centre; the first form is a disc.
var markers = [][]Point{nil, Box(-2.2, -2.2, 4.4, 4.4), {{0, -3}, {2.8, 2}, {-2.8, 2}},
	{{0, -3.2}, {3.2, 0}, {0, 3.2}, {-3.2, 0}}, {{0, 3}, {2.8, -2}, {-2.8, -2}}}

// marker draws form i; after the last form, they repeat hollow.
func (d *Drawing) marker(c color.RGBA, i int, at Point) {
	form := func(c color.RGBA, size float64) {
		corners := slices.Clone(markers[i%len(markers)])
		for k, p := range corners {
			corners[k] = Point{at.X + size*p.X, at.Y + size*p.Y}
		}
		if corners == nil {
			d.Line(c, 4.4*size, []Point{at})
			return
		}
		d.Area(c, corners...)
	}
	form(c, 1)
	if i/len(markers)%2 == 1 {
		form(white, 0.5)
	}
}

// horizontal draws the numbers and the name of an axis below y.
func (d *Drawing) horizontal(x Axis, y float64, name string) {
	for _, v := range x.Ticks(6) {
		d.Text(Point{x.At(v), y + 13}, Middle, x.Label(v), Plain, Soft)
	}
	d.Text(Point{(x.From + x.To) / 2, y + 27}, Middle, name, Plain, Soft)
}

// Bars are groups of horizontal bars with their values; each group has a bar for each series.
type Bars struct {
	Title, X string
	Groups   []string
	Series   []Series // X has a value for each group; 0 has no bar
	Label    func(v float64) string
	Width    float64 // in centimetres
	Unit     float64 // a line at this value for comparison; 0 for none
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
