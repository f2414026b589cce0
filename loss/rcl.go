package loss

// RCL, the complementary contrastive loss for wrong captions (Hu, Huang, Peng, Wang, Peng: "Cross-modal retrieval with
// partially mismatched pairs", TPAMI 2023; code penghu-cs/RCL, model.py: CCL). It asks only that negatives be unlikely,
// which holds for a wrong pair too. With the shares p_ij of each row (τ, ε = 1e-10 in the denominator):
//
//	loss = 1/N Σ_i Σ_{j≠i} f(p_ij) + the same for the columns
//	log  -ln(1 - p + ε)    tan  tan p    abs  p    exp  e^(p-1)    gce  (1 - (1 - p + ε)^q)/q
//	infonce  -ln p_ii, over the matches alone
//
// With a ratio below 1 each row keeps only that share of its N candidates, drawn anew for each step among the negatives
// (quirk L28).

import (
	"cmp"
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["rcl"] = traits{about: "complementary contrastive loss, for wrong captions", order: 11,
		titles: []string{"RCL"}, noWarmUp: true, mean: true, build: complementary,
		doubts: func(o *Options, span float64, pairs int) []*options.Error {
			own := rclConstants.of(o)
			all := even("rcl.temperature", own.Temperature, span)
			if pairs > 0 && int(own.Ratio*float64(pairs)) < 1 {
				all = append(all, &options.Error{Key: "rcl.ratio", Found: fmt.Sprint(own.Ratio),
					Expected: fmt.Sprintf("at least 1 of the %d pairs of a batch", pairs),
					Remedy:   "no negative is kept then, and the loss is 0"})
			}
			return all
		},
		memory: func(o *Options) Memory {
			ratio := rclConstants.of(o).Ratio
			if ratio == 1 {
				return nil
			}
			return stateless(func(s *graph.Instance, b *Batch) error {
				r := b.draws("rcl")
				random := make([]float64, b.N*b.N)
				for i := range random {
					random[i] = r.Float64()
				}
				return s.FeedDoubles(inputKept, keptNegatives(random, b.N, ratio))
			})
		},
		check: func(o *Options) error {
			if own := rclConstants.of(o); own.Method == "infonce" && own.Ratio != 1 {
				return &options.Error{Key: "rcl.ratio", Found: "a share of the negatives", Expected: "1 with method " +
					"infonce", Remedy: "it looks at the matches alone"}
			}
			return nil
		}}
}

var rclConstants = declare("rcl", rclOptions{Temperature: 0.05, Method: "log", Q: 0.2, Ratio: 1})

type rclOptions struct {
	Temperature float64 `yaml:"temperature" min:"0.001" max:"100" doc:"temperature tau that scores are divided by"`
	Method      string  `yaml:"method" enum:"log|tan|abs|exp|gce|infonce" doc:"what the probability of a negative costs; infonce counts only the matches"`
	Q           float64 `yaml:"q" above:"0" max:"1" doc:"exponent q of method gce"`
	Ratio       float64 `yaml:"ratio" above:"0" max:"1" doc:"share of the batch that each row keeps as negatives, drawn for each step; 1 keeps all"`
}

const inputKept = "in.loss.kept" // [N, N]

// keptNegatives returns 1 at the floor(ratio·n) largest random numbers of each row, without the diagonal, and 0
// elsewhere.
func keptNegatives(random []float64, n int, ratio float64) []float64 {
	kept := make([]float64, n*n)
	for i := range n {
		row := make([]int, 0, n)
		for j := range n {
			if j != i {
				row = append(row, j)
			}
		}
		slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(random[i*n+b], random[i*n+a]) })
		for _, j := range row[:min(int(ratio*float64(n)), n-1)] {
			kept[i*n+j] = 1
		}
	}
	return kept
}

func complementary(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	const epsilon = 1e-10
	n, own := graph.Dim(scores, 0), rclConstants.of(&o)
	ones, negatives := filled(g, 1, n, n), others(g, n)
	if own.Ratio != 1 {
		negatives = g.Input(inputKept, n, n)
	}
	cost := func(scores *graph.Node) *graph.Node {
		s := sharesOf(g, scores, own.Temperature)
		if own.Method == "infonce" {
			return g.Scale(s.log, -1/float64(n))
		}
		log := func() *graph.Node { return g.Map(device.Log, 0, g.Add(s.rest, filled(g, epsilon, n, n))) }
		var f *graph.Node
		switch own.Method {
		case "log":
			f = g.Scale(log(), -1)
		case "tan":
			f = graph.Tan(g, s.p)
		case "abs":
			f = s.p
		case "exp":
			f = g.Map(device.Exp, 0, g.Minus(s.p, ones))
		case "gce":
			f = g.Scale(g.Minus(ones, g.Map(device.Exp, 0, g.Scale(log(), own.Q))), 1/own.Q)
		}
		return g.Scale(g.Sum(g.Multiply(f, negatives), graph.AlongRows(n)), 1/float64(n))
	}
	return fromCosts(g, "rcl", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
}
