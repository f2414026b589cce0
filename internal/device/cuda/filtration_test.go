package cuda_test

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
)

// filtered evaluates a filtration of vectors of s values, in one call or in three; did is what the one call reports.
func (c *pairCase) filtered(s int, once bool) (out []float64, did bool) {
	const b, r, e, words, captions = caseB, caseR, 16, caseWords, caseCaptions
	nodes := c.out(b * caseNodes * s)
	local := device.SimilarityArgs{B: b, R: r, E: e, S: s, Lengths: c.lengths, Images: c.in(b * r * e),
		Weights: c.in(words * b * r), Rows: c.in(words * e), W: c.in(s * e), Bias: c.in(s), Nodes: nodes,
		Norms: c.out(b * words), Contexts: c.out(b * words), Filter: device.Filter{W: c.in(s), Bias: c.in(1),
			Logits: c.out(b * caseNodes)}}
	global := local
	global.Global, global.Images, global.Rows, global.Norms = true, c.in(b*e), c.in(captions*e), c.out(b*captions)
	global.W, global.Bias = c.in(s*e), c.in(s)
	a := device.FilterArgs{B: b, S: s, Eps: 1e-5, Lengths: c.lengths, X: nodes, Logits: local.Filter.Logits,
		Gamma: c.in(1), Beta: c.in(1), RunningMean: c.in(1), RunningVar: c.in(1), Out: c.out(b * captions * s),
		Weights: c.out(b * caseNodes), Mean: c.out(captions), InvStd: c.out(captions), Norms: c.out(b * captions)}
	c.d.Fill(a.RunningVar, 0.7)
	if once {
		did = c.d.(device.Filterer).FiltrateSimilarities(local, global, a)
	} else {
		c.d.Similarities(local)
		c.d.Similarities(global)
		c.d.Filtrate(a)
	}
	out = make([]float64, a.Out.N)
	c.d.DownloadDoubles(out, a.Out)
	if err := c.d.Sync(); err != nil {
		c.t.Fatal(err)
	}
	c.d.Close()
	return out, did
}

// nearly fails where a result is further from another than the bound times its size.
func nearly(t *testing.T, what string, got, want []float64, bound float64) {
	t.Helper()
	size, most := 0.0, 0.0
	for i, v := range want {
		size = max(size, math.Abs(v))
		if d := math.Abs(got[i] - v); !(d <= most) {
			most = d
		}
	}
	if !(most <= bound*size) || size == 0 {
		t.Errorf("%s: off by %.3g of %.3g", what, most, size)
	}
}

// A filtration in one call gives what three calls give: float32 sums of the same products in another order. Larger
// vectors are refused, with nothing written.
func TestFiltrateSimilarities(t *testing.T) {
	for _, o := range []cuda.Options{{Precision: cuda.FP32}, {Precision: cuda.BF16, RoundFrom: 1}} {
		for _, s := range []int{3, 256} {
			want, _ := newPairCase(t, open(t, o)).filtered(s, false)
			for order, tile := range []int{1, 1 << 20} {
				o.Limits.TileBytes = tile
				emulator.Set(t, "order", order, 0)
				got, did := newPairCase(t, open(t, o)).filtered(s, true)
				if !did {
					t.Fatalf("%d values are refused", s)
				}
				nearly(t, fmt.Sprintf("%+v, %d values", o, s), got, want, 1e-5)
			}
			o.Limits.TileBytes = 0
			emulator.Set(t, "order", 0, 0)
		}
	}
	if got, did := newPairCase(t, open(t, cuda.Options{})).filtered(257, true); did || !math.IsNaN(got[0]) {
		t.Errorf("257 values: %v, %v", did, got[0])
	}
}
