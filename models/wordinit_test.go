package models

import (
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// Every network with a table of words takes vectors for some of them, leaves the others as they are drawn, and keeps
// all of them in a checkpoint. BERT takes none.
func TestWordVectorsBeginTheTableOfEveryNetwork(t *testing.T) {
	const vocab, size = 9, 8
	for _, name := range Available() {
		for _, encoder := range published(name).TextEncoders {
			o := DefaultOptions()
			o.Network, o.EmbedDim, o.WordDim, o.TextEncoder = name, 32, size, encoder
			o.WordInit, o.WordFrozen = "glove.txt", true
			if err := o.Validate(); (err == nil) != (encoder != TextBert) {
				t.Errorf("%s with %s: %v", name, encoder, err)
			}
			if encoder == TextBert {
				continue
			}
			dev := try.Get(cpu.New(cpu.Options{Threads: 1, Precision: cpu.FP32}))(t)
			m := try.Get(NewModel(dev, o, Dims{Regions: 3, Feature: 5, Vocab: vocab}))(t)
			p := try.Get(wordsOf(m.Network))(t)
			words := vocab
			if o.Traits().MaskWord {
				words++
			}
			if !slices.Equal(p.Shape, []int{words, size}) || !p.State {
				t.Errorf("%s: a table of shape %v, frozen %v", name, p.Shape, p.State)
			}
			m.Init(1, nil)
			drawn, got := make([]float32, words*size), make([]float32, words*size)
			dev.DownloadFloats(drawn, m.Instance.Params.Value(wordTable))
			rows := make([][]float32, words)
			for _, i := range []int{0, 4, words - 1} {
				rows[i] = slices.Repeat([]float32{float32(10 + i)}, size)
			}
			from := Words{File: "glove.txt", SHA256: "abc", Found: 3, Of: words}
			try.Do(t, m.StartWords(rows, from))
			dev.DownloadFloats(got, m.Instance.Params.Value(wordTable))
			for i, v := range got {
				want := drawn[i]
				if row := rows[i/size]; row != nil {
					want = row[i%size]
				}
				if v != want {
					t.Fatalf("%s: value %d of word %d is %v, want %v", name, i%size, i/size, v, want)
				}
			}
			if m.Words == nil || *m.Words != from {
				t.Errorf("%s: the vectors come from %+v", name, m.Words)
			}
			try.Fails(t, m.StartWords(rows[1:], from), "the network has")
			dev.Close()
		}
	}
}

// CHAN draws the words that a file lacks from a normal distribution of deviation 1, and all words from Xavier's
// distribution where there is no file; the other networks draw from ±0.1 in both cases.
func TestWordsThatAFileLacks(t *testing.T) {
	const vocab, size = 2000, 64
	for _, c := range []struct {
		network, file string
		deviation     float64
	}{
		{CHAN, "glove.txt", 1}, {CHAN, "", math.Sqrt(2. / (vocab + 1 + size))},
		{SCAN, "glove.txt", 0.1 / math.Sqrt(3)}, {SCAN, "", 0.1 / math.Sqrt(3)},
	} {
		o := DefaultOptions()
		o.Network, o.EmbedDim, o.WordDim, o.TextEncoder, o.WordInit = c.network, 32, size, "bigru", c.file
		n := try.Get(newNetwork(o, Dims{Regions: 3, Feature: 5, Vocab: vocab}))(t)
		p := try.Get(wordsOf(n))(t)
		v := make([]float32, p.Shape[0]*size)
		p.Fill(v, 0, 1, nil)
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if d := math.Sqrt(sum / float64(len(v))); math.Abs(d/c.deviation-1) > 0.01 {
			t.Errorf("%s with the file %q: deviation %.4f, want %.4f", c.network, c.file, d, c.deviation)
		}
	}
}
