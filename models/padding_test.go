package models

import (
	"math"
	"math/rand/v2"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// countedOptions draws options of a network that takes images of different numbers of regions.
func countedOptions(rng *rand.Rand, name string) Options {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = name, "bigru", 8, 3
	o.CHAN = CHANOptions{ImageEncoder: pick("selfattention", "basic", "transformer"), Axis: "regions", Heads: 2,
		Coding: pick("vha", "tha", "vsa"), Pooling: pick("lse", "mean", "max", "sum", "softmax"), Alpha: 0.3, Beta: 0.4,
		NoImgNorm: rng.IntN(2) == 0, SizeAugment: rng.IntN(2) == 0}
	o.SCAN = SCANOptions{Attention: pick("t2i", "i2t"), Aggregate: pick("lse", "mean", "max", "sum"), Lambda: 3,
		LambdaLSE: 2, WeightNorm: rng.IntN(2) == 0, NoImgNorm: rng.IntN(2) == 0,
		Norm: pick("clipped_l2norm", "l2norm", "clipped_l1norm", "l1norm", "clipped", "no_norm", "softmax")}
	o.VSEInf = VSEInfOptions{BNIgnorePadding: rng.IntN(2) == 0, SizeAugment: rng.IntN(2) == 0}
	return o
}

// scoresOf are the scores [images, captions] of concatenated regions.
func scoresOf(t *testing.T, m *Model, images batch.Images, captions batch.Captions) []float32 {
	t.Helper()
	r, n := NewRunner(m, nil), len(captions.Lengths)
	out := make([]float32, images.N*n)
	if r.Embeds != nil {
		i, c := make([]float32, images.N*r.Embeds.Dim()), make([]float32, n*r.Embeds.Dim())
		try.Do(t, r.Embeds.Images(i, images))
		try.Do(t, r.Embeds.Captions(c, captions))
		try.Do(t, r.Embeds.Scores(out, i, c, images.N, n))
		return out
	}
	var i, c EncodedSet
	try.Do(t, r.Pairs.AppendImages(&i, images, images.N))
	try.Do(t, r.Pairs.AppendCaptions(&c, captions, n))
	try.Do(t, r.Pairs.Score(out, &i, 0, images.N, &c, 0, n, c.First[n]))
	return out
}

// An image that has fewer regions than the others has the scores that it has alone, in an array of its own regions,
// whatever the array of all of them is padded to.
func TestPaddingChangesNoScore(t *testing.T) {
	const feature, vocab = 5, 7
	for _, name := range NamesWhere(func(t Traits) bool { return t.Counts }) {
		for seed := range uint64(24) {
			rng := rand.New(rand.NewPCG(seed, 3))
			o := countedOptions(rng, name)
			counts := make([]int32, 1+rng.IntN(6))
			var features []float32
			for i := range counts {
				counts[i] = 1 + rng.Int32N(6)
				for range counts[i] * feature {
					features = append(features, float32(rng.NormFloat64()))
				}
			}
			var captions batch.Captions
			for _, n := range []int{5, 4, 2} {
				words := make([]int32, n)
				for i := range words {
					words[i] = rng.Int32N(vocab)
				}
				captions.Add(words)
			}
			first := try.Get(NewModel(newDevice(t, cpu.FP64), o, Dims{Regions: 6, Feature: feature, Vocab: vocab}))(t)
			first.Init(seed, nil)
			model := func(d Dims) *Model {
				m := try.Get(NewModel(newDevice(t, cpu.FP64), o, d))(t)
				m.Instance.Dev.UploadDoubles(m.Instance.Params.Values(), values(first))
				return m
			}
			want, at := []float32(nil), 0
			for _, n := range counts {
				alone := model(Dims{Regions: int(n), Feature: feature, Vocab: vocab})
				own := features[at : at+int(n)*feature]
				want = append(want, scoresOf(t, alone, batch.Images{N: 1, Features: own}, captions)...)
				at += len(own)
			}
			for _, r := range []int{6, 6 + rng.IntN(9)} {
				m := model(Dims{Regions: r, Feature: feature, Vocab: vocab, Counted: true})
				got := scoresOf(t, m, batch.Images{N: len(counts), Features: features, Counts: counts}, captions)
				for i := range want {
					if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-6*math.Max(1, math.Abs(float64(want[i])))) {
						t.Fatalf("%s, seed %d, %d places: score %d is %v, alone %v\ncounts %v, %+v %+v %+v", name, seed,
							r, i, got[i], want[i], counts, o.CHAN, o.SCAN, o.VSEInf)
					}
				}
			}
		}
	}
}
