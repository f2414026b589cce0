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
