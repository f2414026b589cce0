package cuda_test

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// filtration is one of vectors of s values in evaluation, with the similarities before it: what it takes, of words and
// of captions, and Out. did is whether the device does it in one call.
type filtration struct {
	s                                                      int
	lengths                                                []int32
	words, captions                                        similarityInputs
	filter, filterBias, gamma, beta, runningMean, variance []float64
	out                                                    []float64
	did                                                    bool
}

type similarityInputs struct{ images, weights, rows, w, bias []float64 }

const filterE, filterEps = 16, 1e-5

// filtered evaluates a filtration in one call.
func (c *pairCase) filtered(s int) *filtration {
	const b, r, e, words, captions = caseB, caseR, filterE, caseWords, caseCaptions
	nodes := c.nan(b * caseNodes * s)
	local := device.Similarities{B: b, R: r, E: e, S: s, Lengths: c.lengths, Images: c.in(b * r * e),
		Weights: c.in(words * b * r), Rows: c.in(words * e), W: c.in(s * e), Bias: c.in(s), Nodes: nodes,
		Norms: c.nan(b * words), Contexts: c.nan(b * words), Filter: device.Filter{W: c.in(s), Bias: c.in(1),
			Logits: c.nan(b * caseNodes)}}
	global := local
	global.Global, global.Images, global.Rows, global.Norms = true, c.in(b*e), c.in(captions*e), c.nan(b*captions)
	global.W, global.Bias = c.in(s*e), c.in(s)
	a := device.Filtrate{B: b, S: s, Eps: filterEps, Lengths: c.lengths, X: nodes, Logits: local.Filter.Logits,
		Gamma: c.in(1), Beta: c.in(1), RunningMean: c.in(1), RunningVar: c.in(1), Out: c.nan(b * captions * s),
		Weights: c.nan(b * caseNodes), Mean: c.nan(captions), InvStd: c.nan(captions), Norms: c.nan(b * captions)}
	device.Do(c.Device, device.Fill{Dst: a.RunningVar, Value: 0.7})
	f := &filtration{s: s, lengths: c.lengths.Host}
	f.did = c.Do(&device.FiltrateSimilarities{Words: local, Captions: global, Filtrate: a})
	to := []*[]float64{&f.words.images, &f.words.weights, &f.words.rows, &f.words.w, &f.words.bias,
		&f.captions.images, &f.captions.rows, &f.captions.w, &f.captions.bias, &f.filter, &f.filterBias, &f.gamma,
		&f.beta, &f.runningMean, &f.variance, &f.out}
	c.read(local.Images, local.Weights, local.Rows, local.W, local.Bias, global.Images, global.Rows, global.W,
		global.Bias, local.Filter.W, local.Filter.Bias, a.Gamma, a.Beta, a.RunningMean, a.RunningVar, a.Out)
	try.Do(c.TB, c.Sync())
	c.Close()
	for i := range to {
		*to[i] = c.results[i]
	}
	return f
}

// vectors are W (u - c)∘(u - c) + Bias of all pairs, image after image, not of length 1. Products round operands.
func (x *similarityInputs) vectors(u []approx, s int, products func(float64) float64) []approx {
	const b, e = caseB, filterE
	rows := len(x.rows) / e
	z := make([]approx, b*rows*e)
	for i := range z {
		off := u[i].plus(approx{v: -x.rows[i%(rows*e)]})
		z[i] = off.times(off).as(products)
	}
	all := rowsOf(z, e).times(rowsOf(as(exactly(x.w), products), e).transposed(), b*rows, s, e)
	plusRow(all, exactly(x.bias))
	return all
}

// check compares Out with what the formulas of Similarities, Filter and Filtrate give with every rounding: weights
// and regions are operands of contexts, z and W operands of products; everything else is float32.
func (f *filtration) check(t *testing.T, what string, contexts, products func(float64) float64) {
	t.Helper()
	const b, r, e, words, captions = caseB, caseR, filterE, caseWords, caseCaptions
	u, _ := unitContexts(rowsOf(as(exactly(f.words.weights), contexts), b*r),
		rowsOf(as(exactly(f.words.images), contexts), e), b, words, r, e)
	ofWords := f.words.vectors(u, f.s, products)
	whole := make([]approx, b*captions*e) // the image itself for each caption
	for i := range whole {
		whole[i].v = f.captions.images[i/(captions*e)*e+i%e]
	}
	ofCaptions := f.captions.vectors(whole, f.s, products)
	mean, gamma, beta := approx{v: -f.runningMean[0]}, approx{v: f.gamma[0]}, approx{v: f.beta[0]}
	inv := approx{v: 1 / math.Sqrt(f.variance[0]+float64(float32(filterEps)))}.rounded(1)
	var want []approx
	for pair := range b * captions {
		image, caption, first := pair/captions, pair%captions, 0
		for _, n := range f.lengths[:caption] {
			first += int(n)
		}
		total, gates := make([]sum, f.s), sum{}
		add := func(node []approx) {
			var z sum
			for k, v := range node {
				z.add(approx{v: f.filter[k]}, v)
			}
			scale := inverse(norm(node))
			logit := z.total().times(scale).plus(approx{v: f.filterBias[0]})
			gate := gamma.times(logit.plus(mean).times(inv)).plus(beta).through(sigmoid, inexact)
			gates.add(gate, approx{v: 1})
			for k, v := range node {
				total[k].add(gate.times(scale), v)
			}
		}
		add(ofCaptions[pair*f.s:][:f.s])
		for word := range int(f.lengths[caption]) {
			add(ofWords[(image*words+first+word)*f.s:][:f.s])
		}
		row := make([]approx, f.s)
		for k := range row {
			row[k] = total[k].total().times(inverse(gates.total()))
		}
		scale := inverse(norm(row))
		for k := range row {
			row[k] = row[k].times(scale)
		}
		want = append(want, row...)
	}
	within(t, what, f.out, want)
}

// A filtration in one call gives what its formulas give (filtration.check), in tiles and in another order of the
// threads. Larger vectors are refused, with nothing written.
func TestFiltrateSimilarities(t *testing.T) {
	for _, p := range []struct {
		precision string
		rounded   func(float64) float64
	}{{cuda.FP32, unrounded}, {cuda.BF16, bfloat16}} {
		for _, s := range []int{3, 256} {
			for order, tile := range []int{1, 1 << 20} {
				o := cuda.Options{Precision: p.precision, RoundFrom: 1, Limits: cuda.Limits{TileBytes: tile}}
				emulator.Set(t, "order", order, 0)
				f := newPairCase(t, open(t, o)).filtered(s)
				if !f.did {
					t.Fatalf("%d values are refused", s)
				}
				f.check(t, fmt.Sprintf("%+v, %d values", o, s), p.rounded, p.rounded)
			}
			emulator.Set(t, "order", 0, 0)
		}
	}
	if f := newPairCase(t, open(t, cuda.Options{})).filtered(257); f.did || !math.IsNaN(f.out[0]) {
		t.Errorf("257 values: %v, %v", f.did, f.out[0])
	}
}
