package train

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
	"vsetrain/loss"
	"vsetrain/models"
)

func emulatedGPU(t testing.TB, blas bool) device.Device {
	t.Helper()
	o := cuda.Options{Driver: emulator.Library(t)}
	if blas {
		o.BLAS = o.Driver
	}
	dev, err := cuda.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// curve is the loss of n steps on batches that take turns.
func curve(t testing.TB, s *Step, n int, batch func(seed uint64) *data.Batch) []float64 {
	t.Helper()
	var out []float64
	for i := range n {
		r, err := s.Run(batch(uint64(1+i%3)), 1e-2, false)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		out = append(out, r.Loss)
	}
	return out
}

// Training on the emulated GPU gives the loss curve of the CPU.
func TestCUDALossCurve(t *testing.T) {
	const steps = 10
	compare := func(name string, onCPU, onGPU []float64) {
		t.Helper()
		for i, want := range onCPU {
			if d := math.Abs(onGPU[i] - want); !(d <= 1e-4*math.Abs(want)) {
				t.Errorf("%s: loss of step %d is %v, %v on the CPU", name, i, onGPU[i], want)
				return
			}
		}
		if first, last := onCPU[0], onCPU[steps-1]; !(last < first) {
			t.Errorf("%s: the loss went from %v to %v: the network learns nothing, so the curves say little", name, first, last)
		}
	}
	for _, name := range []string{loss.LMH, loss.LSEH, loss.LSH, loss.LUWM} {
		for _, factorFrom := range []int{0, math.MaxInt} {
			batch := func(seed uint64) *data.Batch { return tinyBatch(seed, 6, 7) }
			compare(fmt.Sprintf("vsepp, %s, factored from %d", name, factorFrom),
				curve(t, tinyStepOn(t, newDevice(t, "fp32"), name, factorFrom), steps, batch),
				curve(t, tinyStepOn(t, emulatedGPU(t, factorFrom == 0), name, factorFrom), steps, batch))
		}
	}
	tiny := func(seed uint64) *data.Batch { return tinyBatch(seed, 6, 7) }
	compare(models.VSRN, curve(t, vsrnStep(t, newDevice(t, "fp32"), models.DefaultOptions().VSRN), steps, tiny),
		curve(t, vsrnStep(t, emulatedGPU(t, true), models.DefaultOptions().VSRN), steps, tiny))
	regions := func(seed uint64) *data.Batch { return vseinfBatch(seed, 6, 7) }
	compare(models.VSEInf, curve(t, vseinfStepOn(t, newDevice(t, "fp32")), steps, regions), curve(t, vseinfStepOn(t, emulatedGPU(t, false)), steps, regions))
	for i, name := range pairNetworks {
		longer := func(seed uint64) *data.Batch { return tinyBatch(seed, 6-2*i, 12) } // from which each of the two learns in so few steps
		compare(name, curve(t, pairStepOn(t, newDevice(t, "fp32"), name, loss.LSH), steps, longer),
			curve(t, pairStepOn(t, emulatedGPU(t, i == 0), name, loss.LSH), steps, longer))
	}
}
