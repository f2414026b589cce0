package train

import (
	"bytes"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/loss"
	"vsetrain/models"
)

// gsmnStep is a tiny GSMN.
func gsmnStep(t testing.TB, dev device.Device, g models.GSMNOptions, lossName string) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.GSMN = models.GSMN, "bigru", 64, 8, g
	return newStep(t, dev, o, tinyDims, lossName, adam(1e-2))
}

// gsmnBatch makes n pairs with captions of 2 to longest words, boxes and a chain of dependencies.
func gsmnBatch(seed uint64, n, longest int) *data.Batch {
	b := tinyBatch(seed, n, longest)
	r := philox.NewKey(seed, "test boxes").Stream(0)
	b.Features = nil
	for range n * tinyRegions * tinyFeature {
		b.Features = append(b.Features, float32(r.Float64()))
	}
	for range n * tinyRegions {
		x, y := float32(r.Float64()/2), float32(r.Float64()/2)
		b.Boxes = append(b.Boxes, x, y, x+0.3, y+0.4)
	}
	return chain(b)
}

// chain joins the words of every caption to their neighbours, except for the first.
func chain(b *data.Batch) *data.Batch {
	b.Edges, b.EdgeStart = nil, []int32{0}
	for _, l := range b.Lengths {
		for i := int32(2); i < l; i++ {
			b.Edges = append(b.Edges, i-1, i)
		}
		b.EdgeStart = append(b.EdgeStart, int32(len(b.Edges)/2))
	}
	return b
}

// gsmnModes are the functions there are: with own vectors sparse and dense are the same.
var gsmnModes = map[string]models.GSMNOptions{
	"own":            {Mode: "sparse", Lambda: 20, Neighbors: "self"},
	"sparse, others": {Mode: "sparse", Lambda: 20, Neighbors: "true"},
	"dense, others":  {Mode: "dense", Lambda: 20, Neighbors: "true"},
}

// With own vectors the dependencies make no difference; with others' they do.
func TestGSMNModes(t *testing.T) {
	result := func(mode, neighbors string) []float64 {
		s := gsmnStep(t, newDevice(t, cpu.FP32), models.GSMNOptions{Mode: mode, Lambda: 20, Neighbors: neighbors},
			loss.LMH)
		run(t, s, gsmnBatch(1, 6, 12))
		return allNumbers(s)
	}
	own := result("sparse", "self")
	if i := differ(own, result("dense", "self")); i >= 0 {
		t.Errorf("sparse and dense with own vectors differ in number %d", i)
	}
	sparse, dense := result("sparse", "true"), result("dense", "true")
	if differ(own, sparse) < 0 || differ(sparse, dense) < 0 {
		t.Error("the neighbours make no difference")
	}
}

// What is missing is said.
func TestGSMNNeedsBoxesAndDependencies(t *testing.T) {
	s := gsmnStep(t, openCPU(t, cpu.Options{Threads: 1}), gsmnModes["sparse, others"], loss.LMH)
	for name, spoil := range map[string]func(b *data.Batch){
		"needs the boxes of the regions": func(b *data.Batch) { b.Boxes = nil },
		"needs the dependencies of 6 captions, found the dependencies of 0": func(
			b *data.Batch) {
			b.Edges, b.EdgeStart = nil, nil
		},
		"a word has one governor": func(b *data.Batch) {
			for range 300 {
				b.Edges = append(b.Edges, 0, 1)
			}
			b.EdgeStart[6] += 300
		},
	} {
		b := gsmnBatch(1, 6, 12)
		spoil(b)
		if _, err := s.Run(b, 1e-3, false); err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
