package chart

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
)

// PDF returns the drawing as a file of one page. Its fonts are those that every reader has: Latin and Greek letters, a
// question mark for any other.
func (d *Drawing) PDF() []byte {
	var c bytes.Buffer
	z := zlib.NewWriter(&c)
	fmt.Fprintf(z, "1 0 0 -1 0 %s cm 1 j\n", Coordinate(d.height))
	for _, s := range d.shapes {
		share := func(v uint8) string { return Coordinate(float64(v) / 255) }
		paint := share(s.color.R) + " " + share(s.color.G) + " " + share(s.color.B)
		if s.text != "" {
			s.pdfText(z, paint)
			continue
		}
		path := strings.NewReplacer(",", " ", " ", " l ").Replace(Coordinates(s.points)) + " l"
		path = strings.Replace(path, "l", "m", 1)
		if s.width == 0 {
			fmt.Fprintf(z, "%s rg %s f\n", paint, path)
			continue
		}
		ends := 1 // round
		if s.dashes != nil {
			ends = 0
		}
		fmt.Fprintf(z, "%s RG %s w %d J %v 0 d %s S\n", paint, Coordinate(s.width), ends, s.dashes, path)
	}
	z.Close() // into memory, which has no errors
	const font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica%s/Encoding/WinAnsiEncoding>>"
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	xref := "0000000000 65535 f \n"
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 %s %s]/Contents 4 0 R/Resources<</Font<</F0 5 0 R/F1 6 0 R"+
			"/F2 7 0 R>>>>>>", Coordinate(d.width), Coordinate(d.height)),
		fmt.Sprintf("<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream", c.Len(), c.String()),
		fmt.Sprintf(font, ""), fmt.Sprintf(font, "-Bold"), "<</Type/Font/Subtype/Type1/BaseFont/Symbol>>"}
	for i, o := range objects {
		xref += fmt.Sprintf("%010d 00000 n \n", b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	fmt.Fprintf(&b, "xref\n0 %d\n%strailer\n<</Size %[1]d/Root 1 0 R>>\nstartxref\n%[3]d\n%%%%EOF\n",
		len(objects)+1, xref, b.Len())
	return b.Bytes()
}

// Letters of the fonts Helvetica and Symbol beside ASCII and Latin-1, and their codes.
const (
	ansi, ansiCodes     = "€…‘’“”•–—", "\x80\x85\x91\x92\x93\x94\x95\x96\x97"
	symbol, symbolCodes = "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ−≤≥→∞",
		"abgdezhqiklmnxoprstufcywGDQLXPSFYW-\xa3\xb3\xae\xa5"
)

// pdfText writes a text; the letters of a font follow those of the one before.
func (s *shape) pdfText(w io.Writer, paint string) {
	at, matrix := s.points[0], "1 0 0 -1"
	back := s.font.Width(s.text) * float64(s.align) / 2
	if s.font.OnEnd {
		at.Y, matrix = at.Y+back, "0 -1 -1 0"
	} else {
		at.X -= back
	}
	fmt.Fprintf(w, "BT %s rg %s %s %s Tm", paint, matrix, Coordinate(at.X), Coordinate(at.Y))
	for _, r := range s.text {
		font, code := 0, byte('?')
		if s.font.Bold {
			font = 1
		}
		if before, _, ok := strings.Cut(ansi, string(r)); ok {
			code = ansiCodes[len([]rune(before))]
		} else if before, _, ok := strings.Cut(symbol, string(r)); ok {
			font, code = 2, symbolCodes[len([]rune(before))]
		} else if r < 0x7f || r >= 0xa0 && r <= 0xff {
			code = byte(r)
		}
		fmt.Fprintf(w, " /F%d %s Tf <%02x> Tj", font, Coordinate(s.font.Size), code)
	}
	fmt.Fprint(w, " ET\n")
}
