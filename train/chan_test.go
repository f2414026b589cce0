package train

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// chanStep is a tiny CHAN with AdamW that drops regions; mask keeps what is dropped from being attended to.
func chanStep(t testing.TB, dev device.Device, mask bool) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.CHAN.Heads, o.CHAN.MaskPadding = models.CHAN, "bigru", 8, 4, 2,
		mask
	try.Do(t, o.Validate())
	return newStep(t, dev, o, manyRegions, loss.LMH, adamw(1e-2))
}

// The loss falls, a parameter that nothing reads stays as it is, and nothing is allocated.
func TestCHANTrains(t *testing.T) {
	s := chanStep(t, newDevice(t, cpu.FP32), false)
	a, b := vseinfBatch(1, 6, 12), vseinfBatch(2, 4, 5)
	unused := s.model.Instance.Params.Value("txt.fc.weight")
	before := doubles(s.model.Instance.Dev, unused)
	first := run(t, s, a).Loss
	for range 40 {
		run(t, s, a)
		run(t, s, b)
	}
	if last := run(t, s, a).Loss; !(last < first/2) {
		t.Errorf("the loss went from %v to %v in 40 steps", first, last)
	}
	if !slices.Equal(doubles(s.model.Instance.Dev, unused), before) {
		t.Error("weight decay changed a parameter without a gradient")
	}
	if n := testing.AllocsPerRun(10, func() { run(t, s, a); run(t, s, b) }); n != 0 {
		t.Errorf("%v allocations in two steps", n)
	}
}
