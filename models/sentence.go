package models

import (
	"fmt"
	"strings"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// Sentence vectors of a pretrained BERT, frozen and in evaluation mode, are the semantic vectors of LSEH-BERT. From the
// last hidden states h_1 … h_n of a caption, with h_1 the state of [CLS]:
//
//	pooler   tanh(W_p h_1 + b_p)      cls   h_1      mean   1/n Σ h_t

// SentencePools are the names of the sentence vectors.
var SentencePools = []string{"pooler", "cls", "mean"}

// SentenceEncoder is a BERT on a device.
type SentenceEncoder struct {
	Options BertOptions
	bert    struct {
		Bert nn.Bert `param:"bert"`
	}
	model  *Model // the instance alone
	pool   string
	progs  map[[2]int]*encoder
	feeder *Feeder
}

// OpenSentenceEncoder reads an encoder from a folder. Its sizes follow from the tensors. The number of heads is the one
// in config.json, or one per 64 columns. vocab is the number of word pieces in vocab.txt.
func OpenSentenceEncoder(dev device.Device, dir string, vocab int, pool string) (*SentenceEncoder, error) {
	o, err := bertSizes(dir)
	if err != nil {
		return nil, err
	}
	e := &SentenceEncoder{Options: o, pool: pool, progs: map[[2]int]*encoder{},
		model: &Model{Options: Options{Network: TextBert}}}
	e.bert.Bert = nn.NewBert(o.sizes(vocab))
	params := nn.Collect(&e.bert)
	if e.model.Instance, err = graph.NewInstance(dev, specs(params)); err != nil {
		return nil, fmt.Errorf("BERT of %s: %w", dir, err)
	}
	e.feeder = &Feeder{instance: e.model.Instance}
	return e, loadBert(dir, params, vocab, e.model.upload)
}

// bertSizes returns the sizes of the encoder in a folder.
func bertSizes(dir string) (BertOptions, error) {
	o := DefaultOptions().Bert
	f, err := openBert(dir)
	if err != nil {
		return o, err
	}
	defer f.close()
	words, positions := f.shapes[bertWords], f.shapes["embeddings.position_embeddings.weight"]
	inner := func(layer int) []int {
		return f.shapes[fmt.Sprintf("encoder.layer.%d.intermediate.dense.weight", layer)]
	}
	if len(words) != 2 || len(positions) != 2 || len(inner(0)) != 2 || words[1] < 1 {
		return o, fmt.Errorf("%s: expected the tensors of a BERT encoder, %s among them", f.path, bertWords)
	}
	o.Hidden, o.Positions, o.Intermediate = words[1], positions[0], inner(0)[0]
	for o.Layers = 0; len(inner(o.Layers)) == 2; {
		o.Layers++
	}
	c, err := readBertConfig(dir, o.Hidden/headSize)
	if err != nil {
		return o, err
	}
	if o.Heads = c.Heads; o.Heads < 1 || o.Hidden%o.Heads != 0 {
		return o, fmt.Errorf("%s: %d heads for a hidden size of %d; set num_attention_heads in config.json", f.path,
			o.Heads, o.Hidden)
	}
	return o, c.check(o.Heads)
}

// Dim returns the length of a vector.
func (e *SentenceEncoder) Dim() int { return e.Options.Hidden }

// Encode writes the vectors of captions: dst [N, Dim].
func (e *SentenceEncoder) Encode(dst []float32, b batch.Captions) error {
	n, bucket := len(b.Lengths), Bucket(b.Longest())
	p, err := cached(e.model, e.progs, [2]int{n, bucket}, func(g *graph.Graph) *encoder {
		w, length := g.InputInts(InputWords, n, bucket), g.InputInts(InputLengths, n)
		return results(e.vectors(g, e.bert.Bert.Forward(g, w, length), length, bucket))
	})
	if err != nil {
		return err
	}
	if err := e.feeder.Captions(b); err != nil {
		return err
	}
	return e.model.run(p, dst)
}

func (e *SentenceEncoder) vectors(g *graph.Graph, hidden, lengths *graph.Node, longest int) *graph.Node {
	switch e.pool {
	case "pooler":
		return e.bert.Bert.Pooled(g, hidden, lengths)
	case "cls":
		return g.FirstRows(hidden, lengths)
	case "mean": // pooling with equal weights
		equal := make([]float64, longest*longest)
		for i := range longest {
			for j := range longest - i {
				equal[i*longest+j] = 1 / float64(longest-i)
			}
		}
		return g.SortPool(hidden, lengths, g.Const(fmt.Sprintf("const.mean.%d", longest), equal, longest, longest),
			false)
	}
	graph.Failf("sentence vectors %q, expected one of %s", e.pool, strings.Join(SentencePools, ", "))
	return nil
}
