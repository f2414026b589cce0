package models

import (
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// wordEncoder is the text encoder of networks that look at single words. For a caption w_1 … w_L it computes
//
//	gru     x_t = GRU_t over embed(w_1 … w_L)
//	bigru   x_t = (→GRU_t + ←GRU_t)/2
//	bert    x_t = W h_t + b, h the last hidden states of BERT over word pieces
type wordEncoder struct {
	Embed  nn.Embedding `param:"embed"`
	One    *nn.GRU      `param:"rnn"`
	Both   *nn.BiGRU    `param:"rnn"`
	Bert   nn.Bert      `param:"bert"` // in place of the three
	Linear nn.Linear    `param:"linear"`

	bert bool // instead of a GRU
}

// newWordEncoder returns the encoder that the options name. The word vectors of a GRU or BiGRU include extra words
// after the vocabulary, such as <mask>.
func newWordEncoder(o Options, d Dims, extra int) wordEncoder {
	var w wordEncoder
	switch o.TextEncoder {
	case TextBert:
		sizes := o.Bert.sizes(d.Vocab)
		w.bert, w.Bert, w.Linear = true, nn.NewBert(sizes), nn.NewLinear(sizes.Hidden, o.EmbedDim)
		return w
	case "bigru":
		both := nn.NewBiGRU(o.WordDim, o.EmbedDim)
		w.Both = &both
	default:
		one := nn.NewGRU(o.WordDim, o.EmbedDim)
		w.One = &one
	}
	w.Embed = nn.NewEmbedding(d.Vocab+extra, o.WordDim)
	return w
}

// states computes the vectors of all words: [B·L, E] packed, or with BERT [capacity, E] concatenated.
func (w *wordEncoder) states(g *graph.Graph, c Captions) (x *graph.Node, packed bool) {
	if w.bert {
		x = w.Bert.Forward(g, c.Words, c.Lengths)
		if n := c.capacity(); n < graph.Dim(x, 0) {
			x = g.SliceRows(x, 0, n)
		}
		return g.LinearRows(c.Lengths, w.Linear.Term(g, x)), false
	}
	x = w.Embed.Forward(g, c.Words, c.Lengths)
	if w.Both != nil {
		return w.Both.Mean(g, x, c.Lengths), true
	}
	return w.One.States(g, x, c.Lengths), true
}

// rows computes the vectors of all words, concatenated: [capacity, E].
func (w *wordEncoder) rows(g *graph.Graph, c Captions) *graph.Node {
	x, packed := w.states(g, c)
	if packed {
		x = g.CaptionRows(x, c.Lengths, c.capacity())
	}
	return x
}
