package loss

// InfoNCE, the symmetric cross entropy of CLIP (Radford et al.: "Learning transferable visual models from natural
// language supervision", ICML 2021; code mlfoundations/open_clip, loss.py: ClipLoss). Every anchor chooses among the N
// candidates of the other modality; Y are the targets, with targets: diagonal the identity:
//
//	Z = S/τ    loss = 1/(2N) Σ_i [ln Σ_j e^(Z_ij) - Σ_j Y_ij Z_ij] + 1/(2N) Σ_j [ln Σ_i e^(Z_ij) - Σ_i Y_ij Z_ij]
//
// It is a mean over the batch. All other captions of a batch are negatives, captions of the same image too, unless
// targets: same_image shares an anchor's target among the captions of its image (CUSA, lerogo/aaai24_itr_cusa).
//
// τ is fixed, or learned: as t with 1/τ = e^t, 0 <= t <= ln 100 (open_clip, task/image_text_task.py), or as τ itself,
// 0.01 <= τ <= 0.1 (CUSA, unire/model.py). Both start at the temperature of the configuration.

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["infonce"] = traits{about: "cross entropy over the batch", order: 6, titles: []string{"InfoNCE"},
		noWarmUp: true, mean: true, build: infoNCE,
		images: func(o *Options) bool { return infoNCEConstants.of(o).Targets == "same_image" },
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			return even("infonce.temperature", infoNCEConstants.of(o).Temperature, span)
		},
		learned: learnedTemperature, check: checkTemperature}
}

var infoNCEConstants = declare("infonce", infoNCEOptions{Temperature: 0.07, Learn: "nothing", Targets: "diagonal"})

// infoNCEOptions are the constants of InfoNCE, and of the cross entropy in soft labels.
type infoNCEOptions struct {
	Temperature float64 `yaml:"temperature" min:"0.001" max:"100" doc:"temperature tau that scores are divided by, also beside soft labels"`
	Learn       string  `yaml:"learn" enum:"nothing|log_scale|temperature" doc:"what is learned: log_scale is ln(1/tau) as in CLIP, temperature is tau itself"`
	Targets     string  `yaml:"targets" enum:"diagonal|same_image" doc:"diagonal: only the match; same_image: all captions of its image in the batch (only infonce)"`
}

// learnedTemperature returns the log scale or the temperature if it is learned.
func learnedTemperature(o *Options) []Learned {
	switch own := infoNCEConstants.of(o); own.Learn {
	case "log_scale":
		return []Learned{{Name: "log_scale", Start: -math.Log(own.Temperature), Most: math.Log(100)}}
	case "temperature":
		return []Learned{{Name: "temperature", Start: own.Temperature, Least: 0.01, Most: 0.1}}
	}
	return nil
}

// checkTemperature returns an error if the temperature is outside the range in which it is learned.
func checkTemperature(o *Options) error {
	own := infoNCEConstants.of(o)
	most := map[string]float64{"log_scale": 1, "temperature": 0.1}[own.Learn]
	if most == 0 || own.Temperature >= 0.01 && own.Temperature <= most {
		return nil
	}
	return &options.Error{Key: "infonce.temperature", Found: fmt.Sprint(own.Temperature),
		Expected: fmt.Sprintf("a number in [0.01, %v], the range in which infonce.learn: %s keeps it", most, own.Learn),
		Remedy:   "choose one in it, or set infonce.learn to nothing"}
}

func infoNCE(o Options, g *graph.Graph, scores *graph.Node, c Context, _ bool) *graph.Node {
	var targets *graph.Node
	if infoNCEConstants.of(&o).Targets == "same_image" {
		n := graph.Dim(scores, 0)
		same := g.Minus(filled(g, 1, n, n), different(g, c, n))
		counts := g.Sum(same, graph.AlongRows(n))
		targets = g.Multiply(same, g.Broadcast(g.Map(device.Reciprocal, 0, counts), graph.AlongRows(n), n, n))
	}
	cost := func(scores *graph.Node) *graph.Node {
		return g.Scale(crossEntropy(o, g, scores, targets), 0.5/float64(graph.Dim(scores, 0)))
	}
	return fromCosts(g, "infonce", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
}

// crossEntropy returns the cross entropy of the anchors in the rows of scores: [N]. Without targets, the targets are
// the matches.
func crossEntropy(o Options, g *graph.Graph, scores, targets *graph.Node) *graph.Node {
	own, rows := infoNCEConstants.of(&o), graph.AlongRows(graph.Dim(scores, 0))
	factor := 1 / own.Temperature
	if learned := learnedTemperature(&o); learned != nil {
		scale := g.Map(device.Exp, 0, learned[0].node(g))
		if own.Learn == "temperature" {
			scale = g.Map(device.Reciprocal, 0, learned[0].node(g))
		}
		scores, factor = g.Multiply(scores, repeated(g, scale, scores)), 1
	}
	match := matches(g, scores)
	if targets != nil {
		match = g.Sum(g.Multiply(scores, targets), rows)
	}
	return g.Minus(g.LogSumExp(scores, factor, rows), g.Scale(match, factor))
}
