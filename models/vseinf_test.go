package models

import (
	"math"
	"slices"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

func vseinfOptions(embed, word int) Options {
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = VSEInf, "bigru", embed, word
	return o
}

func tinyVSEInf(t *testing.T, precision string, change func(*Options)) *Model {
	t.Helper()
	o := vseinfOptions(8, 5)
	if change != nil {
		change(&o)
	}
	m := try.Get(NewModel(newDevice(t, precision), o, Dims{Regions: 6, Feature: 7, Vocab: 20}))(t)
	m.Init(5, nil)
	return m
}

func normals(purpose string, n int) []float32 {
	s := philox.NewKey(2, purpose).Stream(0)
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(s.Norm())
	}
	return x
}

// captionBatch packs captions [n, width].
func captionBatch(words, lengths []int32, width int) batch.Captions {
	var b batch.Captions
	for i, n := range lengths {
		b.Add(words[i*width:][:n])
	}
	return b
}

func nearly(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !(math.Abs(float64(got[i]-want[i])) < 2e-6) {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// An image is a set of regions, and a batch is a set of images and captions: neither order nor company changes an
// embedding.
func TestVSEInfEmbedsAlone(t *testing.T) {
	m := tinyVSEInf(t, cpu.FP32, nil)
	const n, size, e = 4, 6 * 7, 8
	x, all, one := normals("regions", n*size), make([]float32, n*e), make([]float32, e)
	run := NewRunner(m, nil).Embeds
	try.Do(t, run.Images(all, batch.Images{N: n, Features: x}))
	for i := range n {
		shuffled := make([]float32, 0, size)
		for _, r := range []int{3, 0, 5, 1, 4, 2} {
			shuffled = append(shuffled, x[i*size+r*7:i*size+(r+1)*7]...)
		}
		try.Do(t, run.Images(one, batch.Images{N: 1, Features: shuffled}))
		nearly(t, "an image alone, its regions in another order", one, all[i*e:(i+1)*e])
	}
	const mask = 20
	captionsAlone(t, run, []int32{1, 7, 8, 9, 4, 5, 6, 7, 11, 2}, []int32{1, 5, 6, 2}, []int32{1, mask, 2})
}

// captionsAlone compares the embeddings of captions in a batch with their embeddings alone.
func captionsAlone(t *testing.T, run *EmbedRunner, captions ...[]int32) {
	t.Helper()
	var together batch.Captions
	for _, c := range captions {
		together.Add(c)
	}
	e := run.Dim()
	all, one := make([]float32, len(captions)*e), make([]float32, e)
	try.Do(t, run.Captions(all, together))
	for i, c := range captions {
		var alone batch.Captions
		alone.Add(c)
		try.Do(t, run.Captions(one, alone))
		nearly(t, "a caption alone", one, all[i*e:(i+1)*e])
	}
}

// In training, padding rows count in the statistics of batch norm unless bn_ignore_padding is set.
func TestVSEInfPaddingInStatistics(t *testing.T) {
	counts, rows := []int32{6, 2, 3}, 11
	x := normals("regions", rows*7)
	for _, ignore := range []bool{false, true} {
		m := tinyVSEInf(t, cpu.FP64, func(o *Options) { o.VSEInf.BNIgnorePadding = ignore })
		e := try.Get(m.compile(func(g *graph.Graph) *encoder {
			g.Training = true
			return results(m.Embedder().Images(g, m.ImageInputs(g, len(counts)).Regions))
		}))(t)
		try.Do(t, NewFeeder(m, nil, false).Images(batch.Images{N: len(counts), Features: x, Counts: counts}))
		try.Do(t, e.prog.RunAll())
		value := func(name string) []float64 { return m.doubles("img.mlp." + name) }
		w, b, mean, variance := value("layers.0.weight"), value("layers.0.bias"), value("bns.0.running_mean"),
			value("bns.0.running_var")
		for c := range b {
			h := make([]float64, rows)
			for r := range h {
				h[r] = b[c]
				for k := range 7 {
					h[r] += w[c*7+k] * float64(x[r*7+k])
				}
			}
			if !ignore {
				h = append(h, slices.Repeat([]float64{b[c]}, 3*6-rows)...)
			}
			var sum, squares float64
			for _, v := range h {
				sum += v / float64(len(h))
			}
			for _, v := range h {
				squares += (v - sum) * (v - sum) / float64(len(h)-1)
			}
			if math.Abs(mean[c]-0.1*sum) > 1e-12 || math.Abs(variance[c]-0.9-0.1*squares) > 1e-12 {
				t.Errorf("ignore %v, channel %d: running mean %v and variance %v, want %v and %v", ignore, c, mean[c],
					variance[c], 0.1*sum, 0.9+0.1*squares)
			}
		}
	}
}

func TestFeederRefusesBadCounts(t *testing.T) {
	f := NewFeeder(tinyVSEInf(t, cpu.FP32, nil), nil, false)
	feed := func(rows int, counts []int32) error {
		return f.Images(batch.Images{N: 2, Features: make([]float32, rows*7), Counts: counts})
	}
	for what, counts := range map[string][]int32{"none": {0, 3}, "too many": {7, 1}, "too few values": {6, 6},
		"two of three": {1, 1, 1}} {
		if err := feed(3, counts); err == nil {
			t.Errorf("%s: %v was accepted", what, counts)
		}
	}
	try.Do(t, feed(3, []int32{1, 2}))
	try.Do(t, feed(12, nil))
}
