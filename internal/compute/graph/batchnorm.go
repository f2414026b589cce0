package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// BatchNormWeights are the parameters of a batch normalisation, each [C]; Mean and Var are the running statistics,
// which a training graph updates in place when it runs.
type BatchNormWeights struct {
	Weight, Bias, Mean, Var *Node
}

// The constants of torch.nn.BatchNorm1d.
const batchNormMomentum = 0.1

// BatchNormEps is the ε that batch normalisation adds to variances.
const BatchNormEps = 1e-5

// BatchNorm normalises a value over all axes but one, with the statistics of the batch where the graph is for training
// and the running ones otherwise.
func (g *Graph) BatchNorm(x *Node, axis int, w BatchNormWeights) *Node {
	return g.BatchNormPlus(x, axis, w, nil)
}

// BatchNormPlus is BatchNorm with a residual connection: plus, of the shape of x, is added to what is normalised.
func (g *Graph) BatchNormPlus(x *Node, axis int, w BatchNormWeights, plus *Node) *Node {
	s := x.Shape()
	if axis < 0 || axis >= len(s) {
		fail("batch norm of axis %d of shape %v", axis, s)
	}
	a := device.BatchNorm{C: s[axis]}
	a.Outer, a.Inner = around(s, axis)
	return g.batchNorm(a, x, w, nil, nil, plus)
}

// BatchNormRows normalises the columns of the rows that are there: x [capacity, C] with counts [B]. pad, where given,
// is the value [C] of the padding rows that would make all counts equal: they take part in the statistics (quirk Q4 of
// VSE-infinity).
func (g *Graph) BatchNormRows(x, counts, pad *Node, w BatchNormWeights) *Node {
	wantShape("rows of a batch norm", x, -1, -1)
	if pad != nil {
		wantShape("padding of a batch norm", pad, Dim(x, 1))
	}
	return g.batchNorm(device.BatchNorm{C: Dim(x, 1), Inner: 1}, x, w, counts, pad, nil)
}

func (g *Graph) batchNorm(a device.BatchNorm, x *Node, w BatchNormWeights, counts, pad, plus *Node) *Node {
	if g.Micro != nil && g.Training {
		y := cut(g, a, x, w, counts, pad)
		if plus != nil {
			y = g.Add(y, plus)
		}
		return y
	}
	if a.Eps, a.Momentum, a.Train = BatchNormEps, batchNormMomentum, g.Training; g.Again {
		a.Momentum = 0
	}
	for what, n := range map[string]*Node{"weight": w.Weight, "bias": w.Bias, "running mean": w.Mean,
		"running variance": w.Var} {
		wantShape(what+" of a batch norm", n, a.C)
	}
	op := &Op{Name: fmt.Sprintf("batch norm of %d, training %v", a.C, a.Train), Collective: a.Train}
	rows, weight, bias := op.arg(x, true), op.arg(w.Weight, true), op.arg(w.Bias, true)
	if plus != nil {
		wantShape("residual connection of a batch norm", plus, x.Shape()...)
	}
	runningMean, runningVar, lengths := op.arg(w.Mean, false), op.arg(w.Var, false), op.optional(counts, false)
	padded, residual := op.optional(pad, true), op.optional(plus, true)
	y, mean, inv := op.result(x.Shape().Clone()...), op.save(a.C), op.save(a.C)
	args := func(c *Call) device.BatchNorm {
		a := a
		if lengths >= 0 {
			a.Outer, a.Counts = c.rows(lengths), c.Ints(lengths)
		}
		if padded >= 0 {
			a.Pads, a.Pad = padding(c.Ints(lengths).Host), c.In[padded]
		}
		a.X, a.Weight, a.Mean, a.InvStd = c.In[rows], c.In[weight], c.Saved[mean], c.Saved[inv]
		return a
	}
	op.Make = func(c *Call) {
		a := args(c)
		a.Bias, a.RunningMean, a.RunningVar, a.Y = c.In[bias], c.In[runningMean], c.In[runningVar], c.Out[y]
		a.Plus = view(c.In, residual)
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx, dWeight, dBias, dPad := bw.arg(dyNode, false), bw.gradient(rows), bw.gradient(weight),
			bw.gradient(bias), bw.gradient(padded)
		bw.Make = func(c *Call) {
			a := args(c)
			a.DY, a.DX, a.DWeight, a.DBias = c.In[dy], c.Out[dx], c.Out[dWeight], c.Out[dBias]
			a.DPad = view(c.Out, dPad)
			DoGrad(c, a)
		}
		all := g.gradients(bw)
		if residual >= 0 {
			all[residual] = dyNode
		}
		return all
	}
	return g.apply(op)
}

// cut ends a graph of a micro-batch at a batch norm.
func cut(g *Graph, a device.BatchNorm, x *Node, w BatchNormWeights, counts, pad *Node) *Node {
	m, shape := g.Micro, x.Shape().Clone()
	if shape[0]%m.Items != 0 || counts == nil && a.Outer%m.Items != 0 {
		fail("batch norm of shape %v in a micro-batch of %d items", shape, m.Items)
	}
	at := len(m.Cuts)
	m.Cuts = append(m.Cuts, Cut{X: x, Y: g.Input(CutY(at), shape...), Counts: counts,
		Whole: func(g *Graph, items int) (all, y *Node) {
			a, s := a, shape.Clone()
			s[0], a.Outer = s[0]/m.Items*items, a.Outer/m.Items*items
			all = g.Input(CutX(at), s...)
			again := func(n *Node) *Node {
				if n == nil {
					return nil
				}
				return g.Param(n.Name(), n.Shape()...)
			}
			var rows *Node
			if counts != nil {
				rows = g.InputInts(CutCounts(at), items)
			}
			return all, g.batchNorm(a, all, BatchNormWeights{again(w.Weight), again(w.Bias), again(w.Mean),
				again(w.Var)}, rows, again(pad), nil)
		}})
	return m.Cuts[at].Y
}

// padding is the number of rows that make all counts as large as the largest.
func padding(counts []int32) int {
	most := int32(0)
	for _, c := range counts {
		most = max(most, c)
	}
	return int(most)*len(counts) - device.Total(counts)
}
