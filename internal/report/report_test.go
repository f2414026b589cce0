package report

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/config"
	"vsetrain/internal/golden"
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
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
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
			if err := json.Unmarshal(c.Expected, &want); err != nil {
				t.Fatal(err)
			}
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

func points(h [][2]float64) []Point {
	var out []Point
	for _, p := range h {
		out = append(out, Point{p[0], p[1]})
	}
	return out
}

func TestNotReached(t *testing.T) {
	e := Compare([]Point{{1, 10}, {2, 20}}, []Point{{1, 20}}, false)
	if abs, _ := e.Difference(); e.Reached || !math.IsNaN(abs) {
		t.Errorf("a run that only equals the best counts as exceeding it: %+v", e)
	}
	if e := Compare([]Point{{1, 10}, {2, 20}}, []Point{{1, 20}}, true); !e.Reached || e.Epochs != 1 {
		t.Errorf("or-equal: %+v", e)
	}
}

func TestOpenAndDraw(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a run directory") {
		t.Errorf("an empty folder: %v", err)
	}
	write("config.yaml", string(config.Marshal(&cfg)))
	write("metrics.jsonl", `{"kind":"train","step":10,"epoch":0.1,"loss":3}
{"kind":"val","step":20,"epoch":0.2,"m_recall":12.5}
{"kind":"val","step":40,"epoch":0.4,"m_recall":20}
{"kind":"val","st`) // half-written by a running run
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if h := r.History(); len(h) != 2 || h[1] != (Point{0.4, 20}) || len(r.Steps) != 1 {
		t.Fatalf("history %v, %d steps", h, len(r.Steps))
	}
	out := filepath.Join(dir, "curves.svg")
	if err := Curves(out, []*Run{r, r}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(b), "<svg") || strings.Count(string(b), "<path") < 4 {
		t.Errorf("curves: %v, %d bytes", err, len(b))
	}
	write("metrics.jsonl", "{\n{\"kind\":\"val\"}\n")
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "metrics.jsonl:1:") {
		t.Errorf("a broken line before the last: %v", err)
	}
}
