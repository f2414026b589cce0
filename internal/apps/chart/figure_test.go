package chart

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"

	"vsetrain/lab/try"
)

// figures are one of each kind.
func figures() map[string]*Drawing {
	columns := []Column{{Name: "loss.name", Labels: []string{"lmh", "lseh"}, At: []float64{0.2, 0.8}},
		{Name: "optim.lr", Labels: []string{"0.0001", "0.000316"}, At: []float64{0, 1}},
		{Name: "M-Recall", Labels: []string{"20.0", "a label that is long"}, At: []float64{0, 1}}}
	tracks := []Track{{At: []float64{0.2, 0, 1}, Value: 40}, {At: []float64{0.8, math.NaN(), 0}, Value: 20}}
	f := Figure{Title: "Curves", X: "epoch", Y: "M-Recall on dev", Marks: []Mark{{X: 9}}}
	for i := range 3 {
		f.Series = append(f.Series, Series{Name: fmt.Sprintf("loss <%d> α", i), Color: i, Style: Marked, Marker: i,
			X: []float64{1, 9, 9, 18}, Y: []float64{7.98, math.NaN(), math.Inf(1), 39.2}})
	}
	b := Bars{Title: "effects", X: "share", Width: 9, Groups: []string{"model.vseinf.size_augment", "optim.lr"},
		Series: []Series{{X: []float64{1, 0.5}}}, Label: Number}
	return map[string]*Drawing{"parallel": Parallel("two points", columns, tracks), "bars": b.Draw(),
		"curves": f.Draw(), "empty": new(Figure).Draw()}
}

var anyText = regexp.MustCompile(`<text x="(\S+)" y="(\S+)" text-anchor="(\w+)" textLength="(\S+)" [^>]*` +
	`font-size="(\S+)" fill="([^"]+)"([^>]*)>([^<]*)</text>`)

// All kinds of figures have titles at the left, labels of at least 9 points and no text that the edge cuts off,
// whatever font its reader has.
func TestTexts(t *testing.T) {
	number := func(s string) float64 {
		return try.Get(strconv.ParseFloat(s, 64))(t)
	}
	for name, d := range figures() {
		svg := string(d.SVG())
		texts := anyText.FindAllStringSubmatch(svg, -1)
		if len(texts) != strings.Count(svg, "<text") || len(texts) < 6 && name != "empty" {
			t.Errorf("%s: %d texts: %s", name, len(texts), svg)
		}
		for i, m := range texts {
			x, width, most := number(m[1]), number(m[4]), d.width
			if strings.Contains(m[7], "rotate") {
				x, most = d.height-number(m[2]), d.height
			}
			x -= width * map[string]float64{"start": 0, "middle": 0.5, "end": 1}[m[3]]
			if x < 1 || x+width > most-1 || number(m[5]) < 9 || name != "empty" && i == 0 && x > 10 {
				t.Errorf("%s: %q stands at %.1f to %.1f of %.1f, size %s", name, m[8], x, x+width, most, m[5])
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: %s", name, svg)
		}
	}
	if w := figures()["bars"].width; w > 260 {
		t.Errorf("bars are %.0f points wide, a telephone has room for 260", w)
	}
}

// A file has colours, a page has variables. A legend stands on a ground, in front of the marks.
func TestColoursOfFilesAndPages(t *testing.T) {
	d := figures()["curves"]
	svg, page := string(d.SVG()), d.Inline()
	for _, want := range []string{">5<", ">15<", ">40<", Hex(Colour(0)), Hex(Colour(2)), ">loss &lt;1&gt; α<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the file lacks %s", want)
		}
	}
	if _, legend, _ := strings.Cut(svg, "stroke-dasharray=\"1 3\""); strings.Count(legend, Hex(white)) != 1 {
		t.Errorf("the legend covers no lines: %.600s", legend)
	}
	if strings.Contains(page, "#") || strings.Count(page, `fill="var(--ground)"`) != 1 ||
		!strings.Contains(page, `stroke="var(--s2)"`) || !strings.Contains(page, `aria-label="Curves"`) {
		t.Errorf("the colours of a page:\n%.600s", page)
	}
}

// Each object of a PDF begins where its table says. All fonts are embedded, as whole tables, with an outline and a
// letter for each glyph that a text has. The title stands in the file's own description.
func TestPDF(t *testing.T) {
	stream := regexp.MustCompile(`(?s)/Length (\d+)[^>]*>>stream\n`)
	for name, d := range figures() {
		b := d.PDF()
		for i, m := range regexp.MustCompile(`(?m)^(\d{10}) 00000 n `).FindAllSubmatch(b, -1) {
			at, err := strconv.Atoi(string(m[1]))
			if err != nil || !bytes.HasPrefix(b[at:], fmt.Appendf(nil, "%d 0 obj", i+1)) {
				t.Errorf("%s: object %d is not at %s", name, i+1, m[1])
			}
		}
		var streams []string
		for _, at := range stream.FindAllIndex(b, -1) {
			z := try.Get(zlib.NewReader(bytes.NewReader(b[at[1]:])))(t)
			streams = append(streams, string(try.Get(io.ReadAll(z))(t)))
		}
		page, fonts := streams[0], bytes.Count(b, []byte("/Subtype/Type0"))
		if bytes.Count(b, []byte("/FontFile2 ")) != fonts || bytes.Contains(b, []byte("/Type1")) ||
			len(streams) != 1+2*fonts || fonts == 0 && name != "empty" {
			t.Errorf("%s: %d fonts in %d streams", name, fonts, len(streams))
		}
		if title := utf16Hex(d.title); !bytes.Contains(b, []byte("<</Title"+title+"/Creator(vsetrain)>>")) {
			t.Errorf("%s: the title %s is not in the file", name, title)
		}
		for k, m := range regexp.MustCompile(`/F(\d) \d+ 0 R`).FindAllSubmatch(b, -1) {
			letters, file := streams[1+2*k], []byte(streams[2+2*k])
			font := try.Get(sfnt.Parse(withLetters(t, file, faces[m[1][0]-'0'])))(t)
			for _, text := range regexp.MustCompile(`/F`+string(m[1])+` \S+ Tf <([0-9a-f]+)>`).
				FindAllStringSubmatch(page, -1) {
				for c := text[1]; c != ""; c = c[4:] {
					glyph := try.Get(strconv.ParseUint(c[:4], 16, 16))(t)
					said := regexp.MustCompile(`<` + c[:4] + `> <([0-9a-f]{4})>`).FindStringSubmatch(letters)
					if said == nil {
						t.Fatalf("%s: glyph %s has no letter", name, c[:4])
					}
					letter := rune(try.Get(strconv.ParseUint(said[1], 16, 16))(t))
					outline, err := font.LoadGlyph(nil, sfnt.GlyphIndex(glyph), fixed.I(10), nil)
					if err != nil || len(outline) == 0 && letter != ' ' {
						t.Errorf("%s: %q has %d parts, %v", name, letter, len(outline), err)
					}
				}
			}
		}
		if len(b) > 40000 {
			t.Errorf("%s has %d bytes", name, len(b))
		}
	}
}

// withLetters adds the tables to a subset that PDF does without, so that a reader of fonts takes it.
func withLetters(t *testing.T, subset []byte, f *face) []byte {
	t.Helper()
	type table struct{ tag, body string }
	var tables []table
	for i := range int(binary.BigEndian.Uint16(subset[4:])) {
		e := subset[12+16*i:]
		at, n := binary.BigEndian.Uint32(e[8:]), binary.BigEndian.Uint32(e[12:])
		tables = append(tables, table{string(e[:4]), string(subset[at : at+n])})
	}
	for _, tag := range []string{"cmap", "name", "OS/2", "post"} {
		tables = append(tables, table{tag, string(f.table(tag))})
	}
	slices.SortFunc(tables, func(a, b table) int { return strings.Compare(a.tag, b.tag) })
	out := binary.BigEndian.AppendUint16(slices.Clone(subset[:4]), uint16(len(tables)))
	out = append(out, make([]byte, 6)...)
	body := ""
	for _, x := range tables {
		out = append(append(out, x.tag...), 0, 0, 0, 0)
		out = binary.BigEndian.AppendUint32(out, uint32(12+16*len(tables)+len(body)))
		out = binary.BigEndian.AppendUint32(out, uint32(len(x.body)))
		body += x.body + strings.Repeat("\x00", -len(x.body)&3)
	}
	return append(out, body...)
}

// Subsets for letters that are drawn at random have the outlines and widths of the whole font, and are a small part of
// it.
func TestSubsets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, f := range faces {
		for range 40 {
			var glyphs []int
			for len(glyphs) < 20 {
				if g := f.glyph(rune(' ' + random.IntN(0x2300))); g != 0 {
					glyphs = append(glyphs, g)
				}
			}
			file := f.subset(glyphs)
			font := try.Get(sfnt.Parse(withLetters(t, file, f)))(t)
			if len(file) > len(f.file)/3 {
				t.Errorf("%s: a subset of %d letters has %d bytes", f.name, len(glyphs), len(file))
			}
			for _, g := range glyphs {
				want, err := f.parsed.LoadGlyph(nil, sfnt.GlyphIndex(g), fixed.I(f.units), nil)
				got, err2 := font.LoadGlyph(nil, sfnt.GlyphIndex(g), fixed.I(f.units), nil)
				if err != nil || err2 != nil || !slices.Equal(want, got) {
					t.Fatalf("%s: glyph %d has %d parts, want %d; %v, %v", f.name, g, len(got), len(want), err, err2)
				}
				if part := (&face{file: file, parsed: font, units: f.units}); part.advance(g) != f.advance(g) {
					t.Errorf("%s: glyph %d is %d wide, want %d", f.name, g, part.advance(g), f.advance(g))
				}
			}
		}
	}
}

// Letters have the widths of their font; one that it lacks counts as a digit.
func TestWidths(t *testing.T) {
	for text, want := range map[string]float64{"00": 1.112, "W": 0.944, "α0": 0.556 + 0.578, "\u4e2d": 0.556} {
		if w := Plain.Width(text) / Plain.Size; math.Abs(w-want) > 0.04 {
			t.Errorf("%q is %.3f wide, want %.3f", text, w, want)
		}
	}
}

// Forty series in a row differ in colour or dashes from each other, and neighbours in dashes: the figure can be read
// without colours. Markers differ as well, and so do the vertical lines of different series.
func TestSeriesAreToldApart(t *testing.T) {
	look := func(f Figure) string {
		svg := string(f.Draw().SVG())
		return svg[strings.LastIndex(svg, "stroke-width=\"0.8\""):] // behind the axes
	}
	grey := regexp.MustCompile(`#[0-9A-F]{6}`)
	seen := map[string]string{}
	for i := range 40 {
		f := Figure{Series: []Series{{Color: i, Marker: i / Colours, Style: Marked, X: []float64{1, 2},
			Y: []float64{3, 4}}}}
		lines := look(f)
		if before := seen[lines]; before != "" {
			t.Errorf("series %d looks like series %s", i, before)
		}
		seen[lines] = fmt.Sprint(i)
		next := f
		next.Series = []Series{{Color: i + 1, X: []float64{1, 2}, Y: []float64{3, 4}}}
		f.Series = []Series{{Color: i, X: []float64{1, 2}, Y: []float64{3, 4}}}
		if grey.ReplaceAllString(look(f), "") == grey.ReplaceAllString(look(next), "") {
			t.Errorf("without colours series %d and %d look the same", i, i+1)
		}
	}
	forms := map[string]bool{}
	for i := range 10 {
		d := New(100, 100, "")
		d.marker(Soft, i, Point{50, 50})
		forms[string(d.SVG())] = true
	}
	if len(forms) != 10 {
		t.Errorf("%d forms of 10 markers", len(forms))
	}
}

// A series of one value is a point with a size, whatever its style and place; the axis has its place inside.
func TestOneValueIsAPoint(t *testing.T) {
	for _, style := range []Style{Solid, Marked, Points} {
		for _, at := range []float64{0, 0.125, 1, 30} {
			for _, log := range []bool{false, true} {
				if log && at == 0 {
					continue
				}
				f := Figure{LogX: log, Series: []Series{{Name: "a", Style: style, X: []float64{at}, Y: []float64{5}}}}
				svg := string(f.Draw().SVG())
				if n := strings.Count(svg, `stroke-width="4.4"`); n != 2 { // in the figure and its legend
					t.Errorf("style %d at %g: %d points", style, at, n)
				}
				if x, _, _ := f.axes(); !(x.Lo <= at && at < x.Hi) {
					t.Errorf("the axis of one value at %g is %g to %g", at, x.Lo, x.Hi)
				}
			}
		}
	}
}

// An axis of positions begins at 0 unless more than a sixth of it were empty.
func TestPositions(t *testing.T) {
	for _, c := range []struct{ lo, hi, from, to float64 }{{0, 10, 0, 10}, {1, 30, 0, 30}, {1, 6, 0, 6},
		{1, 3, 0.94, 3.06}, {2, 2, 0, 4}, {0, 0, 0, 1}} {
		if a := Positions(c.lo, c.hi); math.Abs(a.Lo-c.from) > 1e-9 || math.Abs(a.Hi-c.to) > 1e-9 {
			t.Errorf("positions from %g to %g: an axis from %g to %g", c.lo, c.hi, a.Lo, a.Hi)
		}
	}
}

// Vertical lines of one place stand beside each other, and the legend names each kind once.
func TestMarks(t *testing.T) {
	f := Figure{Series: []Series{{X: []float64{1, 9}, Y: []float64{1, 2}}}}
	f.Marks = []Mark{{Name: "a passes", X: 3, Color: 0}, {Name: "b passes", X: 3, Color: 1},
		{Name: "a passes", X: 9, Color: 0}, {Name: "b passes", X: 9, Color: 1}, {Name: "outside", X: 50, Color: 2}}
	svg := string(f.Draw().SVG())
	places := map[string]bool{}
	vertical := regexp.MustCompile(`points="(\S+),\d{3}\S* (\S+),\d\d(\.\d+)?" stroke="\S+" stroke-width="1.2"`)
	for _, m := range vertical.FindAllStringSubmatch(svg, -1) {
		if at, err := strconv.ParseFloat(m[1], 64); m[1] != m[2] || places[m[1]] || err != nil || at > 401 {
			t.Errorf("a vertical line from %s to %s", m[1], m[2])
		}
		places[m[1]] = true
	}
	if strings.Count(svg, ">a passes<") != 1 || strings.Count(svg, ">b passes<") != 1 || len(places) != 4 {
		t.Errorf("%d places: %s", len(places), svg)
	}
}

// No two names of columns lie on each other, however long they are, nor on the edge, below up to ten columns of names
// that are drawn at random.
func TestNamesOfColumns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		columns := []Column{{Name: "M-Recall"}}
		for range 1 + random.IntN(9) {
			columns = append(columns, Column{Name: strings.Repeat("model.", 1+random.IntN(5)) + "x (no effect)"})
		}
		d := Parallel("", columns, nil)
		ends := map[string]float64{} // of the names in a row
		for _, m := range anyText.FindAllStringSubmatch(string(d.SVG()), -1) {
			x, width := try.Get(strconv.ParseFloat(m[1], 64))(t), try.Get(strconv.ParseFloat(m[4], 64))(t)
			if x-width/2 < ends[m[2]] || x+width/2 > d.width {
				t.Errorf("%q stands at %g to %g of %g, behind one that ends at %g", m[8], x-width/2, x+width/2, d.width,
					ends[m[2]])
			}
			ends[m[2]] = x + width/2
		}
	}
}

// Letters that the fonts lack, also those beyond 16 bits, are question marks; a minus is one.
func TestLettersOfPDF(t *testing.T) {
	d := New(200, 100, "Mass \U00010308 \u4e2d")
	d.Text(Point{20, 50}, Start, "\u2212\u03b1\u03c9\u0416\u20ac", Plain, Black)
	b := d.PDF()
	letters := ""
	for _, part := range bytes.Split(b, []byte("stream\n")) {
		if z, err := zlib.NewReader(bytes.NewReader(part)); err == nil {
			text, _ := io.ReadAll(z)
			if bytes.Contains(text, []byte("begincmap")) {
				letters += string(text)
			}
		}
	}
	for _, want := range []string{"<003f>", "<2212>", "<03b1>", "<03c9>", "<0416>", "<20ac>"} {
		if !strings.Contains(letters, "> "+want+"\n") {
			t.Errorf("%s is no letter of the file: %s", want, letters)
		}
	}
}

// A picture is written beside the earlier one and takes its place as a whole: a second name of the earlier one still
// holds that.
func TestPicturesAreReplacedWhole(t *testing.T) {
	for _, ending := range []string{".svg", ".PDF"} {
		dir := t.TempDir()
		path, earlier := filepath.Join(dir, "a"+ending), filepath.Join(dir, "earlier")
		try.Do(t, os.WriteFile(path, []byte("old"), 0o666))
		if err := os.Link(path, earlier); err != nil {
			t.Skipf("needs hard links: %v", err)
		}
		try.Do(t, figures()["parallel"].Save(path))
		if b, err := os.ReadFile(path); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
		if b, err := os.ReadFile(earlier); err != nil || string(b) != "old" {
			t.Errorf("%s was written over: %.20q, %v", path, b, err)
		}
	}
}

// Bars are as long as their values, as high as each other, and apart.
func TestBars(t *testing.T) {
	b := Bars{Width: 9, Groups: []string{"a", "b"}, Series: []Series{{X: []float64{1, 0.5}}, {X: []float64{0.25, 0}}},
		Label: Number}
	var lengths []float64
	bottom := 0.0
	for _, m := range regexp.MustCompile(`<polygon points="(\S+),(\S+) (\S+),\S+ \S+,(\S+) \S+" fill="#[^F]`).
		FindAllStringSubmatch(string(b.Draw().SVG()), -1)[2:] { // behind the legend
		var x [4]float64
		for i := range x {
			x[i], _ = strconv.ParseFloat(m[i+1], 64)
		}
		if x[1] <= bottom || math.Abs(x[3]-x[1]-13) > 0.02 {
			t.Errorf("a bar from %v to %v, below one that ends at %v", x[1], x[3], bottom)
		}
		lengths, bottom = append(lengths, x[2]-x[0]), x[3]
	}
	if len(lengths) != 4 || lengths[0] < 100 || math.Abs(lengths[1]-lengths[0]/4) > 0.02 ||
		math.Abs(lengths[2]-lengths[0]/2) > 0.02 || lengths[3] != 0 {
		t.Errorf("bars of the lengths %v", lengths)
	}
}
