package train

import (
	"math"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/device"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

const wide = 256 // of features, embeddings, words and similarity vectors: the fast kernels of float32 products need a few hundred terms

func wideStep(t *testing.T, dev device.Device, network string) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.EmbedDim, o.WordDim, o.SGRAF.SimDim = network, wide, wide, wide
	if network != models.VSEPP && network != models.VSRN {
		o.TextEncoder = "bigru"
	}
	o.VSRN.Caption = false
	return newStep(t, dev, o, models.Dims{Regions: tinyRegions, Feature: wide, Vocab: tinyVocab}, loss.LSH, DefaultOptimOptions()) // LSH: every pair has a gradient
}

// wideBatch is a batch with regions of many features; of VSE-infinity all images have all regions.
func wideBatch(network string) *data.Batch {
	b := tinyBatch(1, 6, 8)
	r := philox.NewKey(2, "wide regions").Stream(0)
	b.Dim, b.Images = wide, make([]float32, b.N*b.Regions*wide)
	for i := range b.Images {
		b.Images[i] = float32(r.Float64())
	}
	if network == models.VSEInf {
		for range b.N {
			b.RegionCounts = append(b.RegionCounts, int32(b.Regions))
		}
	}
	return b
}

// At widths where float32 products are done in bf16 parts and in fixed point, a step gives the loss and every gradient of float64, as close as float32
// comes. The golden cases are too narrow for those kernels.
func TestWideStepsAgreeWithFloat64(t *testing.T) {
	for _, network := range []string{models.VSEPP, models.VSRN, models.VSEInf, models.SAF, models.SGR} {
		t.Run(network, func(t *testing.T) {
			double, single := wideStep(t, newDevice(t, cpu.FP64), network), wideStep(t, newDevice(t, cpu.FP32), network)
			want, got := run(t, double, wideBatch(network)), run(t, single, wideBatch(network))
			if d := math.Abs(got.Loss - want.Loss); !(d <= 1e-6*want.Loss) {
				t.Errorf("loss %v, %v in float64", got.Loss, want.Loss)
			}
			for _, spec := range double.model.Session.Params.Specs {
				if spec.State {
					continue
				}
				g, exact := gradient(single, spec.Name), gradient(double, spec.Name)
				floor := 2e-7 * want.GradNorm // some gradients are rounding noise in float32 and 0 but for rounding in float64
				if d, size := distance(g, exact), norm(exact); !(d <= 1e-5*size+floor) {
					t.Errorf("gradient of %s: norm %.3g, off by %.3g", spec.Name, size, d)
				}
			}
		})
	}
}

func gradient(s *Step, name string) []float64 {
	return doubles(s.model.Session.Dev, s.model.Session.Params.Grad(name))
}

func norm(x []float64) float64 { return distance(x, make([]float64, len(x))) }

func distance(x, y []float64) (d float64) {
	for i, v := range x {
		d = math.Hypot(d, v-y[i])
	}
	return d
}
