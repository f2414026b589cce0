package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

func pointsOf(p *Plan) (out []string) {
	for _, t := range p.Trials {
		out = append(out, t.Point.String())
	}
	return slices.Compact(out)
}

// A grid has every combination once, an axis with a condition only where it holds, and every seed at each point.
func TestGrid(t *testing.T) {
	p, _ := planOf(t, `
set: {train: {batch: 64}, optim.decay: 0.5}
axes:
  - {param: loss.name, choices: [lmh, lseh]}
  - {param: loss.lseh.lambda, log_range: {from: 0.01, to: 1, count: 3}, when: {loss.name: lseh}}
  - {param: loss.margin, range: {from: 0.1, to: 0.3, step: 0.1}, when: {loss.name: [lmh]}}
seeds: [7, 8]
`)
	want := []string{"loss.name=lmh loss.margin=0.1", "loss.name=lmh loss.margin=0.2", "loss.name=lmh loss.margin=0.3",
		"loss.name=lseh loss.lseh.lambda=0.01", "loss.name=lseh loss.lseh.lambda=0.1",
		"loss.name=lseh loss.lseh.lambda=1"}
	if got := pointsOf(p); !slices.Equal(got, want) || p.Points != 6 || len(p.Trials) != 12 {
		t.Errorf("%d points, %d trials: %q", p.Points, len(p.Trials), got)
	}
	ids := map[string]bool{}
	for i, tr := range p.Trials {
		c := tr.Config
		ids[tr.ID] = true
		if c.Seed != []uint64{7, 8}[i%2] || c.Train.Batch != 64 || c.Optim.Decay != 0.5 || tr.Number != i/2 ||
			tr.Epochs != 30 {
			t.Errorf("trial %d: %+v", i, c)
		}
		if tr.Point.Text("loss.name") != c.Loss.Name || c.Run.Dir != filepath.Join(p.Def.Dir, "trials", tr.ID) {
			t.Errorf("trial %d is %s in %s", i, c.Loss.Name, c.Run.Dir)
		}
	}
	if len(ids) != 12 || p.Trials[11].Config.Loss.LSEH.Lambda != 1 || p.Trials[2].Config.Loss.Margin != 0.2 {
		t.Errorf("%d different trials, last %+v", len(ids), p.Trials[11].Config.Loss)
	}
}

// Short keys are the last part, that before a name, and the whole key where two axes would share a short one.
func TestShortKeys(t *testing.T) {
	p, _ := planOf(t, `
axes:
  - {param: loss.name, choices: [lmh]}
  - {param: loss.margin, values: [0.2]}
  - {param: optim.lr, values: [0.001]}
  - {param: loss.lseh.lambda, values: [0.025]}
  - {param: model.gsmn.lambda, values: [20]}
`)
	want := "loss=lmh margin=0.2 lr=0.001 loss.lseh.lambda=0.025 model.gsmn.lambda=20"
	if got := p.Def.ShortText(p.Trials[0].Point); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The name of a trial depends on what its result depends on and on nothing else.
func TestHash(t *testing.T) {
	d := &Definition{Method: Grid}
	base := config.Default()
	id := d.hash(base)
	for name, change := range map[string]func(*config.Config){
		"run":     func(c *config.Config) { c.Run.Dir, c.Run.TensorBoard = "elsewhere", false },
		"threads": func(c *config.Config) { c.Device.Threads, c.Device.Kind = 3, "cpu" },
	} {
		c := base
		change(&c)
		if d.hash(c) != id {
			t.Errorf("%s changes the name", name)
		}
	}
	for name, change := range map[string]func(*config.Config){
		"seed":      func(c *config.Config) { c.Seed++ },
		"precision": func(c *config.Config) { c.Device.Precision = "bf16" },
		"epochs":    func(c *config.Config) { c.Train.Epochs++ },
		"data":      func(c *config.Config) { c.Data.Dir = "x" },
		"lr":        func(c *config.Config) { c.Optim.LR *= 1.0000001 },
	} {
		c := base
		change(&c)
		if d.hash(c) == id {
			t.Errorf("%s does not change the name", name)
		}
	}
	more := base
	more.Train.Epochs++
	if a := (&Definition{Method: ASHA}); a.hash(base) != a.hash(more) || a.hash(base) == id {
		t.Error("with asha the epochs are in the name, or the name is that of the full run")
	}
}

// Named axes choose the base and bring bundles of settings.
func TestNamedAxes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a-x.yaml": "train: {batch: 16}\n",
		"b-x-long.yaml": "train: {batch: 32}\n",
		"s.yaml": `
base: "{net}-x{kind}.yaml"
axes:
  - {name: net, choices: [a, b]}
  - {name: kind, choices: [-long], when: {net: b}}
  - {name: speed, choices: [{name: slow, set: {optim.lr: 1e-5}}, {name: fast, set: {optim: {lr: 1e-2, decay: 0.9}}}]}
`} {
		try.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	d := try.Get(Load(filepath.Join(dir, "s.yaml")))(t)
	p := try.Get(NewPlan(d))(t)
	want := []string{"net=a speed=slow", "net=a speed=fast", "net=b kind=-long speed=slow",
		"net=b kind=-long speed=fast"}
	if got := pointsOf(p); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if c := p.Trials[3].Config; c.Train.Batch != 32 || c.Optim.LR != 1e-2 || c.Optim.Decay != 0.9 {
		t.Errorf("%+v %+v", c.Train, c.Optim)
	}
}

const randomSweep = `
method: random
trials: 40
axes:
  - {param: optim.lr, log_range: {from: 1e-4, to: 1e-1}}
  - {param: train.batch, range: {from: 16, to: 20}}
  - {param: optim.name, choices: [adam, adamw]}
  - {param: optim.weight_decay, values: [0.1, 0.2], when: {optim.name: adamw}}
`

// Random points depend on the sweep's seed and their number alone, lie inside the axes, and spread evenly over the
// logarithm.
func TestRandom(t *testing.T) {
	p, _ := planOf(t, randomSweep)
	again, _ := planOf(t, strings.Replace(randomSweep, "trials: 40", "trials: 50", 1))
	other, _ := planOf(t, randomSweep+"seed: 2\n")
	if a, b := pointsOf(p), pointsOf(again); !slices.Equal(a, b[:40]) || slices.Equal(a, pointsOf(other)) {
		t.Error("more trials change the first ones, or another seed does not")
	}
	below := 0
	for _, tr := range p.Trials {
		c := tr.Config
		if c.Optim.LR < 1e-4 || c.Optim.LR > 1e-1 || c.Train.Batch < 16 || c.Train.Batch > 20 ||
			(c.Optim.Name == "adam") != (c.Optim.WeightDecay == 0) {
			t.Errorf("%s", tr.Point)
		}
		if c.Optim.LR < 3.162e-3 {
			below++
		}
	}
	if below < 12 || below > 28 {
		t.Errorf("%d of 40 learning rates lie below the middle", below)
	}
}

// Where the axes have fewer points than asked for, each is there once.
func TestRandomWithoutRepetition(t *testing.T) {
	p, _ := planOf(t, "method: random\ntrials: 9\naxes: [{param: optim.name, choices: [adam, adamw]}, {param: "+
		"train.batch, values: [2, 3]}]\n")
	got := pointsOf(p)
	slices.Sort(got)
	if p.Points != 4 || len(slices.Compact(got)) != 4 {
		t.Errorf("%d points: %q", p.Points, got)
	}
}

// The sweeps of the program are plans without a mistake, whose settings go together.
func TestShippedSweeps(t *testing.T) {
	want := map[string]int{"ablate-vseinf": 10, "claim-vseinf": 8, "claim-vsepp": 30, "demo": 12, "paper": 170,
		"high-rate": 9, "rate-vseinf": 4, "leaderboard-noise": 32, "leaderboard-sgr": 42, "leaderboard-vseinf": 42,
		"leaderboard-vsepp": 42}
	names := config.SweepNames()
	if len(names) != len(want) {
		t.Fatalf("%q", names)
	}
	for _, name := range names {
		p := try.Get(NewPlan(try.Get(Load(name))(t)))(t)
		if len(p.Trials) != want[name] || p.Duplicates != 0 {
			t.Errorf("%s: %d trials, %d duplicates", name, len(p.Trials), p.Duplicates)
		}
		for _, trial := range p.Trials {
			captions := 30_000 // of Flickr8K
			if name == "demo" {
				captions = 5_000
			}
			if warnings := try.Get(trial.Config.Together(captions))(t); len(warnings) > 0 {
				t.Errorf("%s, trial %s: %v", name, trial.Point, warnings)
				break
			}
		}
	}
}
