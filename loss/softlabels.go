package loss

// InfoNCE with soft labels: the captions of a batch are no plain negatives, but similar by their semantic vectors s
// (CUSA, AAAI 2024; code lerogo/aaai24_itr_cusa, unire/model.py). To InfoNCE it adds, weighted,
//
//	A = softmax_j cos(s_i, s_j)/τ_T    B = softmax_j S_ij/τ    B' = softmax_j S_ji/τ
//	½ [1/N Σ_ij A_ij (ln A_ij - ln B_ij) + 1/N Σ_ij A_ij (ln A_ij - ln B'_ij)]
//
// The similarities of the captions teach both directions; the released code has its own vectors for images. Nothing
// flows back into A.

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["softlabels"] = traits{about: "cross entropy over the batch, and similarities of captions as soft labels",
		order: 9, titles: []string{"soft labels"}, noWarmUp: true, mean: true, semantics: always, build: softLabels,
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			own := softLabelsConstants.of(o)
			return slices.Concat(even("infonce.temperature", infoNCEConstants.of(o).Temperature, span),
				even("softlabels.temperature", own.Temperature, span),
				even("softlabels.teacher_temperature", own.TeacherTemperature, 2))
		},
		check: func(o *Options) error {
			own := softLabelsConstants.of(o)
			if own.Learn && !(own.Temperature >= 0.1 && own.Temperature <= 0.99) {
				return &options.Error{Key: "softlabels.temperature", Found: fmt.Sprint(own.Temperature),
					Expected: "a number in [0.1, 0.99], the range in which it is learned",
					Remedy:   "choose one in it, or set softlabels.learn to false"}
			}
			return checkTemperature(o)
		}, learned: func(o *Options) []Learned {
			return append(learnedTemperature(o), softLabelsConstants.of(o).learned()...)
		}}
}

var softLabelsConstants = declare("softlabels", softLabelsOptions{Weight: 0.1, Temperature: 0.45,
	TeacherTemperature: 1})

// learned returns the temperature if it is learned: from 0.1 to 0.99, as released.
func (o softLabelsOptions) learned() []Learned {
	if !o.Learn {
		return nil
	}
	return []Learned{{Name: "label_temperature", Start: o.Temperature, Least: 0.1, Most: 0.99}}
}

// softLabelsOptions are the constants of the soft labels; the cross entropy has the constants of InfoNCE.
type softLabelsOptions struct {
	Weight             float64 `yaml:"weight" min:"0" max:"1000" doc:"weight of the soft labels beside the cross entropy"`
	Temperature        float64 `yaml:"temperature" min:"0.001" max:"100" doc:"temperature tau that scores are divided by"`
	Learn              bool    `yaml:"learn" doc:"learn that temperature, which is kept from 0.1 to 0.99, as released"`
	TeacherTemperature float64 `yaml:"teacher_temperature" min:"0.001" max:"100" doc:"temperature that cosines of semantic vectors are divided by"`
}

func softLabels(o Options, g *graph.Graph, scores *graph.Node, c Context, _ bool) *graph.Node {
	n, own := graph.Dim(scores, 0), softLabelsConstants.of(&o)
	soft := func(scores *graph.Node) *graph.Node { return divergence(own, g, scores, c) }
	hard := func(scores *graph.Node) *graph.Node { return crossEntropy(o, g, scores, nil) }
	both := func(scores *graph.Node) *graph.Node {
		return g.Scale(g.Add(hard(scores), g.Scale(soft(scores), own.Weight)), 0.5/float64(n))
	}
	return fromCosts(g, "soft labels", o.Margin, scores, both(scores), both(g.SwapAxes(scores)))
}

// divergence is Σ_j A_ij (ln A_ij - ln B_ij) of each row: [N].
func divergence(o softLabelsOptions, g *graph.Graph, scores *graph.Node, c Context) *graph.Node {
	n := graph.Dim(scores, 0)
	rows := graph.AlongRows(n)
	logSoftmax := func(x *graph.Node, temperature float64) *graph.Node {
		return g.Minus(g.Scale(x, 1/temperature), g.Broadcast(g.LogSumExp(x, 1/temperature, rows), rows, n, n))
	}
	temperature := o.Temperature
	if l := o.learned(); l != nil {
		scores = g.Multiply(scores, repeated(g, g.Map(device.Reciprocal, 0, l[0].node(g)), scores))
		temperature = 1
	}
	logA := g.StopGradient(logSoftmax(cosines(g, "softlabels", c), o.TeacherTemperature))
	a := g.StopGradient(g.Map(device.Exp, 0, logA))
	return g.Sum(g.Multiply(a, g.Minus(logA, logSoftmax(scores, temperature))), rows)
}
