package nn

import "vsetrain/internal/compute/graph"

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
