package loss

// LUWM, the universal weighting metric in its self-similarity polynomial form (Wei, Xu, Yang, Ji, Wang, Shen:
// "Universal weighting metric learning for cross-modal matching", CVPR 2020; code wayne980/PolyLoss). For every anchor
// with positive score p < 1 - 1e-5 that has a negative v with v + margin > p, v the largest of them, both directions:
//
//	term = [P0 + P1 p + P2 p²]+ + [N0 + N1 v + N2 v²]+      loss = Σ term / N

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// LUWM is the loss of the universal weighting metric.
const LUWM = "luwm"

func init() {
	registry[LUWM] = traits{mean: true, about: "universal weighting", hinges: asTheyAre, defaults: func(o *Options) {
		o.LUWM = LUWMOptions{Positive: [3]float64{0.5, -0.7, 0.2}, Negative: [3]float64{0.03, -0.4, 0.9}}
	}, order: 4, compared: true, titles: []string{"LUWM"},
		// the reference has no such option
		reference: func(_ *Options, s map[string]any) { delete(s, "margin") }, noWarmUp: true, build: universal}
}

// LUWMOptions are the polynomials c0 + c1 s + c2 s^2 of a positive and of the hardest informative negative score s.
type LUWMOptions struct {
	Positive [3]float64 `yaml:"positive" min:"-1e6" max:"1e6" doc:"coefficients c0, c1, c2 for the positive score"`
	Negative [3]float64 `yaml:"negative" min:"-1e6" max:"1e6" doc:"coefficients c0, c1, c2 for the hardest informative negative score"`
}

func universal(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	n := graph.Dim(scores, 0)
	op := lossOp(g, "universal weighting", n, func(c *graph.Call, out device.LossOut) {
		graph.Do(c, device.UniversalWeighting{N: n, Scores: c.In[argScores], Margin: o.Margin,
			Positive: o.LUWM.Positive, Negative: o.LUWM.Negative, LossOut: out})
	})
	op.NeedsGrad = []bool{true}
	return g.Apply(op, scores)
}
