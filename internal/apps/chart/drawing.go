package chart

import (
	"fmt"
	"html"
	"image/color"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"vsetrain/internal/files/atomicfile"
)

// Point is a place on a drawing, in points (1/72 inch) from its upper left corner.
type Point struct{ X, Y float64 }

// Drawing is a picture of lines, areas and text. It is written as SVG or PDF.
type Drawing struct {
	width, height float64
	title         string
	top           float64 // what is free begins here
	shapes        []shape
}

// shape is a text at its first point, or else a line, or, without a width, an area.
type shape struct {
	points []Point
	color  color.RGBA
	width  float64
	dashes []int
	text   string
	align  Align
	font   Font
}

// Align says what stands at the place of a text: its start, middle or end.
type Align int

// Alignments.
const (
	Start Align = iota
	Middle
	End
)

// Font is the size and weight of a text. Text that stands on end is read from below.
type Font struct {
	Size        float64
	Bold, OnEnd bool
}

// Plain is the font of all but the titles.
var (
	Plain   = Font{Size: 9}
	heading = Font{Size: 11, Bold: true}
)

const (
	centimetre = 72 / 2.54
	edge       = 6 // the empty edge of a picture
)

// New returns a drawing with its title, which may have several lines, at the left, where a narrow page begins.
func New(width, height float64, title string) *Drawing {
	d := &Drawing{width: width, height: height, title: title, top: edge}
	for line := range strings.SplitSeq(title, "\n") {
		d.Text(Point{edge, d.top + 10}, Start, line, heading, Black)
		d.top += 13
	}
	d.top += 7
	return d
}

// Line draws a line through points, a dot where they are one. Dashes are lengths of strokes and gaps.
func (d *Drawing) Line(c color.RGBA, width float64, points []Point, dashes ...int) {
	d.shapes = append(d.shapes, shape{points: points, color: c, width: width, dashes: dashes})
}

// Area fills a polygon.
func (d *Drawing) Area(c color.RGBA, points ...Point) {
	d.shapes = append(d.shapes, shape{points: points, color: c})
}

// Box returns the corners of a rectangle.
func Box(x, y, width, height float64) []Point {
	return []Point{{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}}
}

// Text writes one line at a base line.
func (d *Drawing) Text(at Point, align Align, text string, f Font, c color.RGBA) {
	if text != "" {
		d.shapes = append(d.shapes, shape{points: []Point{at}, color: c, text: text, align: align, font: f})
	}
}

// boxed writes a line in black after a place, on a ground that covers what lies there.
func (d *Drawing) boxed(at Point, text string) {
	d.Area(white, Box(at.X+3, at.Y-6, Plain.Width(text)+2, 12)...)
	d.Text(Point{at.X + 4, at.Y + 3}, Start, text, Plain, Black)
}

// Coordinates writes points for a polyline of SVG; of a single one the round cap is drawn.
func Coordinates(points []Point) string {
	if len(points) == 1 {
		points = append(points, Point{points[0].X + 0.01, points[0].Y})
	}
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(Coordinate(p.X) + "," + Coordinate(p.Y))
	}
	return b.String()
}

// Coordinate rounds to a hundredth, so that the same numbers give the same bytes.
func Coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// SVG returns the drawing as a file, on white.
func (d *Drawing) SVG() []byte {
	head := fmt.Sprintf("xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%spt\" height=\"%spt\"",
		Coordinate(d.width), Coordinate(d.height))
	ground := fmt.Sprintf("<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n",
		html.EscapeString(d.title), Hex(white))
	return []byte(d.svg(head, ground, Hex))
}

// Inline returns the drawing as an SVG element for a page: as wide as its place, in the colours of the page (CSS and
// the colour of its text), without a ground.
func (d *Drawing) Inline() string {
	head := fmt.Sprintf("role=\"img\" aria-label=\"%s\"", html.EscapeString(d.title))
	return d.svg(head, "", func(c color.RGBA) string {
		if name, ok := variables[c]; ok {
			return name
		}
		return Hex(c)
	})
}

func (d *Drawing) svg(head, ground string, paint func(color.RGBA) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg %s viewBox=\"0 0 %s %s\" font-family=\"%s\" fill=\"none\" stroke-linecap=\"round\" "+
		"stroke-linejoin=\"round\">\n%s", head, Coordinate(d.width), Coordinate(d.height), family, ground)
	for _, s := range d.shapes {
		switch c := paint(s.color); {
		case s.text != "":
			more := ""
			if s.font.Bold {
				more = " font-weight=\"bold\""
			}
			x, y := Coordinate(s.points[0].X), Coordinate(s.points[0].Y)
			if s.font.OnEnd {
				more += fmt.Sprintf(" transform=\"rotate(-90 %s %s)\"", x, y)
			}
			// Who looks at it may lack the font: the text has the width that it was placed with.
			fmt.Fprintf(&b, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\" textLength=\"%s\" "+
				"lengthAdjust=\"spacingAndGlyphs\" font-size=\"%s\" fill=\"%s\"%s>%s</text>\n", x, y,
				[]string{"start", "middle", "end"}[s.align], Coordinate(s.font.Width(s.text)), Coordinate(s.font.Size),
				c, more, html.EscapeString(s.text))
		case s.width == 0:
			fmt.Fprintf(&b, "<polygon points=\"%s\" fill=\"%s\"/>\n", Coordinates(s.points), c)
		default:
			dashes := ""
			if s.dashes != nil {
				dashes = fmt.Sprintf(" stroke-dasharray=\"%s\" stroke-linecap=\"butt\"",
					strings.Trim(fmt.Sprint(s.dashes), "[]"))
			}
			fmt.Fprintf(&b, "<polyline points=\"%s\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n", Coordinates(s.points), c,
				Coordinate(s.width), dashes)
		}
	}
	return b.String() + "</svg>\n"
}

// Save writes the drawing to a file whose ending chooses the format: .svg or .pdf.
func (d *Drawing) Save(path string) error {
	switch ext := filepath.Ext(path); strings.ToLower(ext) {
	case ".svg":
		return atomicfile.WriteFile(path, atomicfile.Bytes(d.SVG()))
	case ".pdf":
		return atomicfile.WriteFile(path, atomicfile.Bytes(d.PDF()))
	default:
		return fmt.Errorf("%s: cannot draw a file ending in %q; expected .svg or .pdf", path, ext)
	}
}
