package nn

import (
	"math"

	"vsetrain/internal/compute/graph"
)

// Linear is y = x Wᵀ + b: x [N, I] → [N, O].
type Linear struct {
	Weight Param `param:"weight"` // [O, I]
	Bias   Param `param:"bias"`   // [O]
	Even   bool  // its products are even (device.Gemm)
}

// NewLinear returns a linear layer with PyTorch's default initialisation.
func NewLinear(in, out int) Linear {
	return Linear{Weight: Param{Shape: []int{out, in}, Init: fanIn(in)},
		Bias: Param{Shape: []int{out}, Init: fanIn(in)}}
}

// NewXavierLinear returns a linear layer with Xavier weights and zero bias, as the references' image encoders.
func NewXavierLinear(in, out int) Linear {
	return Linear{Weight: Param{Shape: []int{out, in}, Init: Xavier(in, out)},
		Bias: Param{Shape: []int{out}, Init: Constant(0)}}
}

// Forward adds the layer to a graph.
func (l *Linear) Forward(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Linear(l.Term(g, x))
}

// Conv is a convolution with a kernel of size 1, torch.nn.Conv1d(I, O, 1): a linear layer on every position, whose
// weight is stored with an axis more.
type Conv struct {
	Weight Param `param:"weight"` // [O, I, 1]
	Bias   Param `param:"bias"`   // [O]
}

// NewConv returns a convolution with PyTorch's default initialisation.
func NewConv(in, out int) Conv {
	return Conv{Weight: Param{Shape: []int{out, in, 1}, Init: fanIn(in)},
		Bias: Param{Shape: []int{out}, Init: fanIn(in)}}
}

// Forward applies the layer to every row of x [N, I]: [N, O].
func (l *Conv) Forward(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Linear(graph.LinearTerm{X: x, W: g.Reshape(l.Weight.Node(g), l.Weight.Shape[:2]...), B: l.Bias.Node(g)})
}

// Term is the layer as one of the terms of graph.LinearRows.
func (l *Linear) Term(g *graph.Graph, x *graph.Node) graph.LinearTerm {
	t := graph.LinearTerm{X: x, W: l.Weight.Node(g), Even: l.Even}
	if l.Bias.Shape != nil {
		t.B = l.Bias.Node(g)
	}
	return t
}

// Embedding is a table of word vectors [V, W]. Rows of words that do not occur get no gradient, <pad> among them.
type Embedding struct {
	Weight Param `param:"weight"`
}

// NewEmbedding returns a table drawn uniformly from ±0.1, as the references' text encoders.
func NewEmbedding(vocab, dim int) Embedding {
	return Embedding{Weight: Param{Shape: []int{vocab, dim}, Init: Uniform(0.1)}}
}

// Forward reads the vectors of words [B, L] with lengths [B], packed: [B·L, W].
func (e *Embedding) Forward(g *graph.Graph, words, lengths *graph.Node) *graph.Node {
	return g.Embedding(words, lengths, e.Weight.Node(g))
}

// GRU is one layer of gated recurrent units, one direction, with the parameter names of torch.nn.GRU.
type GRU struct {
	WIH Param `param:"weight_ih_l0"` // [3H, I]
	WHH Param `param:"weight_hh_l0"` // [3H, H]
	BIH Param `param:"bias_ih_l0"`   // [3H]
	BHH Param `param:"bias_hh_l0"`   // [3H]
}

// NewGRU returns a GRU drawn uniformly from ±1/√H.
func NewGRU(in, hidden int) GRU {
	u := Uniform(1 / math.Sqrt(float64(hidden)))
	return GRU{
		WIH: Param{Shape: []int{3 * hidden, in}, Init: u}, WHH: Param{Shape: []int{3 * hidden, hidden}, Init: u},
		BIH: Param{Shape: []int{3 * hidden}, Init: u}, BHH: Param{Shape: []int{3 * hidden}, Init: u},
	}
}

func (l *GRU) weights(g *graph.Graph) graph.GRUWeights {
	return graph.GRUWeights{WIH: l.WIH.Node(g), WHH: l.WHH.Node(g), BIH: l.BIH.Node(g), BHH: l.BHH.Node(g)}
}

// Final runs the layer over packed x [B·L, I] and returns the state after each caption's last word: [B, H].
func (l *GRU) Final(g *graph.Graph, x, lengths *graph.Node) *graph.Node {
	return g.GRU(x, lengths, l.weights(g), false, true)
}

// States returns the states of all words, packed: [B·L, H].
func (l *GRU) States(g *graph.Graph, x, lengths *graph.Node) *graph.Node {
	return g.GRU(x, lengths, l.weights(g), false, false)
}

// BatchNorm is torch.nn.BatchNorm1d: ε 1e-5, momentum 0.1. The running statistics are stored with the parameters and
// never optimised.
type BatchNorm struct {
	Weight Param `param:"weight"`
	Bias   Param `param:"bias"`
	Mean   Param `param:"running_mean"`
	Var    Param `param:"running_var"`
}

// NewBatchNorm returns a normalisation of c channels that starts as the identity on standardised values.
func NewBatchNorm(c int) BatchNorm {
	p := func(v float64, state bool) Param { return Param{Shape: []int{c}, Init: Constant(v), State: state} }
	return BatchNorm{Weight: p(1, false), Bias: p(0, false), Mean: p(0, true), Var: p(1, true)}
}

// Weights returns the nodes of the parameters.
func (l *BatchNorm) Weights(g *graph.Graph) graph.BatchNormWeights {
	return graph.BatchNormWeights{Weight: l.Weight.Node(g), Bias: l.Bias.Node(g), Mean: l.Mean.Node(g),
		Var: l.Var.Node(g)}
}

// BiGRU is one layer of gated recurrent units in both directions, with the parameter names of a bidirectional
// torch.nn.GRU.
type BiGRU struct {
	Forward  GRU     `param:""`
	Backward reverse `param:""`
}

// reverse is a GRU whose parameters carry the suffix of the backward direction.
type reverse struct {
	WIH Param `param:"weight_ih_l0_reverse"`
	WHH Param `param:"weight_hh_l0_reverse"`
	BIH Param `param:"bias_ih_l0_reverse"`
	BHH Param `param:"bias_hh_l0_reverse"`
}

// NewBiGRU returns a layer drawn uniformly from ±1/√H.
func NewBiGRU(in, hidden int) BiGRU {
	return BiGRU{NewGRU(in, hidden), reverse(NewGRU(in, hidden))}
}

// Mean returns (→h + ←h)/2 for all words of packed x [B·L, I], packed: [B·L, H].
func (l *BiGRU) Mean(g *graph.Graph, x, lengths *graph.Node) *graph.Node {
	backward := graph.GRUWeights{WIH: l.Backward.WIH.Node(g), WHH: l.Backward.WHH.Node(g), BIH: l.Backward.BIH.Node(g),
		BHH: l.Backward.BHH.Node(g)}
	return g.BiGRU(x, lengths, l.Forward.weights(g), backward)
}
