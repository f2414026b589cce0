package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// BatchNormWeights are the parameters of a batch normalisation, each [C]; Mean and Var are the running statistics, which a training
// graph updates in place when it runs.
type BatchNormWeights struct {
	Weight, Bias, Mean, Var *Node
}

// The constants of torch.nn.BatchNorm1d.
const batchNormEps, batchNormMomentum = 1e-5, 0.1

// BatchNorm normalises a value over all axes but one, with the statistics of the batch where the graph is for training
// and the running ones otherwise.
func (g *Graph) BatchNorm(x *Node, axis int, w BatchNormWeights) *Node {
	s := x.Shape()
	if axis < 0 || axis >= len(s) {
		fail("batch norm of axis %d of shape %v", axis, s)
	}
	a := device.BatchNormArgs{C: s[axis]}
	a.Outer, a.Inner = around(s, axis)
	return g.batchNorm(a, x, w, nil, nil)
}

// BatchNormRows normalises the columns of the rows that are there: x [room, C] with counts [B]. pad, where given, is the value
// [C] of the padding rows that would make all counts equal: they take part in the statistics (quirk Q4 of VSE-infinity).
func (g *Graph) BatchNormRows(x, counts, pad *Node, w BatchNormWeights) *Node {
	wantShape("rows of a batch norm", x, -1, -1)
	if pad != nil {
		wantShape("padding of a batch norm", pad, Dim(x, 1))
	}
	return g.batchNorm(device.BatchNormArgs{C: Dim(x, 1), Inner: 1}, x, w, counts, pad)
}

func (g *Graph) batchNorm(a device.BatchNormArgs, x *Node, w BatchNormWeights, counts, pad *Node) *Node {
	a.Eps, a.Momentum, a.Train = batchNormEps, batchNormMomentum, g.Training
	for what, n := range map[string]*Node{"weight": w.Weight, "bias": w.Bias, "running mean": w.Mean, "running variance": w.Var} {
		wantShape(what+" of a batch norm", n, a.C)
	}
	in, wants := []*Node{x, w.Weight, w.Bias, w.Mean, w.Var}, []bool{true, true, true, false, false}
	if counts != nil {
		in, wants = append(in, counts), append(wants, false)
	}
	if pad != nil {
		in, wants = append(in, pad), append(wants, true)
	}
	op := &Op{Name: fmt.Sprintf("batch norm of %d, training %v", a.C, a.Train), Outs: []tensor.Shape{x.Shape().Clone()}, Wants: wants,
		Keep: []Slot{{DType: device.Float, N: a.C}, {DType: device.Float, N: a.C}}}
	args := func(c *Call) device.BatchNormArgs {
		a := a
		if counts != nil {
			rows := c.Host[5]
			a.Outer, a.Counts = total(rows), c.Ints(5)
			if pad != nil {
				a.Pads, a.Pad = padding(rows), c.In[6]
			}
		}
		a.X, a.Weight, a.Mean, a.InvStd = c.In[0], c.In[1], c.Keep[0], c.Keep[1]
		return a
	}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.Bias, a.RunningMean, a.RunningVar, a.Y = c.In[2], c.In[3], c.In[4], c.Out[0]
		d.BatchNorm(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: []tensor.Shape{x.Shape().Clone(), {a.C}, {a.C}}}
		if pad != nil {
			bw.Outs = append(bw.Outs, tensor.Shape{a.C})
		}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DY, a.DX, a.DWeight, a.DBias = c.In[len(c.In)-1], c.Out[0], c.Out[1], c.Out[2]
			if pad != nil {
				a.DPad = c.Out[3]
			}
			d.BatchNormGrad(a)
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		grads := append(out[:3:3], make([]*Node, len(in)-3)...)
		if pad != nil {
			grads[6] = out[3]
		}
		return grads
	}
	return g.Apply(op, in...)
}

// padding is the number of rows that make all counts as large as the largest.
func padding(counts []int32) int {
	most := int32(0)
	for _, c := range counts {
		most = max(most, c)
	}
	return int(most)*len(counts) - total(counts)
}
