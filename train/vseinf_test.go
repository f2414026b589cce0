package train

import (
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// manyRegions is for images of up to six regions.
var manyRegions = models.Dims{Regions: 6, Feature: tinyFeature, Vocab: tinyVocab}

// vseinfStep is a tiny VSE-infinity with AdamW.
func vseinfStep(t testing.TB, dev device.Device) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = models.VSEInf, "bigru", 8, 8
	return newStep(t, dev, o, manyRegions, loss.LMH, adamw(1e-2))
}

// vseinfBatch makes n pairs with captions of 2 to longest words, <mask> among them, and images of 1 to 6 regions.
func vseinfBatch(seed uint64, n, longest int) *data.Batch {
	b := tinyBatch(seed, n, longest)
	r := philox.NewKey(seed, "test regions").Stream(0)
	b.Features = nil
	for range n {
		c := 1 + r.IntN(6)
		b.Counts = append(b.Counts, int32(c))
		for range c * tinyFeature {
			b.Features = append(b.Features, float32(r.Float64()))
		}
	}
	b.Words[0][0] = tinyVocab
	return b
}
