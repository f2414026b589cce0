package nn

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// BERT (Devlin, Chang, Lee, Toutanova: "BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding", NAACL 2019) with the parameter names of Hugging Face's BertModel. For a caption of n word pieces
// w_1 … w_n, including [CLS] and [SEP], with hidden size D, A heads and inner size F:
//
//	x⁰_t = dropout(LN(word(w_t) + position(t) + type(0)))                         [n, D]
//	a = softmax(Q K^T/√(D/A)) V, Q = x W_q + b_q …, each head on its D/A columns   [n, D]
//	u = LN(x + dropout(W_o a + b_o))     x' = LN(u + dropout(W₂ GELU(W₁ u + b₁) + b₂))
//
// Captions are concatenated, so padding is not computed. Word 0, [PAD], is never attended to.

// BertSizes are the sizes of an encoder.
type BertSizes struct {
	Vocab, Layers, Hidden, Heads, Intermediate, Positions int

	Dropout float64 // of embeddings, attention weights and both branches, in training
}

// BertEps is the ε of every layer norm of BERT.
const BertEps = 1e-12

// LayerNorm is torch.nn.LayerNorm over the last axis.
type LayerNorm struct {
	Weight Param `param:"weight"` // [D]
	Bias   Param `param:"bias"`   // [D]
	eps    float64
}

func newLayerNorm(d int, eps float64) LayerNorm {
	return LayerNorm{Weight: Param{Shape: []int{d}, Init: Constant(1)}, Bias: Param{Shape: []int{d}, Init: Constant(0)},
		eps: eps}
}

func (l *LayerNorm) weights(g *graph.Graph) graph.LayerNormWeights {
	return graph.LayerNormWeights{Weight: l.Weight.Node(g), Bias: l.Bias.Node(g), Eps: l.eps}
}

// BertLayer is one layer of BERT.
type BertLayer struct {
	Attention struct {
		// Self holds the three weights, then the three biases. Parameters are in memory in the order of the fields, so
		// that one product computes all three.
		Self struct {
			QueryW Param `param:"query.weight"`
			KeyW   Param `param:"key.weight"`
			ValueW Param `param:"value.weight"`
			QueryB Param `param:"query.bias"`
			KeyB   Param `param:"key.bias"`
			ValueB Param `param:"value.bias"`
		} `param:"self"`
		Output bertOutput `param:"output"`
	} `param:"attention"`
	Intermediate struct {
		Dense Linear `param:"dense"`
	} `param:"intermediate"`
	Output bertOutput `param:"output"`
}

type bertOutput struct {
	Dense Linear    `param:"dense"`
	Norm  LayerNorm `param:"LayerNorm"`
}

// Bert is a BERT encoder.
type Bert struct {
	Embeddings struct {
		Word     Embedding `param:"word_embeddings"`
		Position Embedding `param:"position_embeddings"`
		Type     Embedding `param:"token_type_embeddings"`
		Norm     LayerNorm `param:"LayerNorm"`
	} `param:"embeddings"`
	Encoder struct {
		Layers []BertLayer `param:"layer"`
	} `param:"encoder"`
	Pooler struct {
		Dense Linear `param:"dense"`
	} `param:"pooler"`
	sizes BertSizes
}

// BertGroup is the optimiser group of the parameters of a Bert.
const BertGroup = "bert"

// NewBert returns an encoder with BERT's initialisation: weights normal with deviation 0.02, biases zero.
func NewBert(s BertSizes) Bert {
	b := Bert{sizes: s}
	e := &b.Embeddings
	e.Word, e.Position = bertTable(s.Vocab, s.Hidden), bertTable(s.Positions, s.Hidden)
	e.Type, e.Norm = bertTable(2, s.Hidden), newLayerNorm(s.Hidden, BertEps)
	for range s.Layers {
		var l BertLayer
		self, part := &l.Attention.Self, bertLinear(s.Hidden, s.Hidden)
		self.QueryW, self.KeyW, self.ValueW = part.Weight, part.Weight, part.Weight
		self.QueryB, self.KeyB, self.ValueB = part.Bias, part.Bias, part.Bias
		l.Attention.Output = bertOutput{bertLinear(s.Hidden, s.Hidden), newLayerNorm(s.Hidden, BertEps)}
		l.Intermediate.Dense = bertLinear(s.Hidden, s.Intermediate)
		l.Output = bertOutput{bertLinear(s.Intermediate, s.Hidden), newLayerNorm(s.Hidden, BertEps)}
		b.Encoder.Layers = append(b.Encoder.Layers, l)
	}
	b.Pooler.Dense = bertLinear(s.Hidden, s.Hidden)
	for _, p := range Collect(&b) {
		p.Name, p.Group = "", BertGroup
	}
	return b
}

func bertTable(n, d int) Embedding { return Embedding{Param{Shape: []int{n, d}, Init: Normal(0.02)}} }

func bertLinear(in, out int) Linear {
	return Linear{Weight: Param{Shape: []int{out, in}, Init: Normal(0.02)},
		Bias: Param{Shape: []int{out}, Init: Constant(0)}}
}

func (l *Linear) weights(g *graph.Graph) graph.LinearWeights {
	return graph.LinearWeights{W: l.Weight.Node(g), B: l.Bias.Node(g)}
}

// Forward encodes words [B, L] with lengths [B] and returns the last hidden states, concatenated: [B·L, D].
func (b *Bert) Forward(g *graph.Graph, words, lengths *graph.Node) *graph.Node {
	e, rate := &b.Embeddings, b.sizes.Dropout
	x := g.BertEmbeddings(words, lengths, e.Word.Weight.Node(g), e.Position.Weight.Node(g), e.Type.Weight.Node(g))
	x = g.LayerNormRows(x, lengths, e.Norm.weights(g))
	x = g.Dropout(x, g.RowIndices(graph.Dim(x, 0), graph.Concatenated, lengths, nil), rate, "bert.embeddings")
	for i := range b.Encoder.Layers {
		l, name := &b.Encoder.Layers[i], fmt.Sprintf("bert.%d.", i)
		s, o := &l.Attention.Self, &l.Attention.Output
		part := func(w, b *Param) graph.LinearWeights { return graph.LinearWeights{W: w.Node(g), B: b.Node(g)} }
		x = g.AttentionLayer(x, words, lengths, graph.AttentionWeights{Query: part(&s.QueryW, &s.QueryB),
			Key: part(&s.KeyW, &s.KeyB), Value: part(&s.ValueW, &s.ValueB),
			Output: o.Dense.weights(g), Norm: o.Norm.weights(g), Heads: b.sizes.Heads}, rate, name+"attention")
		x = g.PerceptronLayer(x, lengths, graph.PerceptronWeights{Inner: l.Intermediate.Dense.weights(g),
			Outer: l.Output.Dense.weights(g), Norm: l.Output.Norm.weights(g)}, rate, name+"perceptron")
	}
	return x
}

// Pooled computes tanh(W_p h + b_p) of the last hidden state h of [CLS]: hidden [B·L, D] → [B, D]. No network trains
// it.
func (b *Bert) Pooled(g *graph.Graph, hidden, lengths *graph.Node) *graph.Node {
	return g.Activate(device.Tanh, b.Pooler.Dense.Forward(g, g.FirstRows(hidden, lengths)))
}
