package report

import (
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/apps/chart"
)

var (
	anyText  = regexp.MustCompile(`(?s)(<g transform="rotate\(90\)">\s*)?<text ([^>]*)>([^<]*)</text>`)
	textSize = regexp.MustCompile(`textLength="([0-9.]+)".* x="([-0-9.]+)"`)
	viewBox  = regexp.MustCompile(`viewBox="0 0 ([0-9.]+) ([0-9.]+)"`)
)

// All kinds of plots have one font and the colours of the chart package, round numbers on their axes, and no text that
// the edge cuts off, whatever font its reader has.
func TestOneStyle(t *testing.T) {
	dir := t.TempDir()
	columns := []Column{{Name: "loss.name", Labels: []string{"lmh", "lseh"}, At: []float64{0.2, 0.8}},
		{Name: "optim.lr", Labels: []string{"0.0001", "0.000316"}, At: []float64{0, 1}},
		{Name: "M-Recall", Labels: []string{"20.0", "a label that is long"}, At: []float64{0, 1}}}
	tracks := []Track{{At: []float64{0.2, 0, 1}, Value: 40}, {At: []float64{0.8, 1, 0}, Value: 20}}
	f := Figure{Title: "Curves", X: "epoch", Y: "M-Recall on dev", Marks: []Mark{{X: 9}}}
	for i := range 3 {
		f.Series = append(f.Series, Series{Name: "loss <" + strconv.Itoa(i) + ">", Color: i, X: []float64{1, 18},
			Y: []float64{7.98, 39.2}})
	}
	for name, draw := range map[string]func(path string) error{
		"parallel.svg": func(path string) error { return Parallel(path, "two points", columns, tracks) },
		"importance.svg": func(path string) error {
			return Bars(path, "effects", "share", []string{"model.vseinf.size_augment", "optim.lr"}, []float64{1, 0.5})
		},
		"curves.svg": f.Save,
	} {
		path := filepath.Join(dir, name)
		if err := draw(path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		svg := string(b)
		box := viewBox.FindStringSubmatch(svg)
		number := func(s string) float64 {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return v
		}
		if w := number(box[1]); name == "importance.svg" && w > 260 {
			t.Errorf("%s is %.0f points wide, a telephone has room for 260", name, w)
		}
		texts := anyText.FindAllStringSubmatch(svg, -1)
		if len(texts) < 6 || len(texts) != strings.Count(svg, "font-family:"+chart.Family+";") {
			t.Errorf("%s: %d texts, %d of them in %s", name, len(texts), strings.Count(svg, chart.Family), chart.Family)
		}
		for _, m := range texts {
			size := textSize.FindStringSubmatch(m[2])
			if size == nil {
				t.Fatalf("%s: %q has no width", name, m[3])
			}
			width, most := number(size[1]), number(box[1])
			if m[1] != "" {
				most = number(box[2])
			}
			x := number(size[2])
			if slices.Contains([]string{"two points", "effects", "Curves"}, m[3]) && x > 10 {
				t.Errorf("%s: the title begins at %.1f, out of sight of a narrow page", name, x)
			}
			if x < 1 || x+width > most-1 {
				t.Errorf("%s: %q stands at %.1f to %.1f of %.1f", name, m[3], x, x+width, most)
			}
		}
		if name == "curves.svg" {
			for _, want := range []string{">5<", ">15<", ">40<", chart.Hex(chart.Colour(0)), chart.Hex(chart.Colour(2)),
				">loss &lt;1&gt;<"} {
				if !strings.Contains(svg, want) {
					t.Errorf("%s lacks %s", name, want)
				}
			}
			// Behind the marks each entry of the legend has a white ground.
			white := "fill:" + chart.Hex(color.RGBA{R: 255, G: 255, B: 255})
			if _, legend, _ := strings.Cut(svg, "stroke-dasharray:3"); strings.Count(legend, white) != 3 {
				t.Errorf("the legend covers no lines: %.600s", legend)
			}
			page, err := f.Inline()
			if err != nil || strings.Contains(page, white) ||
				strings.Count(page, "fill:var(--ground)") != 3 || !strings.Contains(page, "stroke:var(--s2)") ||
				strings.Contains(page, chart.Hex(chart.Colour(0))) {
				t.Errorf("the colours of a page: %v\n%.600s", err, page)
			}
		}
	}
}
