package loss

// InfoNCE, the symmetric cross entropy of CLIP (Radford et al.: "Learning transferable visual models from natural
// language supervision", ICML 2021; code mlfoundations/open_clip, loss.py: ClipLoss) with a fixed temperature τ:
//
//	loss = 1/(2N) Σ_i [ln Σ_j e^(S_ij/τ) - S_ii/τ] + 1/(2N) Σ_j [ln Σ_i e^(S_ij/τ) - S_jj/τ]
//
// It is a mean over the batch. All other captions of a batch are negatives, those of the same image too.

import "vsetrain/internal/compute/graph"

func init() {
	registry["infonce"] = traits{about: "cross entropy over the batch", order: 6, titles: []string{"InfoNCE"},
		defaults: func(o *Options) { o.InfoNCE = InfoNCEOptions{Temperature: 0.07} }, noWarmUp: true, mean: true,
		build: infoNCE}
}

// InfoNCEOptions are the constants of InfoNCE.
type InfoNCEOptions struct {
	Temperature float64 `yaml:"temperature" min:"0.001" max:"100" doc:"temperature tau that scores are divided by"`
}

func infoNCE(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	cost := func(scores *graph.Node) *graph.Node {
		return g.Times(crossEntropy(o, g, scores), 0.5/float64(graph.Dim(scores, 0)))
	}
	return fromCosts(g, "infonce", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
}

// crossEntropy is that of the anchors whose scores are the rows: [N].
func crossEntropy(o Options, g *graph.Graph, scores *graph.Node) *graph.Node {
	match := g.Times(matches(g, scores), 1/o.InfoNCE.Temperature)
	return g.Minus(g.LogSumExp(scores, 1/o.InfoNCE.Temperature, graph.AlongRows(graph.Dim(scores, 0))), match)
}
