package chart

import (
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
)

// PDF returns the drawing as a PDF file with one page. It embeds the glyphs of its texts; a letter that the fonts lack
// becomes a question mark.
func (d *Drawing) PDF() []byte {
	var c strings.Builder
	fmt.Fprintf(&c, "1 0 0 -1 0 %s cm 1 j\n", Coordinate(d.height))
	var used [len(faces)]map[int]rune // the letter of each used glyph
	for i := range used {
		used[i] = map[int]rune{}
	}
	for _, s := range d.shapes {
		share := func(v uint8) string { return Coordinate(float64(v) / 255) }
		paint := share(s.color.R) + " " + share(s.color.G) + " " + share(s.color.B)
		if s.text != "" {
			s.pdfText(&c, paint, used[b2i(s.font.Bold)])
			continue
		}
		path := strings.NewReplacer(",", " ", " ", " l ").Replace(Coordinates(s.points)) + " l"
		path = strings.Replace(path, "l", "m", 1)
		if s.width == 0 {
			fmt.Fprintf(&c, "%s rg %s f\n", paint, path)
			continue
		}
		ends := 1 // round
		if s.dashes != nil {
			ends = 0
		}
		fmt.Fprintf(&c, "%s RG %s w %d J %v 0 d %s S\n", paint, Coordinate(s.width), ends, s.dashes, path)
	}
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "", // the page
		stream("", c.String()), fmt.Sprintf("<</Title%s/Creator(vsetrain)>>", utf16Hex(d.title))}
	fonts := ""
	for i, glyphs := range used {
		if len(glyphs) > 0 {
			fonts += fmt.Sprintf("/F%d %d 0 R", i, len(objects)+1)
			objects = append(objects, faces[i].pdf(glyphs, len(objects)+1)...)
		}
	}
	objects[2] = fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 %s %s]/Contents 4 0 R/Resources<</Font<<%s>>>>>>",
		Coordinate(d.width), Coordinate(d.height), fonts)
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n") // bytes above 127: the file is not text
	xref := "0000000000 65535 f \n"
	for i, o := range objects {
		xref += fmt.Sprintf("%010d 00000 n \n", b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	fmt.Fprintf(&b, "xref\n0 %d\n%strailer\n<</Size %[1]d/Root 1 0 R/Info 5 0 R>>\nstartxref\n%[3]d\n%%%%EOF\n",
		len(objects)+1, xref, b.Len())
	return b.Bytes()
}

// stream returns a stream object with compressed content, and more entries in its dictionary.
func stream(more, content string) string {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	io.WriteString(z, content) // into memory, which cannot fail
	z.Close()
	return fmt.Sprintf("<</Filter/FlateDecode/Length %d%s>>stream\n%s\nendstream", packed.Len(), more, packed.Bytes())
}

// utf16Hex returns a PDF text string.
func utf16Hex(s string) string {
	b := []byte{0xfe, 0xff}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u>>8), byte(u))
	}
	return "<" + hex.EncodeToString(b) + ">"
}

// pdf returns the PDF objects of the face with some of its glyphs; first is the number of the first object.
func (f *face) pdf(glyphs map[int]rune, first int) []string {
	all := slices.Sorted(maps.Keys(glyphs))
	name := "VSETRN+" + f.name // six letters mark a subset
	thousandths := func(v int) int { return (1000*v + f.units/2) / f.units }
	widths, letters := "", ""
	for _, g := range all {
		widths += fmt.Sprintf("%d[%d]", g, thousandths(f.advance(g)))
		letters += fmt.Sprintf("1 beginbfchar\n<%04x> <%04x>\nendbfchar\n", g, glyphs[g])
	}
	file := f.subset(all)
	return []string{
		fmt.Sprintf("<</Type/Font/Subtype/Type0/BaseFont/%s/Encoding/Identity-H/DescendantFonts[%d 0 R]"+
			"/ToUnicode %d 0 R>>", name, first+1, first+2),
		fmt.Sprintf("<</Type/Font/Subtype/CIDFontType2/BaseFont/%s/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"+
			"/Supplement 0>>/FontDescriptor %d 0 R/CIDToGIDMap/Identity/W[%s]>>", name, first+3, widths),
		stream("", "/CIDInit/ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapName/Letters def\n"+
			"/CMapType 2 def\n1 begincodespacerange\n<0000> <ffff>\nendcodespacerange\n"+letters+
			"endcmap\nCMapName currentdict/CMap defineresource pop\nend\nend\n"),
		fmt.Sprintf("<</Type/FontDescriptor/FontName/%s/Flags 4/FontBBox[-500 -300 1500 1100]/ItalicAngle 0/Ascent 935"+
			"/Descent -211/CapHeight 723/StemV 80/FontFile2 %d 0 R>>", name, first+4),
		stream(fmt.Sprintf("/Length1 %d", len(file)), string(file)),
	}
}

// pdfText writes a text and records its glyphs.
func (s *shape) pdfText(w io.Writer, paint string, used map[int]rune) {
	at, matrix := s.points[0], "1 0 0 -1"
	back := s.font.Width(s.text) * float64(s.align) / 2
	if s.font.OnEnd {
		at.Y, matrix = at.Y+back, "0 -1 -1 0"
	} else {
		at.X -= back
	}
	codes, face := "", s.font.face()
	for _, r := range s.text {
		g := face.glyph(r)
		if g == 0 {
			r = '?'
			g = face.glyph(r)
		}
		used[g] = r
		codes += fmt.Sprintf("%04x", g)
	}
	fmt.Fprintf(w, "BT %s rg %s %s %s Tm /F%d %s Tf <%s> Tj ET\n", paint, matrix, Coordinate(at.X), Coordinate(at.Y),
		b2i(s.font.Bold), Coordinate(s.font.Size), codes)
}
