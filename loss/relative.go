package loss

// LMH with a relative or absolute margin to the match: negatives that score too near to the match, or above it, may be
// right, and are left out. The rule is that by which NV-Retriever (arXiv 2407.15831) and sentence-transformers
// (util/hard_negatives.py) choose negatives beforehand, here within the batch:
//
//	θ(p) = p - (1-ρ)|p|   or, with filter absolute,   θ(p) = p - µ
//	loss = Σ_i max_j [α + S_ij - S_ii]+ over j ≠ i with S_ij ≤ θ(S_ii)  +  the same for columns
//
// In warm-up epochs all that are kept are summed. From random weights nearly everything is left out: begin with LMH
// (train.init_from), or take another guide. With guide semantics the rule compares the cosines of the captions'
// semantic vectors in place of the scores, as GISTEmbed (arXiv 2402.16829) compares the scores of a model that is not
// trained.

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["relative"] = traits{about: "max of hinges of negatives well below the match", order: 8,
		titles: []string{"LMH ρ"}, build: relative, hinges: asTheyAre,
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			own := relativeConstants.of(o)
			if own.Filter != "absolute" {
				return nil
			}
			if own.Guide == "semantics" {
				span = 2 // of cosines
			}
			return beyond("relative.distance", own.Distance, span, "no negative is kept then, and the loss is 0")
		},
		semantics: func(o *Options) bool { return relativeConstants.of(o).Guide == "semantics" }}
}

var relativeConstants = declare("relative", relativeOptions{Guide: "scores", Filter: "relative", Rho: 0.95,
	Distance: 0.05})

// relativeOptions say which negatives are kept.
type relativeOptions struct {
	Guide    string  `yaml:"guide" enum:"scores|semantics" doc:"what the rule compares: the scores of the network, or cosines of semantic vectors of captions"`
	Filter   string  `yaml:"filter" enum:"relative|absolute" doc:"relative keeps negatives up to rho of the match, absolute those at least a distance below it"`
	Rho      float64 `yaml:"rho" min:"0.0001" max:"1" doc:"share rho of the match up to which a negative may score"`
	Distance float64 `yaml:"distance" min:"0" max:"100" doc:"distance mu below the match, with filter absolute"`
}

func relative(o Options, g *graph.Graph, scores *graph.Node, c Context, sum bool) *graph.Node {
	guide := scores
	if relativeConstants.of(&o).Guide == "semantics" {
		guide = cosines(g, "relative", c)
	}
	return guided(o, g, scores, guide, sum)
}

// guided returns the loss with the negatives that a guide [N, N] keeps; the guide has no gradient.
func guided(o Options, g *graph.Graph, scores, guide *graph.Node, sum bool) *graph.Node {
	n, own := graph.Dim(scores, 0), relativeConstants.of(&o)
	rows, match, right := graph.AlongRows(n), matches(g, scores), matches(g, guide)
	below := filled(g, own.Distance, n)
	if own.Filter == "relative" {
		below = g.Scale(g.Activate(device.Abs, right), 1-own.Rho)
	}
	most := g.Broadcast(g.StopGradient(g.Minus(right, below)), rows, n, n)
	cost := func(scores, guide *graph.Node) *graph.Node { // of the anchors in the rows
		costs := g.Multiply(violations(g, scores, match, o.Margin), notNegative(g, g.Minus(most, guide)))
		return sumOrMax(g, costs, sum)
	}
	return fromCosts(g, "relative", o.Margin, scores, cost(scores, guide), cost(g.SwapAxes(scores), g.SwapAxes(guide)))
}
