package models

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/torchfile"
	"vsetrain/lab/try"
)

func vseinfOptions(embed, word int) Options {
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = VSEInf, "bigru", embed, word
	return o
}

// The numbers of parameters of the published networks, by the size of the vocabulary.
func TestVSEInfSize(t *testing.T) {
	for vocab, want := range map[int]int{8481: 14_392_600, 11353: 15_254_200} {
		n := try.Get(newNetwork(vseinfOptions(1024, 300), Dims{Regions: 36, Feature: 2048, Vocab: vocab}))(t)
		got := 0
		for _, s := range specs(n.Params()) {
			if !s.State {
				got += s.Size()
			}
		}
		if got != want {
			t.Errorf("%d parameters with %d words, want %d", got, vocab, want)
		}
	}
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
	words := []int32{1, 7, 8, 9, 4, 5, 6, 7, 11, 2, 1, 5, 6, 2, 0, 0, 0, 0, 0, 0, 1, 20, 2, 0, 0, 0, 0, 0, 0, 0}
	lengths := []int32{10, 4, 3} // 20 is <mask>
	try.Do(t, run.Captions(all[:3*e], captionBatch(words, lengths, 10)))
	for i, l := range lengths {
		try.Do(t, run.Captions(one, captionBatch(words[i*10:], []int32{l}, 10)))
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
		value := func(name string) []float64 {
			v := m.Instance.Params.Value("img.mlp." + name)
			out := make([]float64, v.N)
			m.Instance.Dev.DownloadDoubles(out, v)
			return out
		}
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

func contents(m *Model) (out []float64) {
	for _, p := range m.Network.Params() {
		v := m.Instance.Params.Value(p.Name)
		x := make([]float64, v.N)
		m.Instance.Dev.DownloadDoubles(x, v)
		out = append(out, x...)
	}
	return out
}

// A checkpoint of the reference and back: names, sizes, running statistics, with the prefix of data parallelism and
// without.
func TestVSEInfReferenceCheckpoint(t *testing.T) {
	m := tinyVSEInf(t, cpu.FP32, nil)
	m.Instance.Dev.UploadFloats(m.Instance.Params.Value("img.mlp.bns.0.running_mean"), normals("mean", 4))
	path := filepath.Join(t.TempDir(), "model_best.pth")
	try.Do(t, ExportReference(path, m, &Checkpoint{Info: Info{Epoch: 3, Step: 70, Score: 50}},
		ExportOptions{Namespace: true}))
	for _, prefix := range []string{"", "module."} {
		top := rename(t, path, prefix)
		again := filepath.Join(t.TempDir(), "checkpoint.pth")
		try.Do(t, torchfile.Save(again, top))
		r := try.Get(OpenWeights(again, nil))(t)
		if o := r.Network(); o != m.Options {
			t.Errorf("prefix %q: options %+v, want %+v", prefix, o, m.Options)
		}
		if d := r.Sizes(); d.Vocab != 20 || d.Feature != 7 {
			t.Errorf("prefix %q: sizes %+v", prefix, d)
		}
		if e, s, score := r.Progress(); e != 3 || s != 70 || score != 50 {
			t.Errorf("progress %v %v %v", e, s, score)
		}
		other := try.Get(NewModel(newDevice(t, cpu.FP32), r.Network(), r.Sizes()))(t)
		try.Do(t, r.Restore(other))
		if !slices.Equal(contents(other), contents(m)) {
			t.Errorf("prefix %q: parameters have changed", prefix)
		}
	}
}

// rename loads a checkpoint and puts a prefix before the names of its tensors. It checks some names against the
// reference's.
func rename(t *testing.T, path, prefix string) *torchfile.Dict {
	t.Helper()
	v := try.Get(torchfile.Load(path))(t)
	top := v.(*torchfile.Dict)
	list, _ := top.Get("model")
	for i, item := range list.(*torchfile.List).Items {
		renamed, old := &torchfile.Dict{}, item.(*torchfile.Dict)
		for _, name := range [][]string{{"fc.weight", "mlp.layers.1.bias", "mlp.bns.1.weight", "mlp.bns.0.running_var",
			"mlp.bns.0.num_batches_tracked",
			"gpool.gru.weight_hh_l0_reverse", "gpool.linear.weight"},
			{"embed.weight", "rnn.bias_ih_l0_reverse", "gpool.gru.weight_ih_l0"}}[i] {
			if _, ok := old.Get(name); !ok {
				t.Errorf("state dict %d has no %s", i, name)
			}
		}
		for k, v := range old.All() {
			renamed.Set(prefix+k.(string), v)
		}
		list.(*torchfile.List).Items[i] = renamed
	}
	return top
}
