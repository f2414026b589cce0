package loss

// SelHN, selectively hard negatives (arXiv 2303.00181; code AAA-Zheng/RVSEPP, loss.py: TripletSelHNLoss). An anchor
// whose hardest negative scores nearly as its match learns from the mean of all violations, every other one from the
// largest:
//
//	cs_ij = [α + S_ij - S_ii]+    h_i = max(-1, max_{j≠i} S_ij)
//	r_i = Σ_j cs_ij / (N-1) where |S_ii - h_i| < ε, max_j cs_ij elsewhere    columns alike on Sᵀ
//	loss = 1/(2N) (Σ_i r_i + Σ_j c_j)
//
// It is a mean over the batch; the choice has no gradient (quirk L8).

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["selhn"] = traits{about: "mean or max of hinges, chosen for each anchor", order: 7,
		titles:   []string{"SelHN"},
		noWarmUp: true, mean: true, build: selHN, hinges: asTheyAre,
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			return beyond("selhn.epsilon", selHNConstants.of(o).Epsilon, span, "every anchor takes the mean then")
		}}
}

var selHNConstants = declare("selhn", selHNOptions{Epsilon: 0.01})

type selHNOptions struct {
	Epsilon float64 `yaml:"epsilon" min:"0" max:"100" doc:"an anchor whose hardest negative is this close to its match takes the mean of its violations"`
}

func selHN(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	n := graph.Dim(scores, 0)
	rows, match := graph.AlongRows(n), matches(g, scores)
	cost := func(scores *graph.Node) *graph.Node { // of the anchors whose scores are the rows
		costs := violations(g, scores, match, o.Margin)
		least := g.Minus(others(g, n), filled(g, 1, n, n)) // -1 on the diagonal
		hardest := g.Max(g.StopGradient(g.Add(g.Multiply(scores, others(g, n)), least)), rows)
		apart := g.Activate(device.Abs, g.Minus(match, hardest))
		far := notNegative(g, g.Minus(apart, filled(g, selHNConstants.of(&o).Epsilon, n)))
		mean := g.Scale(g.Sum(costs, rows), 1/float64(max(1, n-1)))
		near := g.Minus(filled(g, 1, n), far)
		chosen := g.Add(g.Multiply(far, g.Max(costs, rows)), g.Multiply(near, mean))
		return g.Scale(chosen, 0.5/float64(n))
	}
	return fromCosts(g, "selhn", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
}
