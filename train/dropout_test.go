package train

import (
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/loss"
	"vsetrain/models"
)

// With its dropout at 0 a network draws nothing in training: the loss does not depend on the seed of the run or the
// step. With the default it depends on both, and on nothing else.
func TestDropoutTurnedOff(t *testing.T) {
	sgraf := func(o *models.Options) { o.TextEncoder, o.SGRAF.SimDim = "bigru", 8 }
	pieces := manyRegions
	pieces.Vocab++
	for _, c := range []struct {
		network string
		set     func(o *models.Options)
		off     func(o *models.Options)
		dims    models.Dims
		batch   *data.Batch
	}{
		{models.SAF, sgraf, func(o *models.Options) { o.SGRAF.Dropout = 0 }, tinyDims, tinyBatch(1, 6, 9)},
		{models.SGR, sgraf, func(o *models.Options) { o.SGRAF.Dropout = 0 }, tinyDims, tinyBatch(1, 6, 9)},
		{models.VSRN, func(*models.Options) {}, func(o *models.Options) { o.VSRN.Dropout = 0 }, tinyDims,
			tinyBatch(1, 2, 3)},
		{models.VSEInf, func(o *models.Options) {
			o.TextEncoder = models.TextBert
			o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate, o.Bert.Positions = 2, 8, 2, 12, 16
		}, func(o *models.Options) { o.Bert.Dropout = 0 }, pieces, vseinfBatch(5, 6, 7)},
	} {
		t.Run(c.network, func(t *testing.T) {
			losses := func(o models.Options) (l [4]float64) {
				for i := range l {
					s := newStep(t, newDevice(t, cpu.FP32), o, c.dims, loss.LSH, adam(1e-3))
					s.model.Init(1, nil)
					s.Seed, s.opt.steps = uint64(5+i&1), int64(i&2)
					if i == 3 {
						s.Seed, s.opt.steps = 5, 0
					}
					l[i] = run(t, s, c.batch).Loss
				}
				return l
			}
			o := models.DefaultOptions()
			o.Network, o.EmbedDim, o.WordDim = c.network, 24, 8
			c.set(&o)
			if l := losses(o); l[0] == l[1] || l[0] == l[2] || l[0] != l[3] {
				t.Errorf("with dropout losses %v, want another of another seed and step, and the same of the first", l)
			}
			c.off(&o)
			if l := losses(o); l[0] != l[1] || l[0] != l[2] {
				t.Errorf("without dropout two seeds, and another step, give the losses %v", l)
			}
		})
	}
}
