package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// BatchNormWeights are the parameters of a batch normalisation of C channels, each [C]. Mean and Var are running statistics:
// they have no gradient, and a program of a training graph changes them in place, once a run.
type BatchNormWeights struct {
	Weight, Bias, Mean, Var *Node
}

// The constants of torch.nn.BatchNorm1d.
const batchNormEps, batchNormMomentum = 1e-5, 0.1

// BatchNorm normalises every channel of x over all other axes (device.BatchNormArgs): by the statistics of the batch in a training
// graph, by the running ones otherwise.
func (g *Graph) BatchNorm(x *Node, axis int, w BatchNormWeights) *Node {
	s := x.Shape().Clone()
	a := device.BatchNormArgs{C: Dim(x, axis), Train: g.Training, Eps: batchNormEps, Momentum: batchNormMomentum}
	a.Outer, a.Inner = around(s, axis)
	wantShape("weight of a batch norm", w.Weight, a.C)
	wantShape("bias of a batch norm", w.Bias, a.C)
	wantShape("running mean of a batch norm", w.Mean, a.C)
	wantShape("running variance of a batch norm", w.Var, a.C)
	op := &Op{Name: fmt.Sprintf("batch norm %v", s), Outs: []tensor.Shape{s}, Wants: []bool{true, true, true, false, false},
		Keep: []Slot{{DType: device.Float, N: a.C}, {DType: device.Float, N: a.C}}}
	op.Run = func(d device.Device, c *Call) {
		a := a
		a.X, a.Weight, a.Bias, a.RunningMean, a.RunningVar, a.Y = c.In[0], c.In[1], c.In[2], c.In[3], c.In[4], c.Out[0]
		a.Mean, a.InvStd = c.Keep[0], c.Keep[1]
		d.BatchNorm(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s, {a.C}, {a.C}}, Forward: op}
		bw.Run = func(d device.Device, c *Call) {
			a := a
			a.X, a.Weight, a.DY = c.In[0], c.In[1], c.In[2]
			a.DX, a.DWeight, a.DBias = c.Out[0], c.Out[1], c.Out[2]
			a.Mean, a.InvStd = c.Keep[0], c.Keep[1]
			d.BatchNormGrad(a)
		}
		out := g.ApplyMulti(bw, in[0], in[1], dy)
		return []*Node{out[0], out[1], out[2], nil, nil}
	}
	return g.Apply(op, x, w.Weight, w.Bias, w.Mean, w.Var)
}

// around returns the products of the sizes before and behind an axis.
func around(s tensor.Shape, axis int) (outer, inner int) {
	outer, inner = 1, 1
	for i, d := range s {
		if i < axis {
			outer *= d
		} else if i > axis {
			inner *= d
		}
	}
	return outer, inner
}
