// Package loss holds the retrieval losses over the scores of a mini-batch, one per file: LMH, LSEH, InfoNCE, … A loss
// is a function from a score node and a Context to a scalar node; it does not see the network.
//
// Notation: S [N, N], S_ij the score of image i and caption j, matching pairs on the diagonal; rows retrieve captions,
// columns images. Hinges are summed over the batch, LUWM and InfoNCE are means, as in the references (loss.py:
// ContrastiveLoss).
package loss

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// Context is what a loss may know about the batch besides the scores.
type Context struct {
	Semantics *graph.Node // [N, k] semantic vectors of the captions; LSEH
	Images    *graph.Node // int32 [N] identity of the image of each pair; LSEH
	Captions  *graph.Node // int32 [N] identity of the image of each caption; the same node as Images, except in tests
	Margins   *graph.Node // [N, N] the result of Options.Margins; nil builds it
	// Remember receives the nodes whose values Memory.Take gets after the step; may be nil.
	Remember func(values ...*graph.Node)
}

// Arguments and result of a loss op.
const (
	argScores  = iota // [N, N]
	argMargins        // [N, N], for hinges with a margin for each pair

	outLoss = 0 // the loss, its row part and its column part
)

// Saved tensors of every loss op. The host may read all but the gradient after a run (graph.Program.Saved).
const (
	savedGrad   = iota // dLoss/dS
	HardCaption        // int32 [N]: for each image, the caption that is its hardest negative
	HardImage          // int32 [N]: for each caption, the image
	CostCaption        // [N]: the hinge of that negative, 0 without a violation
	CostImage          // [N]
)

// Build adds the loss to the graph of the scores. sum replaces the hardest negative of LMH and LSEH by the sum over
// all, as in warm-up epochs. The result is the scalar loss; its memory holds three numbers: the loss, its row part
// (caption retrieval) and its column part (image retrieval).
func (o Options) Build(g *graph.Graph, scores *graph.Node, c Context, sum bool) *graph.Node {
	n := graph.Dim(scores, 0)
	if graph.Dim(scores, 1) != n {
		graph.Failf("a loss over scores of shape %v; training scores are square", scores.Shape())
	}
	t, ok := registry[o.Name]
	if !ok {
		graph.Failf("loss %q is unknown", o.Name)
	}
	if c.Remember == nil {
		c.Remember = func(...*graph.Node) {}
	}
	return t.build(o, g, scores, c, sum)
}

// lossOp returns an op with the buffers of a loss over n pairs, which run fills.
func lossOp(g *graph.Graph, name string, n int, run func(c *graph.Call, out device.LossOut)) *graph.Op {
	op := &graph.Op{Name: fmt.Sprintf("%s %d", name, n), Outs: []graph.Shape{nil}, OutSize: 3,
		Saved: []graph.SavedTensor{
			savedGrad:   {DType: device.Float, N: n * n},
			HardCaption: {DType: device.Int32, N: n, Read: true},
			HardImage:   {DType: device.Int32, N: n, Read: true},
			CostCaption: {DType: device.Float, N: n, Read: true},
			CostImage:   {DType: device.Float, N: n, Read: true},
		}}
	op.Make = func(c *graph.Call) {
		run(c, device.LossOut{Loss: c.Out[outLoss], Grad: c.Saved[savedGrad], HardCaption: c.Saved[HardCaption],
			HardImage: c.Saved[HardImage], CostCaption: c.Saved[CostCaption], CostImage: c.Saved[CostImage]})
	}
	op.Grad = func(in []*graph.Node, _, dloss *graph.Node) []*graph.Node {
		bw := &graph.Op{Name: op.Name + " gradient", Outs: []graph.Shape{{n, n}}, Forward: op}
		const outScores, argLoss = 0, 0 // gradients
		bw.Make = func(c *graph.Call) {
			graph.Do(c, device.Scale{Dst: c.Out[outScores], X: c.Saved[savedGrad], Factor: c.In[argLoss].Slice(0, 1)})
		}
		grads := make([]*graph.Node, len(in))
		grads[argScores] = g.Apply(bw, dloss)
		return grads
	}
	return op
}

// Names of the two losses of hinges.
const (
	LSH = "lsh" // sum of hinges
	LMH = "lmh" // max of hinges
)

func init() {
	registry[LSH] = traits{about: "sum of hinges", order: 1, sum: true, hinges: asTheyAre, titles: []string{"LSH"},
		reference: func(_ *Options, s map[string]any) { s["max_violation"] = false },
		build: func(o Options, g *graph.Graph, scores *graph.Node, _ Context, _ bool) *graph.Node {
			return hinge(g, scores, nil, o.Margin, false)
		}}
	registry[LMH] = traits{about: "max of hinges", order: 2, compared: true, plateau: true, hinges: asTheyAre,
		titles: []string{"LMH1", "LMH2", "LMH"}, // the LSEH paper's two, by margin and schedule, and others
		title:  func(o *Options) string { return fmt.Sprintf("LMH α=%v", o.Margin) },
		build: func(o Options, g *graph.Graph, scores *graph.Node, _ Context, sum bool) *graph.Node {
			return hinge(g, scores, nil, o.Margin, !sum)
		}}
}

// hinge adds LSH or LMH with a constant margin, or with the margins of LSEH.
//
//	cs_ij = [M_ij + S_ij - S_ii]+    ci_ij = [M_ij + S_ij - S_jj]+    0 on the diagonal
//	LSH = Σ_ij cs_ij + Σ_ij ci_ij    LMH = Σ_i max_j cs_ij + Σ_j max_i ci_ij
func hinge(g *graph.Graph, scores, margins *graph.Node, margin float64, hardest bool) *graph.Node {
	n := graph.Dim(scores, 0)
	name := "sum of hinges"
	if hardest {
		name = "max of hinges"
	}
	op := lossOp(g, name, n, func(c *graph.Call, out device.LossOut) {
		a := device.Hinge{N: n, Scores: c.In[argScores], Margin: margin, Max: hardest, LossOut: out}
		if len(c.In) > 1 {
			a.Margins = c.In[argMargins]
		}
		graph.Do(c, a)
	})
	if margins == nil {
		op.NeedsGrad = []bool{true}
		return g.Apply(op, scores)
	}
	op.NeedsGrad = []bool{true, false}
	return g.Apply(op, scores, margins)
}
