package train

import (
	"testing"

	"vsetrain/internal/compute/device"
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
