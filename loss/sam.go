package loss

// SAM, a semantic adaptive margin beside LMH (Biten, Mafla, Gómez, Karatzas: "Is an image worth five sentences? A new
// look into semantics for image-text matching", WACV 2022; code AndresPMD/semantic_adaptive_margin, model_CVSE.py:
// ContrastiveLossMetric). A caption that describes an image badly has to score below the match by more:
//
//	cut(x) = min(x/d, 1)    Φ_ij how well caption j describes image i, here the cosine of captions i and j
//	loss = LMH + w (Σ_i [cut(Φ_ii - Φ_ia) + S_ia - S_ii]+ + Σ_j [cut(Φ_jj - Φ_bj) + S_bj - S_jj]+)
//
// a is one negative caption for each image i, b one negative image for each caption j: drawn, or the hardest. The
// reference takes CIDEr-D for Φ, which needs the training captions' n-grams; the cosine of semantic vectors stands in
// for it here, and 1 - cos lies between 0 and 2, so that d = 3 leaves margins of a third of that. The released margins
// index rows in both directions; margins: released does so too (quirks L31, L33).

import (
	"fmt"

	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["sam"] = traits{about: "max of hinges, and hinges whose margin is semantic", order: 14,
		titles: []string{"SAM"}, semantics: always, build: adaptive, hinges: asTheyAre,
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			divisor := samConstants.of(o).Divisor
			if span == 0 || min(2/divisor, 1) < span {
				return nil
			}
			return []*options.Error{{Key: "sam.divisor", Found: fmt.Sprint(divisor),
				Expected: fmt.Sprintf("more than %.4g, so that margins stay below the most by which scores differ, "+
					"%.4g", 2/span, span),
				Remedy: "hinges of captions that are unlike are active then whatever they score"}}
		},
		memory: func(o *Options) Memory {
			if samConstants.of(o).Negatives != "random" {
				return nil
			}
			return stateless(func(s *graph.Instance, b *Batch) error {
				r := b.draws("sam")
				for _, name := range []string{inputNegativeCaptions, inputNegativeImages} {
					places := make([]int, b.N)
					for i := range places {
						if b.N > 1 { // a pair other than i
							places[i] = (i + 1 + r.IntN(b.N-1)) % b.N
						}
					}
					if err := s.FeedDoubles(name, oneHot(places)); err != nil {
						return err
					}
				}
				return nil
			})
		}}
}

var samConstants = declare("sam", samOptions{Weight: 5, Divisor: 3, Negatives: "random", Margins: "triple"})

type samOptions struct {
	Weight    float64 `yaml:"weight" min:"0" max:"1000" doc:"weight of the hinges with semantic margins beside lmh"`
	Divisor   float64 `yaml:"divisor" above:"0" max:"1000" doc:"divisor d of a difference of similarities, to become a margin"`
	Negatives string  `yaml:"negatives" enum:"random|hardest" doc:"one negative for each anchor: drawn, or the one that scores highest"`
	Margins   string  `yaml:"margins" enum:"triple|released" doc:"triple: the margin of the anchor, its match and its negative; released: as in the released code"`
}

// One-hot rows [N, N]: the negative caption of each image, the negative image of each caption.
const (
	inputNegativeCaptions = "in.loss.negative.captions"
	inputNegativeImages   = "in.loss.negative.images"
)

func oneHot(places []int) []float64 {
	n := len(places)
	rows := make([]float64, n*n)
	for i, j := range places {
		rows[i*n+j] = 1
	}
	return rows
}

func adaptive(o Options, g *graph.Graph, scores *graph.Node, c Context, sum bool) *graph.Node {
	match := matches(g, scores)
	extra, columns := semanticHinges(samConstants.of(&o), g, scores, cosines(g, "sam", c))
	cost := func(scores, extra *graph.Node) *graph.Node {
		return g.Add(sumOrMax(g, violations(g, scores, match, o.Margin), sum), extra)
	}
	return fromCosts(g, "sam", o.Margin, scores, cost(scores, extra), cost(g.SwapAxes(scores), columns))
}

// semanticHinges are the weighted hinges of the rows and of the columns, [N] each, for a metric Φ [N, N].
func semanticHinges(own samOptions, g *graph.Graph, scores, metric *graph.Node) (ofRows, ofColumns *graph.Node) {
	n := graph.Dim(scores, 0)
	rows, match, turned := graph.AlongRows(n), matches(g, scores), g.SwapAxes(scores)
	hardest := func(scores *graph.Node) *graph.Node { // the first of all where there is no other
		below := g.Minus(others(g, n), filled(g, 1, n, n))
		return largest(g, g.Add(g.Multiply(g.StopGradient(scores), others(g, n)), g.Scale(below, 1e9)))
	}
	a, b := hardest(scores), hardest(turned)
	if own.Negatives == "random" {
		a, b = g.Input(inputNegativeCaptions, n, n), g.Input(inputNegativeImages, n, n)
	}
	right := matches(g, metric)
	margin := func(metric, rowsOf *graph.Node) *graph.Node { // min(x/d, 1) = 1 - [1 - x/d]+
		x := g.Scale(g.Minus(right, g.Sum(g.Multiply(metric, rowsOf), rows)), 1/own.Divisor)
		rest := g.Minus(filled(g, 1, n), x)
		return g.Minus(filled(g, 1, n), g.Multiply(rest, notNegative(g, rest)))
	}
	cost := func(scores, rowsOf, margin, match *graph.Node) *graph.Node {
		hinge := hinged(g, g.Minus(g.Add(margin, g.Sum(g.Multiply(scores, rowsOf), rows)), match))
		if n == 1 {
			hinge = g.Scale(hinge, 0)
		}
		return g.Scale(hinge, own.Weight)
	}
	if own.Margins == "released" {
		return cost(scores, a, chosen(g, a, margin(metric, b)), match),
			cost(scores, b, chosen(g, b, margin(metric, a)), chosen(g, b, match))
	}
	return cost(scores, a, margin(metric, a), match), cost(turned, b, margin(g.SwapAxes(metric), b), match)
}
