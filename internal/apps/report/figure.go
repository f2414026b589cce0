package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/atomicfile"
)

// Figure is a plot of lines over one axis, with the numbers that it shows.
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
	Color  int    // of chart's palette
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
	BottomRight Corner = iota
	TopRight
	TopLeft
)

// Sizes of a figure.
const (
	figureWidth  = 17 * vg.Centimeter
	figureHeight = 9.5 * vg.Centimeter
)

// plot draws the figure.
func (f *Figure) plot() (*plot.Plot, error) {
	p := newPlot(f.Title, f.X, f.Y)
	addGrid(p, true)
	p.Legend.Top, p.Legend.Left = f.Legend != BottomRight, f.Legend == TopLeft
	if p.Legend.Left {
		p.Legend.XOffs = -p.Legend.XOffs
	}
	if p.Legend.Top {
		p.Legend.YOffs = -p.Legend.YOffs
	}
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticker{log: true}
	}
	named := map[string]bool{}
	for _, s := range f.Series {
		if len(s.X) == 0 {
			continue
		}
		xy := make(plotter.XYs, len(s.X))
		for i := range xy {
			xy[i] = plotter.XY{X: s.X[i], Y: s.Y[i]}
		}
		thumb, err := addSeries(p, xy, s)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.Title, err)
		}
		if !s.Hidden && !named[s.Name] {
			named[s.Name] = true
			p.Legend.Add(s.Name, legendGround{&p.Legend, s.Name}, thumb)
		}
	}
	if f.ZeroY {
		p.Y.Min = 0
	}
	if !f.LogX {
		p.X.Min = min(p.X.Min, 0)
		if p.X.Max > p.X.Min { // room for half of the last number
			p.X.Max += 0.02 * (p.X.Max - p.X.Min)
		}
	}
	if p.Y.Max > p.Y.Min { // air above the lines, and room for a legend that stands there
		air := 0.04
		if p.Legend.Top {
			air += 0.06 * float64(len(named))
		}
		p.Y.Max += air * (p.Y.Max - p.Y.Min)
	}
	for _, m := range f.Marks {
		l, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: p.Y.Min}, {X: m.X, Y: p.Y.Max}})
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.Title, err)
		}
		l.Color, l.Width, l.Dashes = chart.Colour(m.Color), vg.Points(1.2), []vg.Length{3, 4}
		p.Add(l)
	}
	return p, nil
}

// legendGround is a white ground behind an entry of a legend, which covers lines that pass there.
type legendGround struct {
	legend *plot.Legend
	name   string
}

// Thumbnail implements plot.Thumbnailer. The canvas is the place of the sample, beside which the name will stand.
func (g legendGround) Thumbnail(c *draw.Canvas) {
	r, width := c.Rectangle, g.legend.TextStyle.Rectangle("  "+g.name).Max.X
	if g.legend.Left {
		r.Max.X += width
	} else {
		r.Min.X -= width
	}
	r.Min.Y -= g.legend.Padding
	c.SetColor(color.White)
	c.Fill(r.Path())
}

func addSeries(p *plot.Plot, xy plotter.XYs, s Series) (plot.Thumbnailer, error) {
	if s.Style == Points {
		dots, err := plotter.NewScatter(xy)
		if err != nil {
			return nil, err
		}
		dots.Color, dots.Shape, dots.Radius = chart.Colour(s.Color), draw.CircleGlyph{}, 2.5
		p.Add(dots)
		return dots, nil
	}
	l, err := plotter.NewLine(xy)
	if err != nil {
		return nil, err
	}
	l.Color, l.Width = chart.Colour(s.Color), vg.Points(1.6)
	p.Add(l)
	if s.Style == Dotted {
		dots, err := plotter.NewScatter(xy)
		if err != nil {
			return nil, err
		}
		dots.Color, dots.Shape, dots.Radius = l.Color, draw.CircleGlyph{}, 2
		p.Add(dots)
	}
	return l, nil
}

// Bytes renders the figure in a format: svg, png or pdf.
func (f *Figure) Bytes(format string) ([]byte, error) {
	p, err := f.plot()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = render(p, figureWidth, figureHeight, format, &b)
	return b.Bytes(), err
}

// save draws a plot to a file whose ending chooses the format: .svg, .png or .pdf.
func save(p *plot.Plot, width, height vg.Length, path string) error {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	if !slices.Contains([]string{"svg", "png", "pdf"}, format) {
		return fmt.Errorf("%s: cannot draw a file ending in %q; expected .svg, .png or .pdf", path, filepath.Ext(path))
	}
	return atomicfile.WriteFile(path, func(w io.Writer) error { return render(p, width, height, format, w) })
}

// Save writes the figure to a file whose ending chooses the format: .svg, .png or .pdf.
func (f *Figure) Save(path string) error {
	p, err := f.plot()
	if err != nil {
		return err
	}
	return save(p, figureWidth, figureHeight, path)
}

// Inline returns the figure as an SVG element for a page: as wide as its place, in the colours of the page (chart.CSS
// and the colour of its text), without a background.
func (f *Figure) Inline() (string, error) {
	b, err := f.Bytes("svg")
	if err != nil {
		return "", err
	}
	s := string(b)
	s = s[strings.Index(s, "<svg"):]
	s = s[strings.Index(s, "viewBox"):]
	s = fmt.Sprintf(`<svg role="img" aria-label="%s" `, html.EscapeString(f.Title)) + s
	// the first shape is the background
	if i := strings.Index(s, `<path `); i >= 0 && strings.Contains(s[i:i+200], "fill:#FFFFFF") {
		s = s[:i] + s[i+strings.Index(s[i:], "/>")+2:]
	}
	return pageColours.Replace(s), nil
}

// pageColours puts the variables of a page in the place of the colours of a file.
var pageColours = func() *strings.Replacer {
	var pairs []string
	put := func(c color.RGBA, name string) {
		for _, what := range []string{"stroke:", "fill:"} {
			pairs = append(pairs, what+chart.Hex(c), what+name)
		}
	}
	put(color.RGBA{A: 255}, "currentColor")
	put(color.RGBA{R: 255, G: 255, B: 255, A: 255}, "var(--ground)")
	put(chart.Grey, "var(--line)")
	put(chart.Soft, "var(--faint)")
	for i := range chart.Colours {
		put(chart.Colour(i), "var("+chart.Variable(i)+")")
	}
	return strings.NewReplacer(pairs...)
}()

// Table returns the numbers of the figure.
func (f *Figure) Table() *Table {
	t := &Table{Name: f.Name, Title: f.Title, Heads: []Head{{Name: "series"}, {Name: f.X, Number: true},
		{Name: f.Y, Number: true}}}
	for _, s := range f.Series {
		for i := range s.X {
			t.Rows = append(t.Rows, Row{Cells: []Cell{textCell(s.Name), numberCell(s.X[i], 3), numberCell(s.Y[i], 3)}})
		}
	}
	return t
}
