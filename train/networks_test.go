package train

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// tinyNetwork is a network at toy size, and how it trains.
type tinyNetwork struct {
	name       string
	loss       string
	step       func(t testing.TB, dev device.Device, loss string) *Step
	batch      func(seed uint64, n, longest int) *data.Batch
	steps      int      // in which the loss falls by half
	precisions []string // in which it is trained
	unused     string   // a parameter without effect, "" without one
	moves      string   // a running statistic, "" without one
}

func tinyNetworks() (all []tinyNetwork) {
	every := []string{cpu.FP32, cpu.BF16, cpu.FP64}
	for _, name := range pairNetworks {
		all = append(all, tinyNetwork{name, loss.LSH, func(t testing.TB, dev device.Device, loss string) *Step {
			return pairStep(t, dev, name, loss)
		}, tinyBatch, 165, every, "", "sim.v_global_w.embedding_local.1.running_mean"})
	}
	for name, mode := range gsmnModes {
		precisions := every
		if mode.Mode != "dense" { // slow: one mode tells that it trains, golden cases what the others compute
			precisions = every[:2]
		}
		all = append(all, tinyNetwork{"gsmn " + name, loss.LMH, func(t testing.TB, d device.Device, loss string) *Step {
			return gsmnStep(t, d, mode, loss)
		}, gsmnBatch, 120, precisions, "t2i.graph_convolution_3.params", ""})
	}
	for suffix, from := range map[string]int{"stored": math.MaxInt, "factored": 0} {
		all = append(all, tinyNetwork{"vsepp " + suffix, loss.LSEH,
			func(t testing.TB, d device.Device, loss string) *Step { return tinyStep(t, d, loss, from) },
			tinyBatch, 40, every, "", ""})
	}
	return append(all,
		tinyNetwork{models.VSRN, "", func(t testing.TB, d device.Device, _ string) *Step {
			return vsrnStep(t, d, models.DefaultOptions().VSRN)
		}, tinyBatch, 0, nil, "", ""}, // TestVSRNTrains trains it
		tinyNetwork{models.VSEInf, "", func(t testing.TB, d device.Device, _ string) *Step { return vseinfStep(t, d) },
			vseinfBatch, 40, every, "img.mlp.bns.1.weight", "img.mlp.bns.0.running_mean"},
		tinyNetwork{models.CHAN, "", func(t testing.TB, d device.Device, _ string) *Step {
			return chanStep(t, d, false)
		}, vseinfBatch, 40, every[:1], "txt.fc.weight", ""})
}

// The loss falls, running statistics move, a parameter without effect stays as it is in spite of weight decay, and
// steps of a known shape allocate nothing.
func TestNetworksTrain(t *testing.T) {
	for _, c := range tinyNetworks() {
		for _, precision := range c.precisions {
			t.Run(c.name+" "+precision, func(t *testing.T) {
				s := c.step(t, newDevice(t, precision), c.loss)
				value := func(name string) []float64 {
					return doubles(s.model.Instance.Dev, s.model.Instance.Params.Value(name))
				}
				var before []float64
				if c.unused != "" {
					before = value(c.unused)
				}
				a, b := c.batch(1, 6, 12), c.batch(2, 4, 5)
				first, last := 0.0, 0.0 // means: dropout, and hardest negatives that change, make single losses jump
				for i := range c.steps {
					if l := run(t, s, a).Loss; i < 2 {
						first += l / 2
					} else if i >= c.steps-10 {
						last += l / 10
					}
					run(t, s, b)
				}
				if !(last < first/2) {
					t.Errorf("the loss went from %v to %v in %d steps", first, last, c.steps)
				}
				if c.unused != "" && !slices.Equal(value(c.unused), before) {
					t.Errorf("%s changed without a gradient", c.unused)
				}
				if c.moves != "" && value(c.moves)[0] == 0 {
					t.Error("training leaves the running statistics as they were")
				}
				if n := testing.AllocsPerRun(5, func() { run(t, s, a); run(t, s, b) }); n != 0 {
					t.Errorf("%v allocations in two steps", n)
				}
			})
		}
	}
}

// The work of a batch is cut up by the batch alone: any number of threads gives the same bits.
func TestNetworksDoNotDependOnThreads(t *testing.T) {
	for _, c := range tinyNetworks() {
		for _, precision := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
			if precision == cpu.FP64 && !strings.HasPrefix(c.name, models.VSEPP) { // slow
				continue
			}
			var want []float64
			for _, threads := range []int{1, 2, 5} {
				s := c.step(t, openCPU(t, cpu.Options{Threads: threads, Precision: precision}), loss.LMH)
				for i := range uint64(2) {
					run(t, s, c.batch(i, 30, 14))
				}
				got := allNumbers(s)
				if want == nil {
					want = got
				}
				if i := differ(got, want); i >= 0 {
					t.Errorf("%s, %s: %d threads give another number %d than one", c.name, precision, threads, i)
				}
			}
		}
	}
}

// A run that is resumed from its checkpoint, running statistics and what a loss remembers included, ends with the bits
// of one that was not.
func TestNetworksResumeExactly(t *testing.T) {
	for _, c := range tinyNetworks() {
		step := func() *Step { return c.step(t, newDevice(t, cpu.FP32), "crcl") } // which remembers labels
		whole, resumed := step(), step()
		run(t, whole, c.batch(1, 6, 12))
		st := State{Seed: 1, Position: Position{Step: 1}}
		path, aside := saved(t, whole, st), try.Get(NewCopy(whole))(t)
		defer aside.Close()
		before := try.Get(whole.Snapshot(aside))(t)
		checkpoint := try.Get(models.OpenCheckpoint(path))(t)
		defer checkpoint.Close()
		try.Do(t, resumed.RestoreState(checkpoint, &State{}))
		for _, s := range []*Step{whole, resumed} {
			run(t, s, c.batch(2, 5, 9))
		}
		var late bytes.Buffer
		try.Do(t, before.WriteState(&late, models.Info{}, &st))
		if !bytes.Equal(late.Bytes(), try.Get(os.ReadFile(path))(t)) {
			t.Errorf("%s: a copy of the state changes with the next step", c.name)
		}
		if i := differ(allNumbers(whole), allNumbers(resumed)); i >= 0 {
			t.Errorf("%s: number %d differs after resuming", c.name, i)
		}
		if whole.loss.Name != "crcl" {
			continue
		}
		want, got := whole.memory.state()["labels"], resumed.memory.state()["labels"]
		if want == nil || len(*want) == 0 || !slices.Equal(*want, *got) {
			t.Errorf("%s: the labels %v are %v after resuming", c.name, want, got)
		}
	}
}
