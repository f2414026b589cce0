package nn

import "vsetrain/internal/graph"

// WeightNorm is a linear layer whose weight is given by directions and lengths, row by row: W_o = g_o v_o/‖v_o‖ (Salimans, Kingma: "Weight
// Normalization", NeurIPS 2016; torch.nn.utils.weight_norm).
type WeightNorm struct {
	G    Param `param:"weight_g"` // [O, 1]
	V    Param `param:"weight_v"` // [O, I]
	Bias Param `param:"bias"`     // [O]
}

// NewWeightNorm returns a layer whose weight is that of a linear layer with PyTorch's default initialisation.
func NewWeightNorm(in, out int) *WeightNorm {
	l := NewLinear(in, out)
	w := &WeightNorm{V: l.Weight, Bias: l.Bias}
	w.G = Param{Shape: []int{out, 1}, Init: rowNorms(&w.V)}
	return w
}

// Weight is the effective weight [O, I].
func (l *WeightNorm) Weight(g *graph.Graph) *graph.Node {
	o, i := l.V.Shape[0], l.V.Shape[1]
	return g.ScaleBlocks(g.L2Norm(l.V.Node(g), 1, 0), l.G.Node(g), 1, 1, o, i)
}
