package config

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/system/options"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/train"
)

// simulated is a training by the loop of package train, whose steps compute nothing.
type simulated struct {
	sizes []int // of the batches of an epoch
	loop  *train.Loop

	at          int // of the next batch
	sums        int // steps in warm-up
	rates       []float64
	validations []int64
	told        bool // of a collapse
	batches     map[int]bool
	mean, last  float64 // the average of weights, and the weights
}

func (s *simulated) Next() (*data.Batch, error) {
	n := len(s.sizes)
	b := &data.Batch{Epoch: s.at / n, Iter: s.at % n}
	if b.N = s.sizes[b.Iter]; s.loop.Options.Overfit > 0 {
		s.batches[s.at%s.loop.Options.Overfit] = true
	}
	s.at++
	return b, nil
}

func (s *simulated) Release(*data.Batch) {}

func (s *simulated) Start(_ *data.Batch, lr float64, sum bool) error {
	if s.rates = append(s.rates, lr); sum {
		s.sums++
	}
	n := float64(len(s.rates))
	d := min(s.loop.Optim.EMA, (n-1)/(n+8))
	s.last = n
	s.mean = d*s.mean + (1-d)*n
	return nil
}

func (s *simulated) Finish() (train.StepResult, error) { return train.StepResult{}, nil } // all scores alike
func (s *simulated) Depth() int                        { return 1 }

// simulate trains on that many captions. The first validation is the best.
func simulate(t *testing.T, c *Config, captions int) *simulated {
	t.Helper()
	s := &simulated{batches: map[int]bool{}}
	for at := 0; at < captions; at += c.Train.Batch {
		n := min(c.Train.Batch, captions-at)
		if n == c.Train.Batch || !c.Train.DropLast {
			s.sizes = append(s.sizes, n)
		}
	}
	o := c.Optim
	o.Settle(c.Train.Epochs)
	score := 100.0
	s.loop = &train.Loop{Options: c.Train, Optim: o, Warmup: c.Loss.WarmupEpochs, Margin: c.Loss.Margin, Step: s,
		Source: s, Batches: len(s.sizes), Now: func() time.Time { return time.Time{} },
		Validate: func(context.Context) (eval.Metrics, error) {
			score /= 2
			return eval.Metrics{MRecall: score}, nil
		},
		Hooks: train.Hooks{
			Validation: func(v train.ValidationInfo) error {
				s.validations = append(s.validations, v.Step)
				return nil
			},
			Warn: func(error) error { s.told = true; return nil },
		}}
	if err := s.loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// truth are the keys of what never happens, or always, in the simulated training.
func (s *simulated) truth(t *testing.T, c *Config) map[string]bool {
	captions := 0
	for _, n := range s.sizes {
		captions += n
	}
	without := func(change func(*Config)) *simulated {
		other := *c
		change(&other)
		return simulate(t, &other, captions)
	}
	o, tr := &s.loop.Optim, &c.Train
	steps, largest := int64(len(s.rates)), slices.Max(s.sizes)
	decays := func(rates []float64) int { return len(slices.Compact(slices.Clone(rates))) - 1 }
	flat := without(func(c *Config) { c.Optim.WarmupSteps, c.Train.EarlyStop = 0, 0 }).rates
	full := without(func(c *Config) { c.Train.EarlyStop = 0 })
	whole := int64(len(full.rates))
	out := map[string]bool{
		"train.batch":        largest < tr.Batch,
		"train.micro_batch":  tr.MicroBatch > 0 && largest <= tr.MicroBatch,
		"loss.warmup_epochs": c.Loss.WarmsUp() && full.sums == len(full.rates),
		"optim.warmup_steps": o.WarmupSteps > 0 && slices.Max(full.rates) < o.LR*(1-1e-9),
		"optim.lr_update":    o.Schedule != train.Cosine && o.LRUpdate > 0 && decays(flat) == 0,
		"optim.lr_update2":   o.LRUpdate2 > 0 && decays(flat) < 2,
		"optim.cosine_epochs": c.Optim.CosineEpochs > 0 &&
			o.LearningRate(whole, len(s.sizes)) != o.LearningRate(1e9, len(s.sizes)),
		"train.val_step":   tr.ValStep > 0,
		"train.log_step":   tr.LogStep > 0,
		"train.early_stop": tr.EarlyStop > 0 && steps == whole,
		"train.keep":       tr.Keep > 1 && len(full.validations) < tr.Keep,
		"train.collapse_steps": tr.CollapseSteps > 0 && !without(func(c *Config) {
			c.Train.EarlyStop = 0
		}).told,
		"train.overfit": tr.Overfit > 0 && len(full.batches) < tr.Overfit,
		"optim.ema":     c.Optim.EMA > 0 && full.mean == full.last,
		"train.max_steps": tr.MaxSteps > 0 && int64(tr.MaxSteps) != whole &&
			len(without(func(c *Config) { c.Train.MaxSteps, c.Train.EarlyStop = 0, 0 }).rates) == int(whole),
	}
	for step := range whole {
		out["train.log_step"] = out["train.log_step"] && (step+1)%int64(tr.LogStep) != 0
	}
	for _, step := range without(func(c *Config) { c.Train.EarlyStop, c.Train.ValGap = 0, 0 }).validations {
		out["train.val_step"] = out["train.val_step"] && step%int64(tr.ValStep) != 0
	}
	return out
}

// What Together warns of never happens in a training that is stepped through, and what it does not warn of does.
func TestTogetherIsWhatHappens(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	seen := map[string][2]int{}
	for range 1500 {
		c := Default()
		c.Loss.Name = loss.Names()[r.IntN(len(loss.Names()))]
		captions := 2 + r.IntN(60)
		c.Train.Batch, c.Train.Epochs, c.Train.DropLast = 2+r.IntN(40), 1+r.IntN(5), r.IntN(2) == 0
		c.Train.MicroBatch = pick(0, 0, r.IntN(50))
		c.Loss.WarmupEpochs = pick(0, 1, r.IntN(7))
		c.Train.MaxSteps = pick(0, 0, 1, 1+r.IntN(80))
		c.Train.ValStep, c.Train.LogStep = pick(0, r.IntN(12), r.IntN(80)), pick(0, r.IntN(12), r.IntN(80))
		c.Train.ValGap = pick(0, 0, r.IntN(12), r.IntN(80))
		c.Train.EarlyStop, c.Train.Keep = pick(0, 1, r.IntN(9)), pick(1, 2, 1+r.IntN(9))
		c.Train.CollapseSteps, c.Train.Overfit = pick(0, r.IntN(9), r.IntN(80)), pick(0, 0, 1+r.IntN(8))
		c.Optim.EMA = float64(pick(0, 5)) / 10
		c.Optim.WarmupSteps = pick(0, 0, r.IntN(9), r.IntN(90))
		switch c.Optim.Schedule = []string{train.Repeat, train.Once, train.Cosine}[r.IntN(3)]; c.Optim.Schedule {
		case train.Cosine:
			c.Optim.CosineEpochs, c.Optim.CosineEnd = pick(0, 1, r.IntN(9)), float64(r.IntN(9))/10
		case train.Once:
			if c.Optim.LRUpdate = pick(0, r.IntN(7)); r.IntN(2) == 0 {
				c.Optim.LRUpdate2 = c.Optim.LRUpdate + 1 + r.IntN(3)
			}
		default:
			c.Optim.LRUpdate = pick(0, r.IntN(7))
		}
		if c.Optim.LRUpdate == 0 {
			c.Optim.LRUpdate2 = 0 // which never decays either
		}
		if c.Validate() != nil {
			continue
		}
		c.chosen = map[string]bool{}
		for _, key := range Keys() {
			c.chosen[key] = true
		}
		warnings, err := c.Together(captions)
		if err != nil {
			var m *Mistake
			if !errors.As(err, &m) {
				t.Fatal(err)
			}
			continue
		}
		got := map[string]bool{}
		for _, w := range warnings {
			if e, ok := errors.AsType[*options.Error](w); ok {
				got[e.Key] = true
			}
		}
		run := simulate(t, &c, captions)
		want := run.truth(t, &c)
		if slices.Min(run.sizes) < 2 { // pairs, in which no collapse can be seen
			delete(want, "train.collapse_steps")
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			n := seen[key]
			if want[key] {
				n[0]++
			} else {
				n[1]++
			}
			if seen[key] = n; got[key] != want[key] {
				t.Fatalf("%s: warned %v, never happens %v: %d captions, %s", key, got[key], want[key], captions,
					strings.Join(c.Changed(), ", "))
			}
		}
	}
	for key, n := range seen {
		if n[0] < 5 || n[1] < 20 {
			t.Errorf("%s: %d that never happen and %d that do were drawn", key, n[0], n[1])
		}
	}
}

// trainingCaptions are the captions of the data sets of presets.
var trainingCaptions = map[string]int{"f30k": 145000, "coco": 566435, "iapr": 17665, "f8k": 30000, "demo": 15000}

// No preset has settings that do not go together, also with the losses that have no row, and a first look of one epoch
// is told of the loss alone.
func TestPresetsGoTogether(t *testing.T) {
	names := map[string]string{"demo": "demo"}
	for _, p := range Presets() {
		names[p.Name] = p.Data
		if start, ok := strings.CutSuffix(p.Name, "-benchmark"); ok {
			for _, l := range loss.Names() {
				if presetNamed(start+"-"+l) != nil {
					names[start+"-"+l] = p.Data
				}
			}
		}
	}
	if len(names) < 200 {
		t.Errorf("%d presets", len(names))
	}
	for name, of := range names {
		for _, set := range [][]string{nil, {"train.epochs=1"}} {
			c, err := Load(Request{Preset: name, Set: set})
			if err != nil {
				t.Fatal(err)
			}
			captions := trainingCaptions[of]
			if captions == 0 {
				t.Fatalf("%s is of %q", name, of)
			}
			warnings, err := c.Together(captions)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, w := range warnings {
				if set == nil || !strings.HasPrefix(w.Error(), "loss.warmup_epochs: ") {
					t.Errorf("%s, %s: %v", name, set, w)
				}
			}
		}
	}
}

// What a person chose is looked at wherever it was set; what a preset, the program or a copy of all settings has is
// not.
func TestChosen(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		try.Do(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	c := try.Get(Load(Request{Set: []string{"train.epochs=2", "optim.lr_update=9"}}))(t)
	whole := file("whole.yaml", string(Marshal(&c.Config)))
	for _, r := range []struct {
		name string
		req  Request
		want bool
	}{
		{"flag", Request{Set: []string{"optim.lr_update=9", "train.epochs=2"}}, true},
		{"flag with the default", Request{Set: []string{"optim.lr_update=15", "train.epochs=2"}}, true},
		{"variable", Request{Env: []string{"VSETRAIN_OPTIM_LR_UPDATE=9", "VSETRAIN_TRAIN_EPOCHS=2"}}, true},
		{"file", Request{File: file("a.yaml", "extends: vsepp/f30k-lseh\noptim: {lr_update: 9}\ntrain: {epochs: 2}\n")},
			true},
		{"file that extends", Request{File: file("b.yaml", "extends: vsepp/f30k-lseh\ntrain: {epochs: 2}\n")}, false},
		{"preset", Request{Preset: "vsepp/f30k-lseh", Set: []string{"train.epochs=2"}}, false},
		{"default", Request{Set: []string{"train.epochs=2"}}, false},
		{"all settings, one changed", Request{File: whole}, true},
		{"all settings", Request{File: whole, Set: []string{"optim.lr_update=1"}}, false},
	} {
		c := try.Get(Load(r.req))(t)
		warnings := try.Get(c.Together(0))(t)
		if got := slices.ContainsFunc(warnings, func(w error) bool {
			return strings.HasPrefix(w.Error(), "optim.lr_update: ")
		}); got != r.want {
			t.Errorf("%s: %v, want %v: %v", r.name, got, r.want, warnings)
		}
		if left := try.Get(c.Unchosen().Together(0))(t); len(left) > 0 {
			t.Errorf("%s: %v", r.name, left)
		}
	}
}
