package loss

import (
	"encoding/json"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/stats"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// remembering is a loss with its memory over the scores of one step after the other.
type remembering struct {
	t       *testing.T
	options Options
	memory  Memory
	draws   map[string][]float64 // in place of what the memory draws
}

// step feeds the memory, runs the loss, and lets the memory take what it computed. It returns the values that the
// memory took, the loss and the gradient.
func (r *remembering) step(b *Batch, scores [][]float64, images []int32) (values []float64, loss float64,
	gradient []float64) {
	r.t.Helper()
	if images == nil {
		images = make([]int32, b.N)
	}
	e := evaluatorOf(r.t, &r.options, b.N, b.WarmUp, images, nil)
	try.Do(r.t, r.memory.Feed(e.s, b))
	for name, u := range r.draws {
		try.Do(r.t, e.s.FeedDoubles(name, u))
	}
	loss, gradient = e.at(r.t, flat(scores))
	values = doubles(e.p, e.remembered)
	r.memory.Take(b, values)
	return values, loss, gradient
}

// stateCase is a golden case of a loss with a memory, of state S, over steps.
type stateCase[S any] struct {
	Config struct {
		Tau, Alpha float64
		WarmEpochs int  `json:"warm_epochs"`
		Correction bool `json:"momentum_correction"`
		Batch      int  `json:"batch_size"`
	}
	Inputs struct {
		State   S
		Steps   []stepCase[S]
		Batches [][][]float64
		Losses  []float64
	}
	Expected struct {
		Steps []stepCase[S]
		After []struct{ State S }

		Weights, Means, Variances, Probability, Clean []float64
		Rounds                                        int
		Threshold                                     float64
	}
}

// stepCase holds the inputs of a step, or what is expected of it.
type stepCase[S any] struct {
	IDs              []int32
	ImageIDs         []int32 `json:"image_ids"`
	Epoch, Iteration int
	Schedule         int
	Step             int64
	WarmUp           bool `json:"warm_up"`
	Scores           [][]float64
	Clean            []float64
	URows            []float64 `json:"u_rows"`
	UColumns         []float64 `json:"u_columns"`

	Loss       float64
	Grad       [][]float64 `json:"grad_scores"`
	StateAfter S           `json:"state_after"`
	Labels     []float64
	Match      []float64 `json:"match_probability"`
	Hinges     int       `json:"hard_negatives"`
	Predicted  []float64 `json:"predicted_clean"`
}

// check takes a step and compares loss and gradient. It returns the values that the memory took.
func (want *stepCase[S]) check(r *remembering, b *Batch, s *stepCase[S]) []float64 {
	r.t.Helper()
	values, loss, gradient := r.step(b, s.Scores, s.ImageIDs)
	golden.Close(r.t, "loss", []float64{loss}, []float64{want.Loss}, golden.FP64)
	golden.Close(r.t, "gradient", gradient, flat(want.Grad), golden.FP64)
	return values
}

// stateCases calls run for each golden case of a type in a file.
func stateCases[S any](t *testing.T, name, kind string, run func(t *testing.T, c *stateCase[S])) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, name, &file)
	n := 0
	for _, raw := range file.Cases {
		var head struct {
			Name string
			Type string `json:"loss_type"`
		}
		try.Do(t, json.Unmarshal(raw, &head))
		if head.Type != kind {
			continue
		}
		n++
		t.Run(head.Name, func(t *testing.T) {
			var c stateCase[S]
			try.Do(t, json.Unmarshal(raw, &c))
			run(t, &c)
		})
	}
	if n == 0 {
		t.Errorf("no case of %s", kind)
	}
}

// remember returns the default options of a loss with its memory at the start of a run.
func remember(t *testing.T, name string) *remembering {
	o := DefaultOptions()
	o.Name = name
	return &remembering{t: t, options: o, memory: o.Memory()}
}

// Labels of CRCL over epochs of two rounds.
func TestGoldenLabels(t *testing.T) {
	stateCases(t, "losses_more.json", "CRCL-state", func(t *testing.T, c *stateCase[[]float64]) {
		o := DefaultOptions()
		o.Name, o.WarmupEpochs = "crcl", c.Config.WarmEpochs
		o.Own[crclConstants.at] = crclOptions{Temperature: c.Config.Tau, Momentum: c.Config.Alpha,
			Correction: c.Config.Correction}
		r := &remembering{t: t, options: o, memory: o.Memory()}
		m := r.memory.(*crclMemory)
		m.labels.values = c.Inputs.State
		for i, s := range c.Inputs.Steps {
			m.later = s.Schedule > 0
			n, want := len(s.IDs), &c.Expected.Steps[i]
			got := want.check(r, &Batch{N: n, Captions: s.IDs, Epoch: s.Epoch, WarmUp: s.Epoch < o.WarmupEpochs}, &s)
			golden.Close(t, "match probability", got[:n], want.Match, golden.FP64)
			golden.Close(t, "labels", got[n:], want.Labels, golden.FP64)
			golden.Close(t, "state", m.labels.values, want.StateAfter, golden.FP64)
		}
	})
}

// The statistics of FNE over batches of several sizes.
func TestGoldenStatistics(t *testing.T) {
	stateCases(t, "losses_more.json", "FNE-state", func(t *testing.T, c *stateCase[map[string]float64]) {
		r := remember(t, "fne")
		for i, scores := range c.Inputs.Batches {
			images := make([]int32, len(scores))
			for k := range images {
				images[k] = int32(k)
			}
			r.step(&Batch{N: len(scores), Step: int64(i), Iter: i}, scores, images)
			golden.Close(t, "state", r.memory.(*fneMemory).sums, sumsOf(c.Expected.After[i].State), golden.FP64)
		}
	})
}

// FNE over epochs: each begins with empty statistics, the first one is LMH, and a resumed run continues with the
// statistics of its epoch.
func TestGoldenEpochs(t *testing.T) {
	stateCases(t, "loss_epochs.json", "FNE-epochs", func(t *testing.T, c *stateCase[map[string]float64]) {
		r := remember(t, "fne")
		m := r.memory.(*fneMemory)
		m.sums = sumsOf(c.Inputs.State)
		for i, s := range c.Inputs.Steps {
			want := &c.Expected.Steps[i]
			r.draws = map[string][]float64{inputDrawRows: s.URows, inputDrawColumns: s.UColumns}
			want.check(r, &Batch{N: len(s.Scores), Step: int64(i), Epoch: s.Epoch, Iter: s.Iteration,
				WarmUp: s.Epoch == 0}, &s)
			golden.Close(t, "state", m.sums, sumsOf(want.StateAfter), golden.FP64)
		}
	})
}

// A warm-up epoch of FNE may be LSH over the number of pairs.
func TestFNEWarmsUpWithSums(t *testing.T) {
	scores := [][]float64{{0.5, 0.4, 0.1}, {0.45, 0.3, 0.2}, {0.2, 0.6, 0.7}}
	o := DefaultOptions()
	o.Name = LSH
	r := &remembering{t: t, options: o, memory: &fneMemory{}}
	b := &Batch{N: 3, WarmUp: true}
	_, want, slope := r.step(b, scores, nil)
	r.options.Name, r.options.Own[fneConstants.at] = "fne", fneOptions{Warmup: LSH}
	_, got, gradient := r.step(b, scores, nil)
	for i := range slope {
		slope[i] /= 3
	}
	golden.Close(t, "loss", []float64{got}, []float64{want / 3}, golden.FP64)
	golden.Close(t, "gradient", gradient, slope, golden.FP64)
}

// DECL takes the mean of fewer hinges with more steps; their number depends on the size of a full batch, in a smaller
// batch too.
func TestGoldenSmallerBatches(t *testing.T) {
	stateCases(t, "loss_epochs.json", "DECL-batches", func(t *testing.T, c *stateCase[any]) {
		for i, s := range c.Inputs.Steps {
			want := &c.Expected.Steps[i]
			b := &Batch{N: len(s.Scores), Full: c.Config.Batch, Step: s.Step, WarmUp: s.WarmUp}
			if got := hinges(b); got != want.Hinges {
				t.Errorf("%d of %d pairs after %d steps: %d hinges, want %d", b.N, b.Full, b.Step, got, want.Hinges)
			}
			r := remember(t, "decl")
			r.memory = &declMemory{right: perCaption{1, s.Clean}}
			golden.Close(t, "judgement", want.check(r, b, &s), want.Predicted, golden.FP64)
		}
	})
}

// A caption that was never judged is right; one that DECL judged keeps the judgement until its next step.
func TestDECLJudgesPairs(t *testing.T) {
	r := remember(t, "decl")
	m := r.memory.(*declMemory)
	golden.Close(t, "at first", m.right.of(&Batch{N: 2}), []float64{1, 1}, golden.FP64)
	scores := [][]float64{{0.1, 0.9, 0.2}, {0.3, 0.8, 0.1}, {0.2, 0.1, 0.7}}
	r.step(&Batch{N: 3, Captions: []int32{4, 1, 2}, WarmUp: true}, scores, nil)
	golden.Close(t, "judgement", m.right.values, []float64{1, 1, 1, 1, 0}, golden.FP64)
	_, clean, _ := r.step(&Batch{N: 3, Captions: []int32{3, 1, 2}}, scores, nil)
	m.right.values[4] = 0
	_, judged, _ := r.step(&Batch{N: 3, Captions: []int32{4, 1, 2}}, scores, nil)
	if clean == judged {
		t.Error("a wrong pair costs what a right one costs")
	}
}

// fed is an input of a step that a memory of a new run sets, for five pairs.
func fed(t *testing.T, name string, step int64, input string, shape ...int) []float64 {
	t.Helper()
	o := DefaultOptions()
	o.Name = name
	dev := try.Get(cpu.New(cpu.Options{Threads: 1, Precision: cpu.FP64}))(t)
	defer dev.Close()
	s := try.Get(graph.NewInstance(dev, nil))(t)
	try.Do(t, o.Memory().Feed(s, &Batch{N: shape[0], Seed: 7, Step: step}))
	g := s.Graph()
	y := g.Scale(g.Input(input, shape...), 1)
	p := try.Get(graph.Compile(s, g, []*graph.Node{y}, nil))(t)
	try.Do(t, p.RunAll())
	return p.Doubles(y)
}

// What a loss draws depends on seed and step alone; the negative of an anchor is another pair, and every one is drawn.
func TestLossesDrawByStep(t *testing.T) {
	drawn := func(name string, step int64) []float64 {
		input := map[string]string{"sam": inputNegativeImages, "fne": inputDrawColumns}[name]
		return fed(t, name, step, input, map[string][]int{"sam": {5, 5}, "fne": {5}}[name]...)
	}
	for _, name := range []string{"sam", "fne"} {
		if !slices.Equal(drawn(name, 3), drawn(name, 3)) || slices.Equal(drawn(name, 3), drawn(name, 4)) {
			t.Errorf("%s: draws do not follow the step", name)
		}
	}
	counts := make([]float64, 25)
	for step := range int64(400) {
		for i, v := range drawn("sam", step) {
			counts[i] += v
		}
	}
	for i, n := range counts {
		if on := i%6 == 0; on && n != 0 || !on && (n < 60 || n > 140) {
			t.Errorf("place %d of the matrix is drawn %v times in 400 steps", i, n)
		}
	}
}

// A label below 0.1 counts as 0 in warm-up epochs too, in which only the host sees it.
func TestLowLabelsAreZero(t *testing.T) {
	o := DefaultOptions()
	o.Name, o.WarmupEpochs = "crcl", 2
	r := &remembering{t: t, options: o, memory: o.Memory()}
	r.memory.(*crclMemory).labels.values = []float64{0.09, 0.1}
	got, _, _ := r.step(&Batch{N: 2, WarmUp: true}, [][]float64{{0.5, 0.1}, {0.2, 0.4}}, nil)
	golden.Close(t, "labels", got[2:], []float64{0, 0.1}, golden.FP64)
}

// FNE draws no negative that scores exactly the mean of matches less the margin.
func TestFNELeavesOutWhatIsLow(t *testing.T) {
	o := DefaultOptions()
	o.Name, o.Margin = "fne", 0.25
	scores := [][]float64{{0, 0.25, 0.5}, {0.5, 0, 0.25}, {0.25, 0.5, 0}}
	for step := range int64(4) {
		m := &fneMemory{sums: []float64{50, 100, 50, 1, 1}}
		r := &remembering{t: t, options: o, memory: m}
		_, _, gradient := r.step(&Batch{N: 3, Step: step, Iter: 1}, scores, []int32{0, 1, 2})
		for i, s := range flat(scores) {
			if drawn := gradient[i] > 0; drawn != (s == 0.5) {
				t.Errorf("step %d: gradient %v of score %v", step, gradient[i], s)
			}
		}
	}
}

// The mixture that splits losses (package stats, which cannot read golden cases).
func TestGoldenMixture(t *testing.T) {
	stateCases(t, "losses_more.json", "mixture", func(t *testing.T, c *stateCase[any]) {
		m := stats.FitMixture(c.Inputs.Losses)
		clean := make([]float64, len(m.Clean))
		for i, right := range m.Clean {
			if right {
				clean[i] = 1
			}
		}
		for what, v := range map[string][2][]float64{"weights": {m.Weights[:], c.Expected.Weights},
			"means": {m.Means[:], c.Expected.Means}, "variances": {m.Variances[:], c.Expected.Variances},
			"probabilities": {m.Probability, c.Expected.Probability}, "clean": {clean, c.Expected.Clean},
			"threshold": {{m.Threshold}, {c.Expected.Threshold}}} {
			golden.Close(t, what, v[0], v[1], golden.FP64)
		}
		if m.Rounds != c.Expected.Rounds {
			t.Errorf("%d rounds, want %d", m.Rounds, c.Expected.Rounds)
		}
	})
}
