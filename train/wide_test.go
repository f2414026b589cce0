package train

import (
	"math"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// of features, embeddings, words and similarity vectors: the fast kernels of float32 products need a few hundred terms
const wide = 256

func wideStep(t *testing.T, dev device.Device, network string) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.EmbedDim, o.WordDim, o.SGRAF.SimDim = network, wide, wide, wide
	if network != models.VSEPP && network != models.VSRN {
		o.TextEncoder = "bigru"
	}
	o.VSRN.Caption = false
	// LSH: every pair has a gradient
	s := newStep(t, dev, o, models.Dims{Regions: tinyRegions, Feature: wide, Vocab: tinyVocab}, loss.LSH,
		DefaultOptimOptions())
	s.Seed = 3 // SGR's query biases, whose terms cancel, are worse off at one seed in six
	for _, p := range s.model.Instance.Params.Specs {
		if strings.HasPrefix(p.Name, "img.Rs_GCN") && strings.HasSuffix(p.Name, ".W.1.weight") {
			// 0 at first, which leaves the layers before it without a gradient
			device.Do(dev, device.Fill{Dst: s.model.Instance.Params.Value(p.Name), Value: 0.5})
		}
	}
	return s
}

// wideBatch is a batch with regions of many features; of VSE-infinity all images have all regions.
func wideBatch(network string) *data.Batch {
	b := tinyBatch(1, 6, 8)
	r := philox.NewKey(2, "wide regions").Stream(0)
	b.Dim, b.Features = wide, make([]float32, b.N*b.Regions*wide)
	for i := range b.Features {
		b.Features[i] = float32(r.Float64())
	}
	if network == models.VSEInf {
		for range b.N {
			b.Counts = append(b.Counts, int32(b.Regions))
		}
	}
	return b
}

// At widths where float32 products are done in bf16 parts and in fixed point, a step gives the loss and every gradient
// of float64: to a part of 2e-5, or, where its terms cancel, to three times what sums of float32 in their plain order
// are off by. The golden cases are too narrow for those kernels.
func TestWideStepsAgreeWithFloat64(t *testing.T) {
	for _, network := range []string{models.VSEPP, models.VSRN, models.VSEInf, models.SAF, models.SGR} {
		t.Run(network, func(t *testing.T) {
			step := func(o cpu.Options) (*Step, StepResult) {
				o.Threads = 2
				s := wideStep(t, openCPU(t, o), network)
				return s, run(t, s, wideBatch(network))
			}
			double, want := step(cpu.Options{Precision: cpu.FP64})
			plain, _ := step(cpu.Options{BLAS: "generic"})
			single, got := step(cpu.Options{})
			if d := math.Abs(got.Loss - want.Loss); !(d <= 1e-6*want.Loss) {
				t.Errorf("loss %v, %v in float64", got.Loss, want.Loss)
			}
			compared := 0
			for _, spec := range double.model.Instance.Params.Specs {
				if spec.State {
					continue
				}
				exact := gradient(double, spec.Name)
				size := norm(exact)
				if size <= 1e-12*want.GradNorm { // zero but for rounding
					continue
				}
				compared++
				d, plainly := distance(gradient(single, spec.Name), exact), distance(gradient(plain, spec.Name), exact)
				if !(d <= max(2e-5*size, 3*plainly)) || !(plainly <= 0.01*size) {
					t.Errorf("gradient of %s: norm %.3g, off by %.3g, with plain sums by %.3g", spec.Name, size, d,
						plainly)
				}
			}
			if all := len(double.model.Instance.Params.Specs); compared < all/2 {
				t.Errorf("only %d of %d parameters have a gradient", compared, all)
			}
		})
	}
}

func gradient(s *Step, name string) []float64 {
	return doubles(s.model.Instance.Dev, s.model.Instance.Params.Grad(name))
}

func norm(x []float64) float64 { return distance(x, make([]float64, len(x))) }

func distance(x, y []float64) (d float64) {
	for i, v := range x {
		d = math.Hypot(d, v-y[i])
	}
	return d
}
