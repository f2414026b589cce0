package evaluate

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// A scoring that is stopped continues with the tiles it kept and gives the scores of one that was not; another
// precision keeps its own.
func TestEvalResumesScoring(t *testing.T) {
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.SGR)
	c.Train.MaxSteps = 2
	run := runtest.Train(t, c)
	r := Request{Checkpoints: []string{run}, Split: "train", Data: runtest.World, Protocol: eval.Auto,
		Device: device.DefaultOptions()}
	_, want := evaluateWith(t, r)
	r.Work = filepath.Join(t.TempDir(), "work", "scored")
	ctx, stop := context.WithCancel(t.Context())
	r.Progress = func(phase string, done, _ int) {
		if strings.HasPrefix(phase, "score") && done > 0 {
			stop()
		}
	}
	if _, err := Run(ctx, r); !errors.Is(err, context.Canceled) {
		t.Fatalf("a stopped scoring: %v", err)
	}
	var starts []int
	total := 0
	r.Progress = func(phase string, done, n int) {
		if strings.HasPrefix(phase, "score") {
			starts, total = append(starts, done), n
		}
	}
	for range 2 {
		starts = nil
		if _, got := evaluateWith(t, r); !slices.Equal(got, want) {
			t.Errorf("scores differ by %g", runtest.Worst(got, want))
		}
		if starts[0] == 0 {
			t.Error("nothing was taken over")
		}
	}
	if len(starts) != 1 || starts[0] != total {
		t.Errorf("the third time: %v of %d", starts, total)
	}
	r.Device.Precision = "bf16"
	starts = nil
	evaluateWith(t, r)
	if starts[0] != 0 {
		t.Errorf("the tiles of fp32 served bf16")
	}
	if files, _ := filepath.Glob(filepath.Join(r.Work, "*.tiles")); len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
}

// An ensemble may mix networks that embed and networks that score pairs.
func TestEnsembleOfDifferentNetworks(t *testing.T) {
	var paths []string
	r := Request{Split: "test", Data: runtest.World, Protocol: eval.Auto, Device: device.DefaultOptions()}
	var sum []float64
	for _, network := range []string{models.SAF, models.SGR, models.VSEPP} {
		c := runtest.TinyConfig()
		runtest.SetNetwork(c, network)
		c.Train.MaxSteps = 2
		path := runtest.Train(t, c)
		r.Checkpoints = []string{path}
		_, s := evaluateWith(t, r)
		if sum == nil {
			sum = make([]float64, len(s))
		}
		for i, v := range s {
			sum[i] += v / 3
		}
		paths = append(paths, path)
	}
	r.Checkpoints = paths
	if _, got := evaluateWith(t, r); runtest.Worst(got, sum) > 1e-6 {
		t.Errorf("the ensemble differs from the mean by %g", runtest.Worst(got, sum))
	}
}

// SAF and SGR learn the pairs they are trained on: recalls of the training split far above recalls of chance, whose
// mean over the six is about 14 with 40 images of 5 captions.
func TestPairScorersLearn(t *testing.T) {
	for _, network := range []string{models.SAF, models.SGR} {
		t.Run(network, func(t *testing.T) {
			c := runtest.TinyConfig()
			runtest.SetNetwork(c, network)
			c.Model.EmbedDim, c.Model.WordDim, c.Model.SGRAF.SimDim = 32, 16, 16
			c.Loss.Name, c.Optim.LR, c.Optim.LRUpdate = loss.LSH, 3e-3, 20
			c.Train.Epochs, c.Train.ValStep = 16, 0
			r := Request{Checkpoints: []string{runtest.Checkpoint(runtest.Train(t, c), runfs.LastName)}, Split: "train",
				Protocol: eval.Auto, Device: device.DefaultOptions()}
			if m, _ := evaluateWith(t, r); m.MRecall < 45 {
				t.Errorf("M-Recall %.1f on the training split", m.MRecall)
			} else {
				t.Logf("M-Recall %.1f", m.MRecall)
			}
		})
	}
}

// Pairs are scored in bf16 first where ranks alone are wanted of one network that computes in fp32 on a processor.
func TestWhereBF16ComesFirst(t *testing.T) {
	for what, change := range map[string]func(*Request){
		"":                  func(*Request) {},
		"not asked for":     func(r *Request) { r.BF16First = false },
		"ensemble":          func(r *Request) { r.Checkpoints = []string{"a", "b"} },
		"with scores":       func(r *Request) { r.Scores = []string{"a.npy"} },
		"judgements":        func(r *Request) { r.Judgements = []string{"a"} },
		"diagnosis":         func(r *Request) { r.Diagnose = true },
		"scores are stored": func(r *Request) { r.SaveScores = "a.npy" },
		"ranks are stored":  func(r *Request) { r.SaveRanks = "a.csv" }, // with what ranks first
		"tiles are kept":    func(r *Request) { r.Work = "a" },          // for other commands
	} {
		r := Request{Checkpoints: []string{"a"}, BF16First: true}
		if change(&r); r.ranksAlone() != (what == "") {
			t.Errorf("%q: %v", what, r.ranksAlone())
		}
	}
	cpuOf := func(precision string) device.Options {
		return device.Options{Kind: "cpu", Precision: precision, Threads: 1}
	}
	for network, want := range map[string]bool{models.SGR: true, models.VSEPP: false} {
		c := runtest.TinyConfig()
		runtest.SetNetwork(c, network)
		c.Train.MaxSteps = 1
		run := runtest.Train(t, c)
		n := try.Get(pretrained.Open(pretrained.Request{Checkpoint: run, Device: cpuOf(cpu.FP32)}))(t)
		defer n.Close()
		for precision, may := range map[string]bool{cpu.FP32: want, cpu.BF16: false, cpu.FP64: false} {
			first := try.Get(n.BF16First(cpuOf(precision), ""))(t)
			if first != nil {
				defer first.Close()
			}
			if x := try.Get(n.BF16First(cpuOf(precision), "generic"))(t); x != nil {
				t.Errorf("%s in %s: with named products", network, precision)
			}
			fast := try.Get(cpu.New(cpu.Options{Precision: cpu.BF16}))(t)
			defer fast.Close()
			if fast.(interface{ EmulatesBF16() bool }).EmulatesBF16() {
				may = false
			}
			if (first != nil) != may || may && first.Choice.Precision != cpu.BF16 {
				t.Errorf("%s in %s: %v", network, precision, first)
			}
		}
	}
}
