package train

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/loss"
	"vsetrain/models"
)

var pairNetworks = []string{models.SAF, models.SGR}

// pairStep is a tiny network that scores pairs, its weights drawn from the seed 1: with 3, SGR stays where all scores
// are equal.
func pairStep(t testing.TB, dev device.Device, network, lossName string) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.SGRAF.SimDim = network, "bigru", 24, 8, 8
	s := newStep(t, dev, o, tinyDims, lossName, adam(3e-3))
	s.model.Init(1, nil)
	s.Seed = 3
	return s
}

// The loss falls, running statistics move, nothing is allocated, in every precision.
func TestPairScorersTrain(t *testing.T) {
	for _, network := range pairNetworks {
		for _, precision := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
			t.Run(network+"/"+precision, func(t *testing.T) {
				s := pairStep(t, newDevice(t, precision), network, loss.LSH)
				a, b := tinyBatch(1, 6, 12), tinyBatch(2, 4, 5)
				mean := func(n int) (sum float64) { // dropout makes single losses noisy
					for range n {
						sum += run(t, s, a).Loss / float64(n)
						run(t, s, b)
					}
					return sum
				}
				first := mean(5)
				mean(150)
				if last := mean(10); !(last < first/2) {
					t.Errorf("the loss went from %v to %v", first, last)
				}
				if doubles(s.model.Instance.Dev,
					s.model.Instance.Params.Value("sim.v_global_w.embedding_local.1.running_mean"))[0] == 0 {
					t.Error("training leaves the running statistics as they were")
				}
				if n := testing.AllocsPerRun(5, func() { run(t, s, a); run(t, s, b) }); n != 0 {
					t.Errorf("%v allocations in two steps", n)
				}
			})
		}
	}
}

// Every loss sees the scores alone.
func TestPairScorersWithEveryLoss(t *testing.T) {
	for _, network := range pairNetworks {
		for _, name := range []string{loss.LSH, loss.LMH, loss.LSEH, loss.LUWM} {
			s := pairStep(t, newDevice(t, cpu.FP32), network, name)
			before := numbers(s)
			r := run(t, s, tinyBatch(1, 6, 12))
			if !(r.Loss > 0) || !(r.GradNorm > 0) {
				t.Errorf("%s with %s: loss %v, gradient norm %v", network, name, r.Loss, r.GradNorm)
			}
			if slices.Equal(numbers(s), before) {
				t.Errorf("%s with %s: nothing was updated", network, name)
			}
		}
	}
}

// The lanes of the work depend on the batch alone: any number of threads gives the same bits.
func TestPairScorersDoNotDependOnThreads(t *testing.T) {
	for _, network := range pairNetworks {
		for _, precision := range []string{cpu.FP32, cpu.BF16} {
			var want []float64
			for _, threads := range []int{1, 2, 5} {
				s := pairStep(t, openCPU(t, cpu.Options{Threads: threads, Precision: precision}), network, loss.LMH)
				for i := range uint64(2) {
					run(t, s, tinyBatch(i, 30, 14))
				}
				got := allNumbers(s)
				if want == nil {
					want = got
				}
				if i := differ(got, want); i >= 0 {
					t.Errorf("%s, %s: %d threads give another number %d than one", network, precision, threads, i)
				}
			}
		}
	}
}
