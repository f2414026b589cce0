package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"regexp"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"vsetrain/internal/apps/chart"
)

// margin is the empty edge of a picture, in points.
const margin = vg.Length(6)

// sans is the font of figures.
func sans(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: chart.Typeface, Variant: chart.Variant, Size: size}
	if bold {
		f.Weight = 3 // bold, of golang.org/x/image/font
	}
	return f
}

// newPlot returns an empty plot in the style of all figures: a line below, round numbers without ticks. addGrid adds
// the lines of its grid.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font, p.Title.Padding = sans(11, true), 8
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = sans(10, false), chart.Soft
		a.Tick.Label.Font, a.Tick.Label.Color = sans(9, false), chart.Soft
		a.Tick.Length, a.Tick.Marker = 0, ticker{}
		a.Label.Padding, a.Padding = 4, 0
		a.LineStyle.Color, a.LineStyle.Width = chart.Soft, vg.Points(0.8)
	}
	p.X.Tick.Label.YAlign, p.Y.LineStyle.Width = -1.4, 0 // numbers stand off the line
	p.Y.Padding = 3
	p.Legend.TextStyle.Font = sans(9, false)
	p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = 2, -6, 6
	return p
}

// addGrid adds the lines at the numbers of one axis.
func addGrid(p *plot.Plot, horizontal bool) {
	g := plotter.NewGrid()
	g.Horizontal.Width, g.Vertical.Width = 0, 0
	line := &g.Vertical
	if horizontal {
		line = &g.Horizontal
	}
	line.Color, line.Width = chart.Grey, vg.Points(0.6)
	p.Add(g)
}

// ticker places round numbers on an axis.
type ticker struct{ log bool }

// Ticks implements plot.Ticker.
func (t ticker) Ticks(lo, hi float64) (ticks []plot.Tick) {
	values := chart.Ticks(lo, hi, 6)
	if t.log {
		values = chart.LogTicks(lo, hi)
	}
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: chart.Number(v)})
	}
	return ticks
}

// render draws a plot in a format: svg, png or pdf.
func render(p *plot.Plot, width, height vg.Length, format string, w io.Writer) error {
	c, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return fmt.Errorf("draw %s: %w", p.Title.Text, err)
	}
	all := draw.New(c)
	all.SetColor(p.BackgroundColor)
	all.Fill(all.Rectangle.Path())
	p.BackgroundColor = nil
	inside := draw.Crop(all, margin, -margin, margin, -margin)
	if title := p.Title; title.Text != "" { // at the left, where a narrow page begins to show the figure
		title.TextStyle.XAlign = text.XLeft
		inside.FillText(title.TextStyle, vg.Point{X: inside.Min.X, Y: inside.Max.Y}, title.Text)
		inside.Max.Y -= title.TextStyle.Rectangle(title.Text).Size().Y + title.Padding
		p.Title.Text = ""
	}
	p.Draw(inside)
	if format != "svg" {
		_, err = c.WriteTo(w)
		return err
	}
	var b bytes.Buffer
	if _, err = c.WriteTo(&b); err == nil {
		_, err = io.WriteString(w, fitTexts(b.String()))
	}
	return err
}

// svgText is a text as gonum's SVG canvas writes it, with its weight, size and content.
var svgText = regexp.MustCompile(`<text ([^>]*)font-family:` + chart.Typeface + " " + chart.Variant +
	`;([^>]*font-weight:(\w+);[^>]*font-size:([0-9.]+)px[^"]*")>([^<]*)</text>`)

// fitTexts gives every text of an SVG the width that it was placed with, since who looks at it may lack the font.
func fitTexts(svg string) string {
	return svgText.ReplaceAllStringFunc(svg, func(s string) string {
		m := svgText.FindStringSubmatch(s)
		size, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return s
		}
		face := font.DefaultCache.Lookup(sans(vg.Points(size), m[3] == "bold"), vg.Points(size))
		width := face.Width(html.UnescapeString(m[5]))
		return fmt.Sprintf(`<text textLength="%.5g" lengthAdjust="spacingAndGlyphs" %sfont-family:%s;%s>%s</text>`,
			width.Points(), m[1], chart.Family, m[2], m[5])
	})
}

// boxed are labels on a ground that covers the lines behind them.
type boxed struct{ *plotter.Labels }

func newBoxed(l plotter.XYLabels, offset vg.Length) (boxed, error) {
	labels, err := plotter.NewLabels(l)
	if err != nil {
		return boxed{}, err
	}
	labels.Offset.X = offset
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font = sans(9, false)
		labels.TextStyle[i].YAlign = text.YCenter
	}
	return boxed{labels}, nil
}

// Plot implements plot.Plotter.
func (l boxed) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, label := range l.Labels.Labels {
		r := l.TextStyle[i].Rectangle(label).Add(vg.Point{X: x(l.XYs[i].X), Y: y(l.XYs[i].Y)}).Add(l.Offset)
		r.Min.X, r.Max.X = r.Min.X-1, r.Max.X+1
		c.SetColor(color.White)
		c.Fill(r.Path())
	}
	l.Labels.Plot(c, p)
}
