package train

import (
	"math"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/definitions"
	"vsetrain/lab/reference"
	"vsetrain/loss"
	"vsetrain/models"
)

// Two float64 devices sum the same values in another order. These bounds on what that may do in a few steps are
// relative, to the loss and to the largest parameter: Adam divides a gradient by its size, so one that is 0 but for
// rounding moves its parameter by much more than rounding.
const toyLoss, toyParams = 1e-11, 1e-9

// Every network and loss trains on a device that has the core alone as it does on the CPU, whose kernels are fused.
func TestReferenceTrainsEveryNetwork(t *testing.T) {
	cases := recordedCases(t)
	images := published(t, models.SCAN)
	images.SCAN.Attention = "i2t"
	cases = append(cases, recordedCase{"scan i2t", 5, 1e-2,
		func(d device.Device) *Step { return newStep(t, d, images, tinyDims, loss.LMH, adam(1e-2)) },
		func(i int) *data.Batch { return tinyBatch(uint64(i), 6, 8) }})
	trained := map[string]bool{}
	for _, c := range cases {
		own := c.step(newDevice(t, cpu.FP64))
		trained[own.model.Options.Network] = true
		t.Run(c.name, func(t *testing.T) {
			steps := min(c.steps, 4)
			if strings.HasSuffix(c.name, "captions true") {
				steps = 2 // of its decoder the sizes are fixed, and plain loops slow
			}
			want, wantParams := trainCase(t, own, c, steps)
			got, gotParams := trainCase(t, c.step(definitions.Over(reference.New())), c, steps)
			for i, w := range want {
				if !(math.Abs(got[i].Loss-w.Loss) <= toyLoss*math.Abs(w.Loss)) {
					t.Errorf("step %d: loss %.15g, the CPU has %.15g", i, got[i].Loss, w.Loss)
				}
			}
			most := 0.0
			for _, p := range wantParams {
				most = max(most, math.Abs(p))
			}
			for i, p := range wantParams {
				if !(math.Abs(gotParams[i]-p) <= toyParams*most) {
					t.Fatalf("parameter %d of %d is %.15g, %.15g on the CPU", i, len(wantParams), gotParams[i], p)
				}
			}
		})
	}
	for _, name := range models.Available() {
		if !trained[name] {
			t.Errorf("no case trains %s", name)
		}
	}
}
