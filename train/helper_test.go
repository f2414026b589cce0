package train

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// script is a fake of everything a Loop uses; it writes down what happens in order.
type script struct {
	batches     int
	epoch, iter int       // of the next batch
	held        int       // batches delivered and not released
	scores      []float64 // of the validations, the last one again and again
	validations int
	gap         float64
	loss        func(step int64) float64 // nil is always 1
	fail        error                    // of the next step
	results     []StepResult             // of steps on their way
	events      []string
	onStep      func(StepInfo) error
	onValidate  func() error // before a score is given
	onResult    func(ValidationInfo) error
	saved       []Position
}

func (s *script) Next() (*data.Batch, error) {
	if s.held != len(s.results) {
		return nil, fmt.Errorf("%d batches were not released, %d steps are not finished", s.held, len(s.results))
	}
	b := &data.Batch{Epoch: s.epoch, Iter: s.iter, Images: batch.Images{N: 4}, Wait: time.Millisecond}
	s.held++
	if s.iter++; s.iter == s.batches {
		s.epoch, s.iter = s.epoch+1, 0
	}
	return b, nil
}

func (s *script) Release(*data.Batch) {
	if s.held--; s.held < len(s.results) {
		s.events = append(s.events, "released early")
	}
}

func (s *script) Depth() int { return 1 }

func (s *script) Start(b *data.Batch, lr float64, sum bool) error {
	e := fmt.Sprintf("run %d.%d lr %g", b.Epoch, b.Iter, lr)
	if sum {
		e += " sum"
	}
	s.events = append(s.events, e)
	loss := 1.0
	if s.loss != nil {
		loss = s.loss(int64(b.Epoch*s.batches + b.Iter + 1))
	}
	s.results = append(s.results, StepResult{Loss: loss, Gap: s.gap, LearningRate: lr})
	return nil
}

func (s *script) Finish() (StepResult, error) {
	r := s.results[0]
	s.results = s.results[1:]
	return r, s.fail
}

func (s *script) validate(context.Context) (eval.Metrics, error) {
	if s.onValidate != nil {
		if err := s.onValidate(); err != nil {
			return eval.Metrics{}, err
		}
	}
	score := s.scores[min(s.validations, len(s.scores)-1)]
	s.validations++
	r := eval.Recalls{R1: score, R5: score, R10: score}
	return eval.Metrics{I2T: r, T2I: r, RSum: 6 * score, MRecall: score}, nil
}

// loop is a Loop of 2 epochs over 5 batches with a validation every 2 steps.
func (s *script) loop() *Loop {
	s.batches = 5
	if s.scores == nil {
		s.scores = []float64{50}
	}
	o := DefaultOptions()
	o.Epochs, o.ValStep, o.CollapseSteps = 2, 2, 0
	clock := time.Unix(0, 0)
	l := &Loop{Options: o, Optim: OptimOptions{LR: 1, Decay: 0.5, Schedule: Repeat, LRUpdate: 1}, Margin: 0.2, Step: s,
		Source: s, Batches: s.batches,
		Validate: s.validate, Now: func() time.Time { clock = clock.Add(time.Second); return clock }}
	l.Hooks.Step = func(i StepInfo) error {
		s.events = append(s.events, fmt.Sprintf("step %d", i.Step))
		if s.onStep != nil {
			return s.onStep(i)
		}
		return nil
	}
	l.Hooks.Validation = func(i ValidationInfo) error {
		s.events = append(s.events, fmt.Sprintf("val %d score %g best %v", i.Step, i.Score, i.Better))
		if s.onResult != nil {
			return s.onResult(i)
		}
		return nil
	}
	l.Hooks.Save = func(p Position, v *ValidationInfo) error {
		s.events = append(s.events, fmt.Sprintf("save %d best %v", p.Step, v != nil && v.Better))
		s.saved = append(s.saved, p)
		return nil
	}
	return l
}

// resume is a new Loop at a saved position.
func (s *script) resume(p Position) *Loop {
	l := s.loop()
	l.Position, s.epoch, s.iter = p, p.Epoch, p.Iter
	return l
}

// only keeps the events that begin with one of the words.
func (s *script) only(words ...string) (out []string) {
	for _, e := range s.events {
		if slices.ContainsFunc(words, func(w string) bool { return len(e) > len(w) && e[:len(w)+1] == w+" " }) {
			out = append(out, e)
		}
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

const tinyRegions, tinyFeature, tinyVocab, tinySemantic = 2, 6, 20, 5

// newStep is a training step of a model whose weights are drawn from the seed 3.
func newStep(t testing.TB, dev device.Device, o models.Options, d models.Dims, lossName string,
	opt OptimOptions) *Step {
	t.Helper()
	m := try.Get(models.NewModel(dev, o, d))(t)
	m.Init(3, nil)
	l := loss.DefaultOptions()
	l.Name = lossName
	return try.Get(NewStep(m, l, opt))(t)
}

// adam is the optimiser of the reference repositories, adamw the one of VSE-infinity with weight decay.
func adam(lr float64) OptimOptions {
	o := DefaultOptimOptions()
	o.LR = lr
	return o
}

func adamw(lr float64) OptimOptions {
	o := adam(lr)
	o.Name, o.WeightDecay = "adamw", 1e-2
	return o
}

var tinyDims = models.Dims{Regions: tinyRegions, Feature: tinyFeature, Vocab: tinyVocab}

// tinyStep is VSE++ with 8 dimensions.
func tinyStep(t testing.TB, dev device.Device, lossName string, factorFrom int) *Step {
	t.Helper()
	return tinyStepOn(t, dev, tinyFeature, lossName, factorFrom)
}

// tinyStepOn is tinyStep on regions of that many values.
func tinyStepOn(t testing.TB, dev device.Device, feature int, lossName string, factorFrom int) *Step {
	t.Helper()
	o, d := models.DefaultOptions(), tinyDims
	o.EmbedDim, o.WordDim, d.Feature = 8, 8, feature
	s := newStep(t, dev, o, d, lossName, adam(1e-2))
	s.factorFrom = factorFrom
	return s
}

// tinyBatch makes n pairs with captions of 2 to longest words.
func tinyBatch(seed uint64, n, longest int) *data.Batch {
	return tinyBatchOf(seed, n, longest, tinyFeature)
}

// tinyBatchOf is tinyBatch with regions of that many values.
func tinyBatchOf(seed uint64, n, longest, feature int) *data.Batch {
	r := philox.NewKey(seed, "test batch").Stream(0)
	b := &data.Batch{Images: batch.Images{N: n}, L: longest, Regions: tinyRegions, Dim: feature,
		SemanticDim: tinySemantic}
	for i := range n {
		b.ImageIndices = append(b.ImageIndices, int32(i/2))
		words := make([]int32, max(2, longest-i))
		for k := range words {
			words[k] = 1 + int32(r.IntN(tinyVocab-1))
		}
		b.Add(words)
		for range tinyRegions * feature {
			b.Features = append(b.Features, float32(r.Float64()))
		}
		for range tinySemantic {
			b.Semantics = append(b.Semantics, float32(r.Norm()))
		}
	}
	return b
}

// saved writes the state of a step to a file and returns its path. What a copy of it holds is the same.
func saved(t *testing.T, s *Step, st State) string {
	t.Helper()
	var now, copied bytes.Buffer
	try.Do(t, try.Get(s.Snapshot(nil))(t).WriteState(&now, models.Info{}, &st))
	c := try.Get(NewCopy(s))(t)
	defer c.Close()
	try.Do(t, try.Get(s.Snapshot(c))(t).WriteState(&copied, models.Info{}, &st))
	if !bytes.Equal(now.Bytes(), copied.Bytes()) {
		t.Error("a copy of the state is another state")
	}
	path := filepath.Join(t.TempDir(), "last.safetensors")
	try.Do(t, os.WriteFile(path, now.Bytes(), 0o666))
	return path
}
