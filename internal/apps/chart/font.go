package chart

import (
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// face is one of the Go fonts, in TrueType. They have Latin, Greek and Cyrillic letters and mathematical symbols, and
// the same widths as Liberation Sans, Arial and Helvetica except for a few narrow letters. They are embedded in PDF,
// and texts in SVG are placed by their widths.
type face struct {
	name   string
	file   []byte
	parsed *sfnt.Font
	units  int // per em
}

// faces are the regular and the bold face.
var faces = [2]*face{newFace("GoRegular", goregular.TTF), newFace("GoBold", gobold.TTF)}

func newFace(name string, file []byte) *face {
	parsed, err := sfnt.Parse(file)
	if err != nil {
		panic(err) // it is part of the program
	}
	return &face{name, file, parsed, int(parsed.UnitsPerEm())}
}

func (f Font) face() *face { return faces[b2i(f.Bold)] }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// glyph returns the number of a letter's glyph, 0 if the font has none. The - of the Go fonts is as wide as a minus, so
// the soft hyphen, which is as wide as - in other fonts, replaces it.
func (f *face) glyph(r rune) int {
	if r == '-' {
		r = '\u00ad'
	}
	g, err := f.parsed.GlyphIndex(nil, r)
	if err != nil || r < ' ' {
		return 0
	}
	return int(g)
}

// advance returns the width of a glyph in units.
func (f *face) advance(glyph int) int {
	w, err := f.parsed.GlyphAdvance(nil, sfnt.GlyphIndex(glyph), fixed.I(f.units), font.HintingNone)
	if err != nil {
		return 0
	}
	return w.Round()
}

// Width returns the width of a text in points; a letter that the font lacks counts as a digit.
func (f Font) Width(text string) float64 {
	face, sum := f.face(), 0
	for _, r := range text {
		g := face.glyph(r)
		if g == 0 {
			g = face.glyph('0')
		}
		sum += face.advance(g)
	}
	return float64(sum) * f.Size / float64(face.units)
}

// table returns a table of the font, nil if there is none.
func (f *face) table(tag string) []byte {
	for i := range int(binary.BigEndian.Uint16(f.file[4:])) {
		if entry := f.file[12+16*i:]; string(entry[:4]) == tag {
			at, n := binary.BigEndian.Uint32(entry[8:]), binary.BigEndian.Uint32(entry[12:])
			return f.file[at : at+n]
		}
	}
	return nil
}

// outline returns the bytes of a glyph in the table glyf.
func (f *face) outline(glyph int) []byte {
	loca := f.table("loca")
	at := func(i int) int { return int(binary.BigEndian.Uint32(loca[4*i:])) }
	if binary.BigEndian.Uint16(f.table("head")[50:]) == 0 { // short offsets
		at = func(i int) int { return 2 * int(binary.BigEndian.Uint16(loca[2*i:])) }
	}
	return f.table("glyf")[at(glyph):at(glyph+1)]
}

// subset returns the font with the outlines of some glyphs only, which keep their numbers. The Go fonts have no
// composite glyphs.
func (f *face) subset(glyphs []int) []byte {
	kept := map[int]bool{0: true}
	for _, g := range glyphs {
		kept[g] = true
	}
	n := f.parsed.NumGlyphs()
	var glyf, loca []byte
	for g := range n + 1 {
		loca = binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
		if kept[g] {
			glyf = append(glyf, f.outline(g)...)
			glyf = append(glyf, make([]byte, -len(glyf)&3)...)
		}
	}
	hmtx, full := slices.Clone(f.table("hmtx")), int(binary.BigEndian.Uint16(f.table("hhea")[34:]))
	for g := range full {
		if !kept[g] {
			clear(hmtx[4*g : 4*g+4])
		}
	}
	head := slices.Clone(f.table("head"))
	binary.BigEndian.PutUint16(head[50:], 1) // long offsets
	tables := map[string][]byte{"glyf": glyf, "loca": loca, "hmtx": hmtx, "head": head}
	for _, tag := range []string{"hhea", "maxp", "cvt ", "fpgm", "prep"} {
		if t := f.table(tag); t != nil {
			tables[tag] = t
		}
	}
	out := slices.Clone(f.file[:4])
	for _, v := range []int{len(tables), 128, 3, 16*len(tables) - 128} { // 8 to 15 tables: how they are searched
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	var body []byte
	for _, tag := range slices.Sorted(maps.Keys(tables)) {
		t := tables[tag]
		padded := append(slices.Clone(t), make([]byte, -len(t)&3)...)
		var sum uint32
		for i := 0; i < len(padded); i += 4 {
			sum += binary.BigEndian.Uint32(padded[i:])
		}
		out = append(out, tag...)
		for _, v := range []uint32{sum, uint32(12 + 16*len(tables) + len(body)), uint32(len(t))} {
			out = binary.BigEndian.AppendUint32(out, v)
		}
		body = append(body, padded...)
	}
	return append(out, body...)
}
