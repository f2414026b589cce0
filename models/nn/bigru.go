package nn

import "vsetrain/internal/compute/graph"

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
