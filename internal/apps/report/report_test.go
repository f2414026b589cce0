package report

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/run/config"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// The efficiency cases of analysis.json.
func TestGoldenEfficiency(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "analysis.json", &file)
	seen := 0
	for _, raw := range file.Cases {
		var c struct {
			Name  string
			Cases []struct {
				LMH      float64 `json:"epochs_lmh"`
				LSEH     float64 `json:"epochs_lseh"`
				Absolute float64
				Percent  float64
			}
			HistoryLMH  [][2]float64    `json:"history_lmh"`
			HistoryLSEH [][2]float64    `json:"history_lseh"`
			Expected    json.RawMessage `json:"expected"`
		}
		try.Do(t, json.Unmarshal(raw, &c))
		switch c.Name {
		case "difference":
			for _, d := range c.Cases {
				abs, pct := Efficiency{BaseEpochs: d.LMH, Epochs: d.LSEH, Reached: true}.Difference()
				golden.Close(t, c.Name, []float64{abs, pct}, []float64{d.Absolute, d.Percent}, golden.FP64)
				seen++
			}
		case "epochs_to_exceed":
			var want struct {
				Best     float64 `json:"best_lmh"`
				LMH      float64 `json:"epochs_lmh"`
				LSEH     float64 `json:"epochs_lseh"`
				Absolute float64
				Percent  float64
			}
			try.Do(t, json.Unmarshal(c.Expected, &want))
			e := Compare(points(c.HistoryLMH), points(c.HistoryLSEH), false)
			abs, pct := e.Difference()
			golden.Close(t, c.Name, []float64{e.BaseBest, e.BaseEpochs, e.Epochs, abs, pct},
				[]float64{want.Best, want.LMH, want.LSEH, want.Absolute, want.Percent}, golden.FP64)
			seen++
		}
	}
	if seen < 2 {
		t.Fatalf("analysis.json has %d efficiency cases, want the differences and epochs_to_exceed", seen)
	}
}

// Point is a validation.
type Point struct{ Epoch, MRecall float64 }

// wants reports the parts that a text lacks.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in\n%s", p, text)
		}
	}
}

// squeezed returns a table as text with single spaces.
func squeezed(table *Table) string { return strings.Join(strings.Fields(table.Text(nil)), " ") }

// setOf is the data set of some runs.
func setOf(runs ...*Run) *DataSet { return Collect(runs)[0] }

func points(h [][2]float64) *Log {
	var out []Point
	for _, p := range h {
		out = append(out, Point{p[0], p[1]})
	}
	return &newRun("a", "vsepp", "LMH1", 7, out...).Log
}

func TestOpenAndDraw(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	write := func(name, text string) {
		t.Helper()
		try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	try.Refuses(Open(dir))(t, "neither a run directory nor a folder of run directories")
	write("config.yaml", string(config.Marshal(&cfg)))
	write("metrics.jsonl", `{"kind":"train","step":10,"epoch":0.1,"loss":3}
{"kind":"val","step":20,"epoch":0.2,"m_recall":12.5}
{"kind":"val","step":40,"epoch":0.4,"m_recall":20}
{"kind":"val","st`) // half-written by a running run
	r := try.Get(Open(dir))(t)
	if h := r.Validations; len(h) != 2 || h[1].Epoch != 0.4 || h[1].MRecall != 20 || len(r.Steps) != 1 {
		t.Fatalf("history %v, %d steps", h, len(r.Steps))
	}
	d := setOf(r)
	out := filepath.Join(dir, "curves.svg")
	try.Do(t, d.Curves(nil)[0].Draw().Save(out))
	b, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(b), "<svg") || !strings.Contains(string(b), "LMH α=0.2") {
		t.Errorf("curves: %v, %d bytes", err, len(b))
	}
	try.Fails(t, d.Curves(nil)[0].Draw().Save(filepath.Join(dir, "curves.gif")), "expected .svg or .pdf")
	for text, want := range map[string]string{
		"{\n{\"kind\":\"val\"}\n":                      "metrics.jsonl:1: expected a JSON object",
		"{\"kind\":\"val\",\"m_recall\":3}\n\n{}\n":    "metrics.jsonl:2: expected a JSON object",
		"{\"kind\":\"val\",\"m_recall\":300}\n":        "metrics.jsonl:1: m_recall 300; expected 0 to 100",
		"{\"kind\":\"val\",\"epoch\":\"x\"}\n":         "metrics.jsonl:1: expected a JSON object",
		"{\"kind\":\"train\",\"epoch\":-1}\n":          "metrics.jsonl:1: epoch -1",
		"{\"kind\":\"train\",\"hard_images\":\"a\"}\n": "metrics.jsonl:1: json",
		"{\"kind\":\"test\"}\n":                        `metrics.jsonl:1: kind "test"; expected "train" or "val"`,
	} {
		write("metrics.jsonl", text)
		try.Refuses(Open(dir))(t, want)
	}
}

// Of losses and seeds that are drawn at random, every curve differs from all others without its colour: in its dashes
// or its markers. Losses that warm up at one epoch share a line there.
func TestCurvesWithoutColours(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 3))
	for range 40 {
		var runs []*Run
		for l, losses := 0, 1+random.IntN(5); l < losses; l++ {
			for seed := range 1 + random.IntN(4) {
				r := newRun("w", models.VSEPP, "LMH1", uint64(7+seed), Point{1, 12}, Point{2, 14})
				r.Label, r.Config.Loss.Margin, r.Config.Loss.WarmupEpochs = "", 0.1+float64(l)/100, 1+l%2
				runs = append(runs, r)
			}
		}
		d := setOf(runs...)
		f := d.Curves(nil)[0]
		looks, curves := map[string]bool{}, 0
		for _, s := range f.Series {
			looks[fmt.Sprint(chart.Dashes(s.Color), s.Marker)], curves = true, curves+1
			if s.Style != chart.Marked || len(f.Markers) > 0 && f.Markers[s.Marker] == "" {
				t.Errorf("%+v", s)
			}
		}
		if len(looks) != curves {
			t.Errorf("%d curves have %d looks", curves, len(looks))
		}
		at := map[float64]int{}
		for _, m := range f.Marks {
			if at[m.X]++; at[m.X] > 1 || !strings.HasSuffix(m.Name, "warm-up ends") {
				t.Errorf("marks %+v", f.Marks)
			}
		}
		if text := numbers(f).CSV(); strings.Contains(text, "seed 7") != (len(f.Markers) > 0) {
			t.Errorf("seeds in the numbers:\n%s", text)
		}
	}
}
