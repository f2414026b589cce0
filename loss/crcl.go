package loss

// CRCL, cross-modal robust complementary learning (Qin, Sun, Peng, Zhou, Peng, Hu: "Cross-modal active complementary
// learning with self-refining correspondence", NeurIPS 2023; code QinYang79/CRCL, model/CRCL.py: train_self). Every
// pair has a label y_i from 0, wrong, to 1, right. With the shares p_ij of each row and T_i = Σ_j tan p_ij:
//
//	loss = 1/N Σ_i [-y_i ln p_ii + 5 Σ_{j≠i} tan p_ij / T_i^(1-y_i)] + the same for the columns
//
// Labels are averages g of the match probabilities f_i = (p_ii + p'_ii)/2 over the steps that had the caption, one per
// caption, 1 at first. In warm-up epochs y_i = g_i, and the last of them replaces g_i by f_i; afterwards
// y_i = α g_i + (1-α) f_i, which becomes g_i. A label below 0.1 is 0. Without correction y_i = f_i always.
//
// The reference trains in rounds: a new network with the labels of the round before, which are kept during its warm-up
// epochs. Here a round is a run, and crcl.labels names the last checkpoint of the one before (quirk L23).

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["crcl"] = traits{about: "complementary learning with labels that follow the scores, for wrong captions",
		order: 12, titles: []string{"CRCL"}, mean: true,
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			return even("crcl.temperature", crclConstants.of(o).Temperature, span)
		},
		warmUp: 2, build: refined,
		memory: func(o *Options) Memory {
			own := crclConstants.of(o)
			return &crclMemory{labels: perCaption{first: 1}, warmUp: o.WarmupEpochs, later: own.Labels != ""}
		},
		earlier: func(o *Options) string { return crclConstants.of(o).Labels },
		check: func(o *Options) error {
			if own := crclConstants.of(o); o.WarmupEpochs == 0 && own.Correction {
				return &options.Error{Key: "warmup_epochs", Found: "0", Expected: "1 or more for loss crcl",
					Remedy: "set 2 as published, or crcl.correction to false"}
			}
			return nil
		}}
}

var crclConstants = declare("crcl", crclOptions{Temperature: 0.05, Momentum: 0.8, Correction: true})

type crclOptions struct {
	Temperature float64 `yaml:"temperature" min:"0.001" max:"100" doc:"temperature tau that scores are divided by"`
	Momentum    float64 `yaml:"momentum" min:"0" max:"1" doc:"weight alpha of a caption's label so far"`
	Correction  bool    `yaml:"correction" doc:"labels are averages over the steps; without, each is the match probability of its step"`
	Labels      string  `yaml:"labels" doc:"last checkpoint of the previous round, for its labels; empty starts with 1"`
}

const (
	inputLabels = "in.loss.labels" // [N]
	leastLabel  = 0.1              // smaller labels count as 0
)

func refined(o Options, g *graph.Graph, scores *graph.Node, c Context, warmUp bool) *graph.Node {
	n, own := graph.Dim(scores, 0), crclConstants.of(&o)
	rows := graph.AlongRows(n)
	images, captions := sharesOf(g, scores, own.Temperature), sharesOf(g, g.SwapAxes(scores), own.Temperature)
	match := g.StopGradient(g.Scale(g.Add(matches(g, images.p), matches(g, captions.p)), 0.5))
	labels := match
	if own.Correction {
		if labels = g.Input(inputLabels, n); !warmUp {
			labels = g.Add(g.Scale(labels, own.Momentum), g.Scale(match, 1-own.Momentum))
			labels = g.Multiply(labels, notNegative(g, g.Minus(labels, filled(g, leastLabel, n))))
		}
	}
	labels = g.StopGradient(labels)
	c.Remember(match, labels)
	cost := func(s shares) *graph.Node {
		tangents := graph.Tan(g, s.p)
		all := g.Map(device.Log, 0, g.Sum(tangents, rows))
		wrong := g.Sum(g.Multiply(tangents, others(g, n)), rows)
		power := g.Map(device.Exp, 0, g.Multiply(g.Minus(labels, filled(g, 1, n)), all)) // 1/T^(1-y)
		return g.Scale(g.Minus(g.Scale(g.Multiply(wrong, power), 5), g.Multiply(labels, s.log)), 1/float64(n))
	}
	return fromCosts(g, "crcl", o.Margin, scores, cost(images), cost(captions))
}

// crclMemory holds the label of every caption.
type crclMemory struct {
	labels perCaption
	warmUp int  // epochs
	later  bool // the labels are from an earlier round
}

func (m *crclMemory) Feed(s *graph.Instance, b *Batch) error {
	labels := m.labels.of(b)
	for i, y := range labels {
		if b.WarmUp && y < leastLabel {
			labels[i] = 0
		}
	}
	return s.FeedDoubles(inputLabels, labels)
}

func (m *crclMemory) Take(b *Batch, values []float64) {
	match, labels := values[:b.N], values[b.N:]
	if b.WarmUp && b.Epoch == m.warmUp-1 && !m.later {
		labels = match
	}
	for i, y := range labels {
		m.labels.set(b.caption(i), y)
	}
}

func (m *crclMemory) State() map[string]*[]float64 {
	return map[string]*[]float64{"labels": &m.labels.values}
}
