package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/analysis"
	"vsetrain/internal/run/bench"
	"vsetrain/internal/run/records"
	"vsetrain/lab/try"
	"vsetrain/models"
)

func TestFormats(t *testing.T) {
	table := &Table{Name: "small", Title: "50 % & more", Notes: []string{"a_b"},
		Heads: []Head{{Name: "loss"}, {"To", "R@1", true}, {"To", "R@5", true}},
		Rows: []Row{{Rule: true, Cells: []Cell{textCell("a|b"), numberCell(-1.25, 1), spreadCell(2, 0.5, 1)}},
			{Rule: true, Bold: true, Cells: []Cell{textCell("c,d"), textCell("-"), numberCell(1.0/3, 1)}}}}
	for name, c := range map[string]struct{ got, want string }{
		"text": {table.Text(nil), "50 % & more\n            To\nloss   R@1        R@5\na|b   -1.2  2.0 ± " +
			"0.5\nc,d      -        0.3\n  a_b\n"},
		"markdown": {table.Markdown(), "### 50 % & more\n\n| loss | To R@1 | To R@5 |\n|---|---:|---:|\n| a\\|b | " +
			"-1.2 | 2.0 ± 0.5 |\n| **c,d** | **-** | **0.3** |\n\na\\_b\n"},
		"csv": {table.CSV(), "loss,To R@1,To R@5,To R@5 std\na|b,-1.25,2,0.5\n\"c,d\",-,0.3333333333333333,\n"},
		"latex": {table.LaTeX(), "\\begin{table}\n\\centering\n\\caption{50 \\% \\& more. " +
			"a\\_b}\n\\label{tab:small}\n\\begin{tabular}{lrr}\n\\toprule\n" +
			" & \\multicolumn{2}{c}{To} \\\\\n\\cmidrule(lr){2-3}\nloss & R@1 & R@5 \\\\\n\\midrule\na|b & $-$1.2 & " +
			"2.0 $\\pm$ 0.5 \\\\\n\\midrule\n" +
			"\\textbf{c,d} & \\textbf{-} & \\textbf{0.3} \\\\\n\\bottomrule\n\\end{tabular}\n\\end{table}\n"},
	} {
		if name == "text" { // how a heading stands over its columns is not the point
			re := regexp.MustCompile(`(?m)^ +To$`)
			c.got, c.want = re.ReplaceAllString(c.got, "To"), re.ReplaceAllString(c.want, "To")
		}
		if c.got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, c.got, c.want)
		}
	}
}

// A hostile name does no harm in the page; the page needs nothing from outside and no script.
func TestPage(t *testing.T) {
	const hostile = `<script>alert("1")</script>&'`
	base := newRun("data/a", models.VSEPP, "LMH1", 7, Point{1, 10}, Point{2, 20})
	base.Label, base.Name = hostile, hostile
	for i := range 40 {
		active := i
		base.Steps = append(base.Steps, records.StepRecord{Epoch: float64(i) / 20, HardCaptions: 30 + i,
			HardImages: 20, ActiveCaptions: &active, ActiveImages: &active})
	}
	h := &analysis.Hardest{Split: "train", Caption: hostile, Line: 3, ImageID: hostile,
		Lists: []analysis.HardestList{{Run: "x",
			Negatives: []analysis.Negative{{ImageID: hostile, Semantic: math.NaN()}}}}}
	sets := Collect([]*Run{base, newRun("data/a", models.VSEPP, "LSEH", 7, Point{1, 15}, Point{2, 25})})
	r := try.Get(Build(sets, Options{Hardest: map[*DataSet][]*analysis.Hardest{sets[0]: {h}},
		Pictures: try.Get(OpenPictures(t.TempDir()))(t)}))(t)
	var b bytes.Buffer
	try.Do(t, r.HTML(&b, time.Unix(0, 0)))
	page := b.String()
	for _, bad := range []string{"<script", "<link", "@import", "url(", "#000000", "fill:#FFFFFF"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	outside := regexp.MustCompile(`(src|href)="[^#"][^"]*`).FindAllString(page, -1)
	if len(outside) > 0 {
		t.Errorf("the page points outside: %q", outside)
	}
	// one curve, and #DesEmbs, #ImEmbs in two ways
	if n := strings.Count(page, "<svg"); n != 5 || !strings.Contains(page, "&lt;script&gt;") {
		t.Errorf("%d figures", n)
	}
	if n := strings.Count(page, `tabindex="0" role="group" aria-label="figure"><svg`); n != 5 {
		t.Errorf("the keyboard scrolls %d figures", n)
	}
	dir := t.TempDir()
	mine := filepath.Join(dir, "tables.md")
	try.Do(t, os.WriteFile(mine, []byte("mine"), 0o666))
	try.Refuses(r.Write(dir, time.Unix(0, 0)))(t, "tables.md is there", "--record")
	if b := try.Get(os.ReadFile(mine))(t); string(b) != "mine" || len(try.Get(os.ReadDir(dir))(t)) != 1 {
		t.Errorf("a file of the user's is %q", b)
	}
	try.Do(t, os.Remove(mine))
	try.Get(r.Write(dir, time.Unix(0, 0)))(t)
	n := try.Get(r.Write(dir, time.Unix(0, 0)))(t) // over the earlier report
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != n+1 { // the manifest
		t.Errorf("%d files, %d written, %v", len(files), n, err)
	}
	csv, err := os.ReadFile(filepath.Join(dir, "curves-vsepp.csv"))
	if err != nil || !strings.Contains(string(csv), "LSEH,2,25\n") {
		t.Errorf("curves: %v\n%s", err, csv)
	}
	pdf, err := os.ReadFile(filepath.Join(dir, "curves-vsepp.pdf"))
	if err != nil || !bytes.HasPrefix(pdf, []byte("%PDF")) {
		t.Errorf("curves: %v", err)
	}
	if m := regexp.MustCompile(`<svg role="img" viewBox|<th[^>]*></th>|<div class="table">`).FindString(page); m != "" {
		t.Errorf("the page has %s: a picture or a head without a name, or a table out of the keyboard's reach", m)
	}
}

// Older runs counted the violated negatives only.
func TestNegativeFigures(t *testing.T) {
	old := newRun("a", models.VSEPP, "LMH1", 7)
	for i := range 20 {
		old.Steps = append(old.Steps, records.StepRecord{Epoch: float64(i) / 4, HardCaptions: min(i, 10),
			HardImages: 5})
	}
	figures, peaks := setOf(old).negativeFigures()
	if len(figures) != 2 || !strings.Contains(figures[0].Title, "violated only") ||
		!strings.Contains(figures[0].Caption, "older version") {
		t.Fatalf("%+v", figures)
	}
	if c := peaks.Rows[0].Cells; c[5].Value != 10 || c[6].Value != 3.5 {
		t.Errorf("peak %+v", c)
	}
	if got := movingAverage([]float64{1, 3, 5, 7}, 2); got[0] != 1 || got[1] != 2 || got[3] != 6 {
		t.Errorf("moving average %v", got)
	}
}

// The share of false hard negatives is drawn where it was logged, and nowhere else.
func TestFalseNegativeFigure(t *testing.T) {
	r := newRun("a", models.VSEPP, "LSEH", 7)
	for i := range 20 {
		share := float64(i)
		r.Steps = append(r.Steps, records.StepRecord{Epoch: float64(i) / 4, HardCaptions: 9, HardImages: 9,
			HardFalse: &share, AllFalse: &share})
	}
	figures, _ := setOf(r).negativeFigures()
	f := figures[len(figures)-1]
	if len(figures) != 3 || f.Title != "False hard negatives, %: VSE++ on a" ||
		!strings.Contains(f.Caption, "at least 0.5") {
		t.Fatalf("%d figures, the last %q: %s", len(figures), f.Title, f.Caption)
	}
	if y := f.Series[0].Y; len(y) != 20 || y[0] != 0 || y[19] != 17 { // means of five
		t.Errorf("%v", y)
	}
}

func TestFitLine(t *testing.T) {
	f, ok := fitLine([]float64{1, 2, 3, 4}, []float64{141.4, 289.2, 437, 584.8}) // T(n) = 147.8 n - 6.4
	if !ok || math.Abs(f.slope-147.8) > 1e-9 || math.Abs(f.intercept+6.4) > 1e-9 || math.Abs(f.r2-1) > 1e-12 {
		t.Errorf("%+v", f)
	}
	f, _ = fitLine([]float64{1, 2, 3}, []float64{1, 3, 2})
	if math.Abs(f.slope-0.5) > 1e-12 || math.Abs(f.r2-0.25) > 1e-12 {
		t.Errorf("%+v", f)
	}
	if _, ok := fitLine([]float64{2, 2}, []float64{1, 3}); ok {
		t.Error("a line through points above each other")
	}
}

func TestOpenTiming(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times.json")
	for text, want := range map[string]string{
		`{`:              "not a file of 'vsetrain bench --samples'",
		`{"protocol":1}`: "unknown field",
		`{"batch":1}`:    "no measurement",
		`{"points":[{"loss":"lmh","subset":1,"images":5,"seconds":0}]}`: "point 1 (lmh, subset 1): 0 seconds",
	} {
		try.Do(t, os.WriteFile(path, []byte(text), 0o644))
		try.Refuses(OpenTiming(path))(t, want)
	}
}

func TestPictures(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 300, 150))
	for i := range img.Pix {
		img.Pix[i] = []byte{200, 200, 200, 255}[i%4]
	}
	c := try.Get(drawn("7", "", img))(t)
	b := string(c.PNG)
	dir := try.Files(t, map[string]string{"pictures/7.png": b, "secret.png": b, "pictures/broken.jpg": "no picture"})
	p := try.Get(OpenPictures(filepath.Join(dir, "pictures")))(t)
	if c, _, err := p.card("../secret", 100); c.Data != "" || err != nil {
		t.Errorf("a picture outside of the folder: %d bytes, %v", len(c.Data), err)
	}
	try.Refuses(p.Missing())(t, "none of the 1 pictures")
	c, picture, err := p.card("7", 100)
	if err != nil || !strings.HasPrefix(c.Data, "data:image/jpeg;base64,") || picture.Width != 300 {
		t.Errorf("%.40s, %v", c.Data, err)
	}
	if w, err := p.Missing(); err != nil || !strings.Contains(w, "lacks 1 of the pictures") {
		t.Errorf("one missing: %q, %v", w, err)
	}
	if _, _, err := p.card("broken", 100); err == nil || !strings.Contains(err.Error(), "broken.jpg: expected a JPEG") {
		t.Errorf("a broken picture: %v", err)
	}
	small := scale(picture, 30, 15)
	if c := small.RGBAAt(29, 14); small.Bounds().Dx() != 30 || c.R != 200 || c.A != 255 {
		t.Errorf("scaled: %v, %v", small.Bounds(), c)
	}
}

// The heat is where the boxes are, over the picture if there is one.
func TestHeat(t *testing.T) {
	a := &analysis.Attention{Width: 400, Height: 200, Boxes: [][4]float64{{0, 0, 0.5, 1}, {0.5, 0, 1, 0.5}},
		Scores: []float64{200, 50}}
	img := heat(a, nil)
	b := img.Bounds()
	if b.Dx() != heatSide || b.Dy() != heatSide/2 {
		t.Fatalf("size %v", b)
	}
	light := func(x, y int) int {
		r, g, b, _ := img.At(x, y).RGBA()
		return int(r + g + b)
	}
	if !(light(10, 10) > light(heatSide-10, 10) && light(heatSide-10, 10) > light(heatSide-10, b.Dy()-10)) {
		t.Errorf("light %d, %d, %d", light(10, 10), light(heatSide-10, 10), light(heatSide-10, b.Dy()-10))
	}
}

// The lines of computation time are the times of the points, by loss.
func TestTiming(t *testing.T) {
	r := &bench.SamplesReport{Network: "vseinf", StepImages: 100}
	for n := 1; n <= 4; n++ {
		r.Points = append(r.Points, bench.SamplesPoint{Loss: "lmh", Subset: n, Images: 100 * n,
			Seconds: 2*float64(n) + 1, LossSeconds: 0.001 * float64(n)},
			bench.SamplesPoint{Loss: "luwm", Subset: n, Images: 100 * n, Seconds: 5 * float64(n),
				LossSeconds: 0.004 * float64(n)})
	}
	figures, table := Timing(r)
	text := table.Text(nil)
	wants(t, text, "LMH                     9.000    2.000        1.000  1.0000               4.000   "+
		"  1.000", "LUWM                   20.000    5.000", "first 100·n images")
	if len(figures) != 2 || len(figures[0].Series) != 4 || figures[0].Series[1].Y[1] != 9 {
		t.Errorf("%+v", figures)
	}
}

// Each word of a caption has a map, where a place shows the largest weight of the boxes that cover it, in whatever
// order they are stored; those at start and end have none.
func TestWordGallery(t *testing.T) {
	one := analysis.Attention{ImageID: "7", Width: 400, Height: 200,
		Boxes: [][4]float64{{0, 0, 1, 0.5}, {0, 0, 0.5, 1}}}
	a := &analysis.WordAttention{Checkpoint: "runs/saf", ImageID: "7", Text: "a dog", Score: 0.5, AttendsWords: true}
	for i, w := range []string{"<start>", "a", "dog", "<end>"} {
		m := analysis.WordMap{Word: w, Attention: one}
		m.Scores = []float64{1 - 0.25*float64(i), 0.25 * float64(i)}
		a.Words = append(a.Words, m)
	}
	g := try.Get(wordGallery([]*analysis.WordAttention{a}, nil))(t)
	row := g.Rows[0]
	if len(row.Cards) != 2 || row.Cards[0].Lines[0] != "a" || row.Cards[0].Lines[1] != "0.75, 0.25" ||
		row.Cards[1].File != "words-1-7-02-dog" || row.Label != "runs/saf: “a dog”, image 7, score 0.500" {
		t.Fatalf("%+v", row)
	}
	if !strings.Contains(g.Note, "regions attend to words") || !strings.Contains(g.Note, "cells of a grid") {
		t.Errorf("%q", g.Note)
	}
	img := try.Get(png.Decode(bytes.NewReader(row.Cards[0].PNG)))(t)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	gray := func(v float64) color.RGBA { g := uint8(255*(1-v) + 0.5); return color.RGBA{g, g, g, 255} }
	third := gray(analysis.MostVeil * (1 - 0.25/0.75))
	for _, c := range []struct {
		x, y int
		want color.RGBA
	}{{30, 30, gray(0)}, {200, 30, gray(0)}, {30, 100, third}, {200, 100, gray(analysis.MostVeil)},
		{239, 30, chart.Marker}, {1, 117, chart.Marker}} {
		if got := at(c.x, c.y); got != c.want {
			t.Errorf("%d, %d: %v, expected %v", c.x, c.y, got, c.want)
		}
	}
	if b := img.Bounds(); b.Dx() != 240 || b.Dy() != 120 {
		t.Errorf("%v", b)
	}
	picture := &pictures.RGB{Width: 8, Height: 4, Pix: bytes.Repeat([]byte{200, 100, 0}, 32)}
	over := veiled(&a.Words[1], picture, 240)
	if c := over.RGBAAt(30, 30); c != (color.RGBA{200, 100, 0, 255}) {
		t.Errorf("what is most attended has the colour %v", c)
	}
	if c := over.RGBAAt(200, 100); c.R < 38 || c.R > 42 || c.G < 18 || c.G > 22 {
		t.Errorf("what is in no box has the colour %v", c)
	}
}
