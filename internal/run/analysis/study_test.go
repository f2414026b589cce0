package analysis

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/golden"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// analysisCases calls visit for the cases of analysis.json whose name begins with a word.
func analysisCases(t *testing.T, word string, visit func(name string, raw json.RawMessage)) {
	t.Helper()
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "analysis.json", &file)
	seen := 0
	for _, raw := range file.Cases {
		var c struct{ Name string }
		try.Do(t, json.Unmarshal(raw, &c))
		if strings.HasPrefix(c.Name, word) {
			visit(c.Name, raw)
			seen++
		}
	}
	if seen == 0 {
		t.Fatalf("analysis.json has no case %s", word)
	}
}

func flat(rows [][]float64) (out []float64) {
	for _, r := range rows {
		out = append(out, r...)
	}
	return out
}

func TestGoldenTopNegatives(t *testing.T) {
	analysisCases(t, "top_negatives", func(name string, raw json.RawMessage) {
		var c struct {
			Column   int `json:"caption_column"`
			Scores   [][]float64
			Margins  [][]float64 `json:"margin_matrix"`
			Expected struct {
				Hinges []float64 `json:"hinge_values"`
				Order  []int
			}
		}
		try.Do(t, json.Unmarshal(raw, &c))
		order, hinges := topNegatives(flat(c.Scores), flat(c.Margins), len(c.Scores), c.Column)
		golden.Close(t, name, hinges, c.Expected.Hinges, golden.FP64)
		if !slices.Equal(order, c.Expected.Order) {
			t.Errorf("%s: order %v, want %v", name, order, c.Expected.Order)
		}
	})
}

func TestGoldenAttention(t *testing.T) {
	analysisCases(t, "vsrn_attention_map", func(name string, raw json.RawMessage) {
		var c struct {
			Features      [][]float64 `json:"region_features"`
			Embedding     []float64   `json:"image_embedding"`
			Boxes         [][4]float64
			Width, Height int
			Expected      struct {
				Correlation []float64
				Order       []int
				Scores      []float64
				Rows        [][]float64 `json:"map_rows"`
			}
		}
		try.Do(t, json.Unmarshal(raw, &c))
		correlation := correlate(flat(c.Features), c.Embedding)
		golden.Close(t, name+" correlation", correlation, c.Expected.Correlation, golden.FP64)
		order, scores := attentionScores(correlation, attentionLambda)
		golden.Close(t, name+" scores", scores, c.Expected.Scores, golden.FP64)
		if !slices.Equal(order, c.Expected.Order) {
			t.Errorf("%s: order %v, want %v", name, order, c.Expected.Order)
		}
		golden.Close(t, name+" map", attentionMap(scores, c.Boxes, c.Width, c.Height), flat(c.Expected.Rows),
			golden.FP64)
	})
}

func oneThread() device.Options { return device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"} }

// A trained VSRN looks at its regions: the map has its light where the best regions are.
func TestAttend(t *testing.T) {
	c := runtest.TinyConfig()
	c.Model.Network, c.Model.VSRN.Caption, c.Train.Epochs = models.VSRN, false, 1
	run := runtest.Train(t, c)
	r := pretrained.AnalysisRequest{Split: "test", Device: oneThread()}
	l, err := r.Load(run, true)
	try.Do(t, err)
	id := l.Split.ImageID(3)
	l.Close()
	maps := try.Get(Attend(t.Context(), r, run, []string{id}))(t)
	a := maps[0]
	if a.ImageID != id || a.Image != 3 || len(a.Correlation) != 3 || a.Width < 1 ||
		a.Correlation[0] == a.Correlation[1] {
		t.Fatalf("%+v", a)
	}
	best := 0
	for i, v := range a.Correlation {
		if v > a.Correlation[best] {
			best = i
		}
	}
	if a.Scores[best] != attentionLambda*9 {
		t.Errorf("scores %v of %v", a.Scores, a.Correlation)
	}
	const w, h = 40, 30
	m := a.Map(w, h)
	x, y := int(w*(a.Boxes[best][0]+a.Boxes[best][2])/2), int(h*(a.Boxes[best][1]+a.Boxes[best][3])/2)
	if slices.Max(m) != 1 || m[y*w+x] == 0 {
		t.Errorf("the map is %v in the middle of the best region and %v at most", m[y*w+x], slices.Max(m))
	}
	try.Refuses(Attend(t.Context(), r, run, []string{"../../etc/passwd"}))(t, "no image with the id", id[:1])
	c = runtest.TinyConfig()
	c.Train.Epochs = 1
	_, err = Attend(t.Context(), r, runtest.Train(t, c), []string{id})
	try.Fails(t, err, "network vsepp has no features of regions")
}

// The hardest negatives of a caption under two losses: the same caption and batch, hinges that follow from what is
// listed.
func TestHardest(t *testing.T) {
	lseh := runtest.TinyConfig()
	lseh.Train.Epochs = 1
	lmh := *lseh
	lmh.Loss.Name, lmh.Loss.Margin = loss.LMH, 0.2
	gsmn := *lseh
	gsmn.Model.Network, gsmn.Model.TextEncoder = models.GSMN, "bigru"
	r := HardestRequest{AnalysisRequest: pretrained.AnalysisRequest{Split: "train", Device: oneThread()}, Top: 4}
	for _, c := range []*config.Config{&lmh, lseh, &gsmn} {
		r.Runs = append(r.Runs, runtest.Train(t, c))
	}
	h := try.Get(HardestNegatives(t.Context(), r))(t)
	if h.Batch != 16 || h.Line < 1 || h.Caption == "" || len(h.Lists) != 3 {
		t.Fatalf("%+v", h)
	}
	for k, l := range h.Lists {
		if len(l.Negatives) != 4 {
			t.Fatalf("%d negatives", len(l.Negatives))
		}
		for i, n := range l.Negatives {
			if n.ImageID == h.ImageID || i > 0 && n.Hinge > l.Negatives[i-1].Hinge ||
				math.Abs(n.Margin+n.Similarity-l.Match-n.Hinge) > 1e-6 {
				t.Errorf("run %d, negative %d of image %s with match %v: %+v", k, i, h.ImageID, l.Match, n)
			}
			want := 0.2
			if k > 0 {
				want = lseh.Loss.Margin + lseh.Loss.LSEH.Lambda*n.Semantic
			}
			if math.Abs(n.Margin-want) > 1e-6 {
				t.Errorf("run %d: margin %v, want %v", k, n.Margin, want)
			}
		}
	}
	r.Runs, r.Query = r.Runs[:2], h.Line
	again, err := HardestNegatives(t.Context(), r)
	if err != nil || again.Caption != h.Caption || again.Lists[0].Negatives[0] != h.Lists[0].Negatives[0] {
		t.Errorf("asked for line %d: %+v, %v", h.Line, again, err)
	}
	r.Query = 1000
	try.Refuses(HardestNegatives(t.Context(), r))(t, "line 1000", "200 captions")
	r.Query, r.Split = 0, "test"
	try.Refuses(HardestNegatives(t.Context(), r))(t, "semantic vectors of split test", "precompute-svd")
}
