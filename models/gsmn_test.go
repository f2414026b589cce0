package models

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// The published sizes, and initial values in the ranges of the reference: the lengths of weight-normalised rows are
// the lengths of their directions.
func TestGSMNParameters(t *testing.T) {
	o := DefaultOptions()
	o.Network, o.TextEncoder = GSMN, "bigru"
	n := try.Get(newNetwork(o, Dims{Regions: 36, Feature: 2048, Vocab: 8481}))(t)
	total := 0
	for _, p := range n.Params() {
		size := 1
		for _, d := range p.Shape {
			size *= d
		}
		total += size
	}
	if total != 12_792_760 {
		t.Errorf("%d parameters, want 12,792,760", total)
	}

	o.EmbedDim, o.WordDim = 16, 4
	m := try.Get(NewModel(newDevice(t, cpu.FP32), o, Dims{Regions: 3, Feature: 5, Vocab: 9}))(t)
	m.Init(7, nil)
	values := func(name string) []float64 {
		v := m.Instance.Params.Value(name)
		out := make([]float64, v.N)
		m.Instance.Dev.DownloadDoubles(out, v)
		return out
	}
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
