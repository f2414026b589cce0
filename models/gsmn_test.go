package models

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device/cpu"
)

// The initial values are in the ranges of the reference, and the lengths of weight-normalised rows are the lengths of
// their directions.
func TestGSMNParameters(t *testing.T) {
	m := tinyModel(t, cpu.FP32, func(o *Options, _ *Dims) {
		o.Network, o.TextEncoder, o.EmbedDim = GSMN, "bigru", 16
	})
	values := m.doubles
	for _, layer := range []string{"i2t.out_1", "i2t.out_2", "t2i.out_1", "t2i.out_2"} {
		v := values(layer + ".weight_v")
		for i, g := range values(layer + ".weight_g") {
			var s float64
			for _, x := range v[i*32 : (i+1)*32] {
				s += x * x
			}
			if d := g - math.Sqrt(s); math.Abs(d) > 1e-6 || g == 0 {
				t.Errorf("%s: length %d is %v, its direction has %v", layer, i, g, math.Sqrt(s))
			}
		}
	}
	for name, bound := range map[string][2]float64{"mean_rho": {0, 1}, "precision_rho": {0, 1},
		"precision_theta": {0, 1}, "mean_theta": {-math.Pi, math.Pi}} {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, v := range values("i2t.graph_convolution_1." + name) {
			lo, hi = min(lo, v), max(hi, v)
		}
		if lo < bound[0] || hi > bound[1] || hi-lo < (bound[1]-bound[0])/4 {
			t.Errorf("%s lies in [%v, %v], want %v", name, lo, hi, bound)
		}
	}
}
