package nn

import "vsetrain/internal/compute/graph"

// WeightNorm is a linear layer whose weight has a direction and a length for each row: W_o = g_o v_o/‖v_o‖ (Salimans,
// Kingma: "Weight Normalization", NeurIPS 2016; torch.nn.utils.weight_norm).
type WeightNorm struct {
	G    Param `param:"weight_g"` // [O, 1]
	V    Param `param:"weight_v"` // [O, I]
	Bias Param `param:"bias"`     // [O]
}

// NewWeightNorm returns a layer whose weight has PyTorch's default initialisation of linear layers.
func NewWeightNorm(in, out int) *WeightNorm {
	l := NewLinear(in, out)
	w := &WeightNorm{V: l.Weight, Bias: l.Bias}
	w.G = Param{Shape: []int{out, 1}, Init: rowNorms(&w.V)}
	return w
}

// Weight returns the weight [O, I].
func (l *WeightNorm) Weight(g *graph.Graph) *graph.Node {
	o, i := l.V.Shape[0], l.V.Shape[1]
	return g.ScaleBlocks(g.L2Norm(l.V.Node(g), 1, 0), l.G.Node(g), 1, 1, o, i)
}

// ScalarWeightNorm is a linear layer whose weight has one length: W = g v/‖v‖ with the Frobenius norm
// (torch.nn.utils.weight_norm with dim None; kuanghuei/SCAN, model.py, EncoderImageWeightNormPrecomp).
type ScalarWeightNorm struct {
	Bias Param `param:"bias"`     // [O]
	G    Param `param:"weight_g"` // [1]
	V    Param `param:"weight_v"` // [O, I]
}

// NewScalarWeightNorm returns a layer whose weight has PyTorch's default initialisation of linear layers.
func NewScalarWeightNorm(in, out int) *ScalarWeightNorm {
	l := NewLinear(in, out)
	w := &ScalarWeightNorm{V: l.Weight, Bias: l.Bias}
	w.G = Param{Shape: []int{1}, Init: rowNorms(&w.V)}
	return w
}

// Forward applies the layer to x [N, I]: [N, O].
func (l *ScalarWeightNorm) Forward(g *graph.Graph, x *graph.Node) *graph.Node {
	o, i := l.V.Shape[0], l.V.Shape[1]
	w := g.L2Norm(g.Reshape(l.V.Node(g), 1, o*i), 1, 0)
	w = g.ScaleBlocks(w, g.Reshape(l.G.Node(g), 1, 1), 1, 1, 1, o*i)
	return g.Linear(graph.LinearTerm{X: x, W: g.Reshape(w, o, i), B: l.Bias.Node(g)})
}
