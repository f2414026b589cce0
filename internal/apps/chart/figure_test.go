package chart

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/house/try"
)

// figures are one of each kind.
func figures() map[string]*Drawing {
	columns := []Column{{Name: "loss.name", Labels: []string{"lmh", "lseh"}, At: []float64{0.2, 0.8}},
		{Name: "optim.lr", Labels: []string{"0.0001", "0.000316"}, At: []float64{0, 1}},
		{Name: "M-Recall", Labels: []string{"20.0", "a label that is long"}, At: []float64{0, 1}}}
	tracks := []Track{{At: []float64{0.2, 0, 1}, Value: 40}, {At: []float64{0.8, math.NaN(), 0}, Value: 20}}
	f := Figure{Title: "Curves", X: "epoch", Y: "M-Recall on dev", Marks: []Mark{{X: 9}}}
	for i := range 3 {
		f.Series = append(f.Series, Series{Name: fmt.Sprintf("loss <%d> α", i), Color: i, Style: Dotted,
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
	if w := heading.Width("W±"); math.Abs(w-11*1.5) > 1e-9 {
		t.Errorf("the width of a heading is %g", w)
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
	if _, legend, _ := strings.Cut(svg, "stroke-dasharray=\"3 4\""); strings.Count(legend, Hex(white)) != 1 {
		t.Errorf("the legend covers no lines: %.600s", legend)
	}
	if strings.Contains(page, "#") || strings.Count(page, `fill="var(--ground)"`) != 1 ||
		!strings.Contains(page, `stroke="var(--s2)"`) || !strings.Contains(page, `aria-label="Curves"`) {
		t.Errorf("the colours of a page:\n%.600s", page)
	}
}

// Each object of a PDF begins where its table says. Greek letters have a font of their own.
func TestPDF(t *testing.T) {
	for name, d := range figures() {
		b := d.PDF()
		for i, m := range regexp.MustCompile(`(?m)^(\d{10}) 00000 n `).FindAllSubmatch(b, -1) {
			at, err := strconv.Atoi(string(m[1]))
			if err != nil || !bytes.HasPrefix(b[at:], fmt.Appendf(nil, "%d 0 obj", i+1)) {
				t.Errorf("%s: object %d is not at %s", name, i+1, m[1])
			}
		}
		_, stream, _ := bytes.Cut(b, []byte("stream\n"))
		z := try.Get(zlib.NewReader(bytes.NewReader(stream)))(t)
		text, err := io.ReadAll(z)
		if err != nil || name == "curves" && !bytes.Contains(text, []byte("/F2 9 Tf <61> Tj")) {
			t.Errorf("%s: %v\n%.600s", name, err, text)
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
