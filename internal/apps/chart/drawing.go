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

// Point is a position in a drawing, in points (1/72 inch) from its upper left corner.
type Point struct{ X, Y float64 }

// Drawing is a picture of lines, areas and text, for SVG or PDF.
type Drawing struct {
	width, height float64
	title         string
	top           float64 // the space below the title begins here
	shapes        []shape
}

// shape is a text at its first point, otherwise a line or, without a width, an area.
type shape struct {
	points []Point
	color  color.RGBA
	width  float64
	dashes []int
	text   string
	align  Align
	font   Font
}

// Align says which part of a text is at its position: its start, middle or end.
type Align int

// Alignments.
const (
	Start Align = iota
	Middle
	End
)

// Font is the size and weight of a text. OnEnd text runs from bottom to top.
type Font struct {
	Size        float64
	Bold, OnEnd bool
}

// Plain is the font of all texts except titles.
var (
	Plain   = Font{Size: 9}
	heading = Font{Size: 11, Bold: true}
)

const (
	centimetre = 72 / 2.54
	edge       = 6 // the margin of a picture
)

// New returns a drawing with its title at the left, where it is visible in narrow pages too. The title may have several
// lines.
func New(width, height float64, title string) *Drawing {
	d := &Drawing{width: width, height: height, title: title, top: edge}
	for line := range strings.SplitSeq(title, "\n") {
		d.Text(Point{edge, d.top + 10}, Start, line, heading, Black)
		d.top += 13
	}
	d.top += 7
	return d
}

// Line draws a line through points, or a dot at a single point. Dashes are lengths of strokes and gaps.
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

// Text draws a line of text at its baseline.
func (d *Drawing) Text(at Point, align Align, text string, f Font, c color.RGBA) {
	if text != "" {
		d.shapes = append(d.shapes, shape{points: []Point{at}, color: c, text: text, align: align, font: f})
	}
}

// boxed draws a black text to the right of a position, on a white background.
func (d *Drawing) boxed(at Point, text string) {
	d.Area(white, Box(at.X+3, at.Y-6, Plain.Width(text)+2, 12)...)
	d.Text(Point{at.X + 4, at.Y + 3}, Start, text, Plain, Black)
}

// Coordinates formats points for an SVG polyline. A single point becomes a short line, so that its round cap is drawn.
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

// Coordinate formats a number rounded to a hundredth.
func Coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// SVG returns the drawing as an SVG file with a white background.
func (d *Drawing) SVG() []byte {
	head := fmt.Sprintf("xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%spt\" height=\"%spt\"",
		Coordinate(d.width), Coordinate(d.height))
	ground := fmt.Sprintf("<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n",
		html.EscapeString(d.title), Hex(white))
	return []byte(d.svg(head, ground, Hex))
}

// Inline returns the drawing as an SVG element for a page: as wide as its container, in the colours of the page (CSS
// and the text colour), without a background.
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
			// The reader may lack the font, so the text is set to the width by which it was placed.
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

// Save writes the drawing to a file. The file name extension chooses the format: .svg or .pdf.
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
