package train

import (
	"testing"

	"vsetrain/internal/compute/device"
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
