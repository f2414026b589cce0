package nn

import "vsetrain/internal/compute/graph"

// Linear computes y = x Wᵀ + b: x [N, I] → [N, O].
type Linear struct {
	Weight Param `param:"weight"` // [O, I]
	Bias   Param `param:"bias"`   // [O]
	Even   bool  // for device.Gemm
}

// NewLinear returns a linear layer with PyTorch's default initialisation.
func NewLinear(in, out int) Linear {
	return Linear{Weight: Param{Shape: []int{out, in}, Init: fanIn(in)},
		Bias: Param{Shape: []int{out}, Init: fanIn(in)}}
}

// NewXavierLinear returns a linear layer with Xavier weights and zero bias, as the references' image encoders have.
func NewXavierLinear(in, out int) Linear {
	return Linear{Weight: Param{Shape: []int{out, in}, Init: Xavier(in, out)},
		Bias: Param{Shape: []int{out}, Init: Constant(0)}}
}

// Forward applies the layer to x [N, I]: [N, O].
func (l *Linear) Forward(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Linear(l.Term(g, x))
}

// Conv is a convolution with a kernel of size 1, torch.nn.Conv1d(I, O, 1): a linear layer on every position, with an
// additional axis of the stored weight.
type Conv struct {
	Weight Param `param:"weight"` // [O, I, 1]
	Bias   Param `param:"bias"`   // [O]
}

// NewConv returns a convolution with PyTorch's default initialisation.
func NewConv(in, out int) Conv {
	l := NewLinear(in, out)
	l.Weight.Shape = []int{out, in, 1}
	return Conv{Weight: l.Weight, Bias: l.Bias}
}

// Forward applies the layer to every row of x [N, I]: [N, O].
func (l *Conv) Forward(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Linear(graph.LinearTerm{X: x, W: g.Reshape(l.Weight.Node(g), l.Weight.Shape[:2]...), B: l.Bias.Node(g)})
}

// Term returns the layer on x as a term of graph.LinearRows.
func (l *Linear) Term(g *graph.Graph, x *graph.Node) graph.LinearTerm {
	t := graph.LinearTerm{X: x, W: l.Weight.Node(g), Even: l.Even}
	if l.Bias.Shape != nil {
		t.B = l.Bias.Node(g)
	}
	return t
}

// Embedding is a table of word vectors [V, W]. Only the rows of words that occur get a gradient, so <pad> gets none.
type Embedding struct {
	Weight Param `param:"weight"`
}

// NewEmbedding returns a table drawn uniformly from ±0.1, as the references' text encoders have.
func NewEmbedding(vocab, dim int) Embedding {
	return Embedding{Weight: Param{Shape: []int{vocab, dim}, Init: Uniform(0.1)}}
}

// Forward looks up words [B, L] with lengths [B]: [B·L, W], packed.
func (e *Embedding) Forward(g *graph.Graph, words, lengths *graph.Node) *graph.Node {
	return g.Embedding(words, lengths, e.Weight.Node(g))
}

// GRU is a layer of gated recurrent units in one direction, with the parameter names of torch.nn.GRU.
type GRU struct {
	WIH Param `param:"weight_ih_l0"` // [3H, I]
	WHH Param `param:"weight_hh_l0"` // [3H, H]
	BIH Param `param:"bias_ih_l0"`   // [3H]
	BHH Param `param:"bias_hh_l0"`   // [3H]
}

// NewGRU returns a GRU drawn uniformly from ±1/√H.
func NewGRU(in, hidden int) GRU {
	p := func(shape ...int) Param { return Param{Shape: shape, Init: fanIn(hidden)} }
	return GRU{WIH: p(3*hidden, in), WHH: p(3*hidden, hidden), BIH: p(3 * hidden), BHH: p(3 * hidden)}
}

func (l *GRU) weights(g *graph.Graph) graph.GRUWeights {
	return graph.GRUWeights{WIH: l.WIH.Node(g), WHH: l.WHH.Node(g), BIH: l.BIH.Node(g), BHH: l.BHH.Node(g)}
}

// Final runs the layer over packed x [B·L, I] and returns the last state of each sequence: [B, H].
func (l *GRU) Final(g *graph.Graph, x, lengths *graph.Node) *graph.Node {
	return g.GRU(x, lengths, l.weights(g), false, true)
}

// States runs the layer over packed x [B·L, I] and returns all states: [B·L, H], packed.
func (l *GRU) States(g *graph.Graph, x, lengths *graph.Node) *graph.Node {
	return g.GRU(x, lengths, l.weights(g), false, false)
}

// BatchNorm is torch.nn.BatchNorm1d with ε 1e-5 and momentum 0.1. The running statistics are parameters that are never
// optimised.
type BatchNorm struct {
	Weight Param `param:"weight"`
	Bias   Param `param:"bias"`
	Mean   Param `param:"running_mean"`
	Var    Param `param:"running_var"`
}

// NewBatchNorm returns a batch norm of c channels with weight 1 and bias 0.
func NewBatchNorm(c int) BatchNorm {
	p := func(v float64, state bool) Param { return Param{Shape: []int{c}, Init: Constant(v), State: state} }
	return BatchNorm{Weight: p(1, false), Bias: p(0, false), Mean: p(0, true), Var: p(1, true)}
}

// Weights returns the nodes of the parameters.
func (l *BatchNorm) Weights(g *graph.Graph) graph.BatchNormWeights {
	return graph.BatchNormWeights{Weight: l.Weight.Node(g), Bias: l.Bias.Node(g), Mean: l.Mean.Node(g),
		Var: l.Var.Node(g)}
}

// BiGRU is a layer of gated recurrent units in both directions, with the parameter names of a bidirectional
// torch.nn.GRU.
type BiGRU struct {
	Forward  GRU     `param:""`
	Backward reverse `param:""`
}

// reverse is a GRU with the parameter names of the backward direction.
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

// Mean runs the layer over packed x [B·L, I] and returns (→h + ←h)/2: [B·L, H], packed.
func (l *BiGRU) Mean(g *graph.Graph, x, lengths *graph.Node) *graph.Node {
	return g.BiGRU(x, lengths, l.Forward.weights(g), (*GRU)(&l.Backward).weights(g))
}
