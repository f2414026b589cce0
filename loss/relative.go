package loss

// LMH with a relative or absolute margin to the match: negatives that score too near to the match, or above it, may be
// right, and are left out. The rule is that by which NV-Retriever (arXiv 2407.15831) and sentence-transformers
// (util/hard_negatives.py) choose negatives beforehand, here within the batch:
//
//	θ(p) = p - (1-ρ)|p|   or, with filter absolute,   θ(p) = p - µ
//	loss = Σ_i max_j [α + S_ij - S_ii]+ over j ≠ i with S_ij ≤ θ(S_ii)  +  the same for columns
//
// In warm-up epochs all that are kept are summed. From random weights nearly everything is left out: begin with LMH
// (train.init_from).

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

func init() {
	registry["relative"] = traits{about: "max of hinges of negatives well below the match", order: 8,
		titles: []string{"LMH ρ"}, build: relative}
}

var relativeConstants = declare("relative", relativeOptions{Filter: "relative", Rho: 0.95, Distance: 0.05})

// relativeOptions say which negatives are kept.
type relativeOptions struct {
	Filter   string  `yaml:"filter" enum:"relative|absolute" doc:"relative keeps negatives up to rho of the match, absolute those at least a distance below it"`
	Rho      float64 `yaml:"rho" min:"0.0001" max:"1" doc:"share rho of the match up to which a negative may score"`
	Distance float64 `yaml:"distance" min:"0" max:"100" doc:"distance mu below the match, with filter absolute"`
}

func relative(o Options, g *graph.Graph, scores *graph.Node, _ Context, sum bool) *graph.Node {
	n, own := graph.Dim(scores, 0), relativeConstants.of(&o)
	rows, match := graph.AlongRows(n), matches(g, scores)
	below := filled(g, own.Distance, n)
	if own.Filter == "relative" {
		below = g.Times(g.Activate(device.Abs, match), 1-own.Rho)
	}
	most := g.Spread(g.Fixed(g.Minus(match, below)), rows, n, n)
	cost := func(scores *graph.Node) *graph.Node { // of the anchors whose scores are the rows
		costs := g.Multiply(violations(g, scores, match, o.Margin), notNegative(g, g.Minus(most, scores)))
		if sum {
			return g.Sum(costs, rows)
		}
		return g.Max(costs, rows)
	}
	return fromCosts(g, "relative", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
}
