package models

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/regular"
	"vsetrain/models/nn"
)

// Sentence vectors of a pretrained BERT, frozen and in evaluation mode: the semantics of LSEH-BERT. With the last
// hidden states h_1 … h_n of a caption, h_1 the state of [CLS]:
//
//	pooler   tanh(W_p h_1 + b_p)      cls   h_1      mean   1/n Σ h_t

// SentencePools are the names of the vectors.
var SentencePools = []string{"pooler", "cls", "mean"}

// SentenceEncoder is a BERT on a device.
type SentenceEncoder struct {
	Options BertOptions
	bert    struct {
		Bert nn.Bert `param:"bert"`
	}
	instance *graph.Instance
	pool     string
	progs    map[[2]int]*encoder
	feeder   *Feeder
}

// OpenSentenceEncoder reads an encoder from a folder: its sizes are the sizes of its tensors, the heads the number in
// config.json, or of 64 columns if there is none. vocab is the number of pieces of its vocab.txt.
func OpenSentenceEncoder(dev device.Device, dir string, vocab int, pool string) (*SentenceEncoder, error) {
	o, err := bertSizes(dir)
	if err != nil {
		return nil, err
	}
	e := &SentenceEncoder{Options: o, pool: pool, progs: map[[2]int]*encoder{}}
	e.bert.Bert = nn.NewBert(o.sizes(vocab))
	params := nn.Collect(&e.bert)
	var specs []graph.ParamSpec
	for _, p := range params {
		specs = append(specs, graph.ParamSpec{Name: p.Name, Shape: p.Shape, Group: p.Group})
	}
	if e.instance, err = graph.NewInstance(dev, specs); err != nil {
		return nil, fmt.Errorf("BERT of %s: %w", dir, err)
	}
	e.feeder = &Feeder{instance: e.instance}
	return e, loadBert(dir, params, vocab, func(p *nn.Param,
		values []float32) {
		dev.UploadFloats(e.instance.Params.Value(p.Name), values)
	})
}

// bertSizes finds the sizes of the encoder in a folder.
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
	c := struct {
		Heads int `json:"num_attention_heads"`
	}{}
	b, err := regular.ReadFile(filepath.Join(dir, "config.json"), maxBertConfig, "the configuration of a BERT")
	if err == nil {
		err = jsontext.Unmarshal(b, &c)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return o, fmt.Errorf("BERT: %s: config.json: %w", dir, err)
	}
	if o.Heads = c.Heads; o.Heads == 0 {
		o.Heads = o.Hidden / headSize
	}
	if o.Heads < 1 || o.Hidden%o.Heads != 0 {
		return o, fmt.Errorf("%s: %d heads for a hidden size of %d; name the number in config.json as "+
			"num_attention_heads", f.path, o.Heads, o.Hidden)
	}
	return o, checkBertConfig(dir, o.Heads)
}

// Dim returns the length of a vector.
func (e *SentenceEncoder) Dim() int { return e.Options.Hidden }

// Encode writes the vectors of captions: dst [N, Dim].
func (e *SentenceEncoder) Encode(dst []float32, b batch.Captions) error {
	n := len(b.Lengths)
	key := [2]int{n, Bucket(b.Longest())}
	p := e.progs[key]
	if p == nil {
		p = &encoder{}
		g := e.instance.Graph()
		err := graph.Build(func() error {
			w, length := g.InputInts(InputWords, n, key[1]), g.InputInts(InputLengths, n)
			p.out = e.vectors(g, e.bert.Bert.Forward(g, w, length), length, key[1])
			var err error
			p.prog, err = graph.Compile(e.instance, g, []*graph.Node{p.out}, nil)
			return err
		})
		if err != nil {
			return fmt.Errorf("BERT: %w", err)
		}
		e.progs[key] = p
	}
	if err := e.feeder.Captions(b); err != nil {
		return err
	}
	if err := p.prog.RunAll(); err != nil {
		return fmt.Errorf("BERT: %w", err)
	}
	e.instance.Dev.DownloadFloats(dst, p.prog.View(p.out))
	return nil
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
