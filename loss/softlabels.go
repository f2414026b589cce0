package loss

// InfoNCE with soft labels: the captions of a batch are no plain negatives, but similar by their semantic vectors s
// (CUSA, AAAI 2024; code lerogo/aaai24_itr_cusa, unire/model.py). To InfoNCE it adds, weighted,
//
//	A = softmax_j cos(s_i, s_j)/τ_T    B = softmax_j S_ij/τ    B' = softmax_j S_ji/τ
//	½ [1/N Σ_ij A_ij (ln A_ij - ln B_ij) + 1/N Σ_ij A_ij (ln A_ij - ln B'_ij)]
//
// The similarities of the captions teach both directions; the released code has vectors of its own for images. Nothing
// flows back into A.

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

func init() {
	registry["softlabels"] = traits{about: "cross entropy over the batch, and similarities of captions as soft labels",
		order: 9, titles: []string{"soft labels"}, noWarmUp: true, mean: true, semantics: true, build: softLabels,
		defaults: func(o *Options) {
			o.SoftLabels = SoftLabelsOptions{Weight: 0.1, Temperature: 0.45, TeacherTemperature: 1}
		}}
}

// SoftLabelsOptions are the constants of the soft labels; the cross entropy beside them has those of InfoNCE.
type SoftLabelsOptions struct {
	Weight             float64 `yaml:"weight" min:"0" max:"1000" doc:"weight of the soft labels beside the cross entropy"`
	Temperature        float64 `yaml:"temperature" min:"0.001" max:"100" doc:"temperature tau that scores are divided by"`
	TeacherTemperature float64 `yaml:"teacher_temperature" min:"0.001" max:"100" doc:"temperature that cosines of semantic vectors are divided by"`
}

func softLabels(o Options, g *graph.Graph, scores *graph.Node, c Context, _ bool) *graph.Node {
	if c.Semantics == nil {
		graph.Failf("loss softlabels needs the semantic vectors of the batch")
	}
	n := graph.Dim(scores, 0)
	soft := func(scores *graph.Node) *graph.Node { return divergence(o.SoftLabels, g, scores, c.Semantics) }
	hard := func(scores *graph.Node) *graph.Node { return crossEntropy(o, g, scores) }
	both := func(scores *graph.Node) *graph.Node {
		return g.Times(g.Add(hard(scores), g.Times(soft(scores), o.SoftLabels.Weight)), 0.5/float64(n))
	}
	return fromCosts(g, "soft labels", o.Margin, scores, both(scores), both(g.SwapAxes(scores)))
}

// divergence is Σ_j A_ij (ln A_ij - ln B_ij) of each row: [N].
func divergence(o SoftLabelsOptions, g *graph.Graph, scores, semantics *graph.Node) *graph.Node {
	n := graph.Dim(scores, 0)
	rows := graph.AlongRows(n)
	logSoftmax := func(x *graph.Node, temperature float64) *graph.Node {
		return g.Minus(g.Times(x, 1/temperature), g.Spread(g.LogSumExp(x, 1/temperature, rows), rows, n, n))
	}
	unit := g.L2Norm(g.Fixed(semantics), 1, 0)
	logA := g.Fixed(logSoftmax(g.MatMulT(unit, unit, true), o.TeacherTemperature))
	a := g.Fixed(g.Map(device.Exp, 0, logA))
	return g.Sum(g.Multiply(a, g.Minus(logA, logSoftmax(scores, o.Temperature))), rows)
}
