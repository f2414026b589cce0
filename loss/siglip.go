package loss

// SigLIP, a sigmoid for every pair (Zhai, Mustafa, Kolesnikov, Beyer: "Sigmoid loss for language image pre-training",
// ICCV 2023; code mlfoundations/open_clip, loss.py: SigLipLoss). The scale e^t and the bias b are learned:
//
//	Z = e^t S + b    l_ij = 1 on the diagonal, -1 elsewhere    loss = 1/N Σ_ij ln(1 + e^(-l_ij Z_ij))
//
// The sum over N² pairs is divided by N. t is kept from 0 to ln 100, b is free. Captions of one image are negatives, as
// released. Rows and columns have the same terms, so each direction counts half of them.

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

func init() {
	registry["siglip"] = traits{about: "a sigmoid for every pair, with learned scale and bias", order: 10,
		titles: []string{"SigLIP"}, noWarmUp: true, mean: true, build: sigLIP,
		learned: func(o *Options) []Learned {
			own := sigLIPConstants.of(o)
			return []Learned{{Name: "log_scale", Start: math.Log(own.Scale), Most: math.Log(100)},
				{Name: "bias", Start: own.Bias, Least: math.Inf(-1), Most: math.Inf(1)}}
		}}
}

var sigLIPConstants = declare("siglip", sigLIPOptions{Scale: 10, Bias: -10})

type sigLIPOptions struct {
	Scale float64 `yaml:"scale" min:"1" max:"100" doc:"initial factor of the scores; learned, kept from 1 to 100"`
	Bias  float64 `yaml:"bias" min:"-1000" max:"1000" doc:"initial offset of the scores; learned"`
}

func sigLIP(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
	n, learned := graph.Dim(scores, 0), o.Learned()
	scale, bias := g.Map(device.Exp, 0, learned[0].node(g)), learned[1].node(g)
	z := g.Add(g.Multiply(scores, repeated(g, scale, scores)), repeated(g, bias, scores))
	labels := g.Minus(filled(g, 1, n, n), g.Scale(others(g, n), 2))
	costs := g.Scale(logistic(g, g.Multiply(labels, z)), 0.5/float64(n))
	rows := graph.AlongRows(n)
	return fromCosts(g, "siglip", o.Margin, scores, g.Sum(costs, rows), g.Sum(g.SwapAxes(costs), rows))
}

// logistic is ln(1 + e^(-x)) = max(-x, 0) + ln(1 + e^(-|x|)).
func logistic(g *graph.Graph, x *graph.Node) *graph.Node {
	one, positive := filled(g, 1, x.Shape()...), notNegative(g, x)
	size := g.Multiply(x, g.Minus(g.Scale(positive, 2), one)) // |x|, with the slope 1 at 0
	small := g.Map(device.Log, 0, g.Add(g.Map(device.Exp, 0, g.Scale(size, -1)), one))
	return g.Add(g.Multiply(x, g.Minus(positive, one)), small)
}
