package models

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// The weights of words and regions are softmax(λ n(leaky(w·v))), n over the words of the caption for each region, and
// the softmax over the regions; with SCAN's i2t both the other way.
func TestWordAttention(t *testing.T) {
	const c, regions = 3, 5
	for _, x := range []struct {
		network string
		lambda  float64
		set     func(*Options)
	}{{SAF, 9, nil}, {SGR, 9, nil}, {GSMN, 20, func(o *Options) { o.GSMN.Lambda, o.GSMN.Mode = 20, "dense" }},
		{SCAN, 9, func(o *Options) { o.SCAN.Lambda = 9 }},
		{SCAN, 4, func(o *Options) { o.SCAN.Attention, o.SCAN.Lambda = "i2t", 4 }}} {
		o := DefaultOptions()
		o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.SGRAF.SimDim = x.network, "bigru", 48, 8, 24
		if x.set != nil {
			x.set(&o)
		}
		d := Dims{Regions: regions, Feature: 7, Vocab: 30}
		m := try.Get(NewModel(newDevice(t, cpu.FP32), o, d))(t)
		m.Init(4, nil)
		im, text := drawn("attention", d, 2, 7, 4, 2)
		var images, captions EncodedSet
		run := NewRunner(m, nil).Pairs
		try.Do(t, run.AppendImages(&images, im, 2))
		try.Do(t, run.AppendCaptions(&captions, text, c))
		overWords := o.SCAN.Attention == "i2t" && x.network == SCAN
		for i := range 2 {
			for k := range c {
				got := try.Get(run.Attention(&images, i, &captions, k))(t)
				want := plainAttention(images.Values[0].rows(i, i+1), captions.Words[0].rows(captions.First[k],
					captions.First[k+1]), regions, x.lambda, overWords)
				if len(got) != len(want) {
					t.Fatalf("%s: %d weights, want %d", x.network, len(got), len(want))
				}
				for j := range want {
					if math.Abs(float64(got[j])-want[j]) > 1e-5 {
						t.Fatalf("%s, over words %v: image %d, caption %d: weights %v, want %v", x.network,
							overWords, i, k, got, want)
					}
				}
			}
		}
	}
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.CHAN.Heads = CHAN, "bigru", 16, 8, 2
	m, err := NewModel(newDevice(t, cpu.FP32), o, Dims{Regions: 2, Feature: 4, Vocab: 5})
	try.Do(t, err)
	_, err = NewRunner(m, nil).Pairs.Attention(&EncodedSet{}, 0, &EncodedSet{Length: []int32{2}}, 0)
	try.Fails(t, err, "does not let words attend to regions; saf, sgr, gsmn, scan do")
}

// plainAttention computes the weights [words, regions] from regions and words as the papers write them.
func plainAttention(regions, words []float32, r int, lambda float64, overWords bool) []float64 {
	e := len(regions) / r
	n := len(words) / e
	out := make([]float64, n*r)
	for j := range n {
		for k := range r {
			sum := 0.0
			for i := range e {
				sum += float64(words[j*e+i]) * float64(regions[k*e+i])
			}
			if sum < 0 {
				sum *= 0.1
			}
			out[j*r+k] = sum
		}
	}
	rows, columns, at := n, r, func(row, column int) *float64 { return &out[row*r+column] }
	if overWords {
		rows, columns, at = r, n, func(row, column int) *float64 { return &out[column*r+row] }
	}
	for k := range columns {
		norm := 0.0
		for j := range rows {
			norm += *at(j, k) * *at(j, k)
		}
		for j := range rows {
			*at(j, k) /= math.Sqrt(norm) + 1e-8
		}
	}
	for j := range rows {
		sum := 0.0
		for k := range columns {
			*at(j, k) = math.Exp(lambda * *at(j, k))
			sum += *at(j, k)
		}
		for k := range columns {
			*at(j, k) /= sum
		}
	}
	return out
}
