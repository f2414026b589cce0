package train

import (
	"math"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/loss"
)

// bf16GPU is the emulated GPU with precision bf16; operands of all products lie in memory as bfloat16, or of none.
func bf16GPU(t testing.TB, copies, blas bool) device.Device {
	t.Helper()
	o := cuda.Options{Driver: emulator.Library(t), Precision: cuda.BF16, RoundFrom: math.MaxInt}
	if copies {
		o.RoundFrom = 1
	}
	if blas {
		o.BLAS = []string{o.Driver}
	}
	return openGPU(t, o)
}

// curveAt is the loss of n steps on batches that take turns.
func curveAt(t testing.TB, s *Step, n int, lr float64, batch func(seed uint64) *data.Batch) []float64 {
	t.Helper()
	var out []float64
	for i := range n {
		r, err := s.Run(batch(uint64(1+i%3)), lr, false)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		out = append(out, r.Loss)
	}
	return out
}

// Training on copies of the operands in bfloat16 does the same bits as on operands that every product rounds for
// itself: no copy is older than its value, after steps, recorded ones too, and after the parameters were set to the
// values in a checkpoint. It learns as in float32. Word vectors have a multiple of 8 values: others are multiplied in
// wider rows where operands are copied, in another order of sums.
func TestBF16Copies(t *testing.T) {
	for _, c := range []struct {
		name  string
		bound float64 // of the losses beside float32
		rate  float64
		blas  bool
		step  func(device.Device) *Step
		batch func(seed uint64) *data.Batch
	}{
		{"vsepp", 0.002, 1e-2, true, func(d device.Device) *Step { return tinyStep(t, d, loss.LMH, 0) },
			func(n uint64) *data.Batch { return shorten(tinyBatch(n, 6, 8), n, false) }},
		{"vsepp, own products", 0.002, 1e-2, false, func(d device.Device) *Step {
			return tinyStep(t, d, loss.LSEH, math.MaxInt)
		}, func(n uint64) *data.Batch { return tinyBatch(n, 6, 7) }},
		{"vseinf", 0.01, 1e-2, true, func(d device.Device) *Step { return vseinfStep(t, d) },
			func(n uint64) *data.Batch { return vseinfBatch(n, 6, 7) }},
		{"bert", 0.01, 1e-2, true, func(d device.Device) *Step { return bertStep(t, d, adamw(1e-2), 16) },
			func(n uint64) *data.Batch { return vseinfBatch(n, 6, 7) }},
		{"saf", 0.06, 1e-2, true, func(d device.Device) *Step { return pairStep(t, d, "saf", loss.LSH) },
			func(n uint64) *data.Batch { return tinyBatch(n, 6, 12) }},
		{"sgr", 0.02, 1e-2, true, func(d device.Device) *Step { return pairStep(t, d, "sgr", loss.LSH) },
			func(n uint64) *data.Batch { return tinyBatch(n, 4, 12) }},
		{"gsmn", 0.02, 1e-3, true, func(d device.Device) *Step {
			return gsmnStep(t, d, gsmnModes["sparse, others"], loss.LMH)
		}, func(n uint64) *data.Batch { return gsmnBatch(n, 6, 7) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const steps = 8
			train := func(s *Step) (losses []float64, params []float32) {
				v := s.model.Instance.Params.Values()
				params = make([]float32, v.N)
				s.model.Instance.Dev.DownloadFloats(params, v)
				losses = curveAt(t, s, steps, c.rate, c.batch)
				s.model.Instance.Dev.UploadFloats(v, params) // as loading a checkpoint does
				losses = append(losses, curveAt(t, s, 2, c.rate, c.batch)...)
				s.model.Instance.Dev.DownloadFloats(params, v)
				return losses, params
			}
			copied := c.step(bf16GPU(t, true, c.blas))
			got, gotParams := train(copied)
			want, wantParams := train(c.step(bf16GPU(t, false, c.blas)))
			if !slices.Equal(got, want) || !slices.Equal(gotParams, wantParams) {
				t.Errorf("losses on copies %v, without %v; the same parameters: %v", got, want,
					slices.Equal(gotParams, wantParams))
			}
			if copied.recorder.Replayed < 2 {
				t.Errorf("%d steps were replayed", copied.recorder.Replayed)
			}
			single, _ := train(c.step(newDevice(t, "fp32")))
			for i, x := range single {
				if d := math.Abs(got[i] - x); !(d <= c.bound*math.Abs(x)) || math.IsNaN(x) {
					t.Errorf("loss of step %d is %v, %v in float32", i, got[i], x)
				}
			}
			if slices.Equal(got, single) {
				t.Error("nothing was rounded")
			}
			t.Logf("%s: bf16 %.5v, fp32 %.5v", c.name, got, single)
		})
	}
}
