package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
	"vsetrain/internal/philox"
)

// InputStep is the int32 input [2] that every training graph with dropout reads: the number of training steps done before, its
// low and its high half.
const InputStep = "in.step"

// dropper draws the masks of one dropout layer.
func (g *Graph) dropper(purpose string, rate float64) device.DropoutArgs {
	return device.DropoutArgs{Rate: rate, Key: philox.NewKey(g.Seed, "dropout/"+purpose)}
}

// Dropout sets elements of x to zero with the given probability and divides the others by 1 - rate, in a training graph;
// otherwise it is x. The masks are a function of the seed, the purpose, which names the layer, the training step and the place.
func (g *Graph) Dropout(x *Node, rate float64, purpose string) *Node {
	if !g.Training || rate == 0 {
		return x
	}
	s, a := x.Shape().Clone(), g.dropper(purpose, rate)
	run := func(d device.Device, c *Call) {
		a := a
		a.X, a.Step, a.Y = c.In[0], c.Ints(1), c.Out[0]
		d.Dropout(a)
	}
	op := &Op{Name: fmt.Sprintf("dropout %v %s", rate, purpose), Outs: []tensor.Shape{s}, Wants: []bool{true, false}, Run: run}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s}, Run: run}
		return []*Node{g.Apply(bw, dy, in[1]), nil}
	}
	return g.Apply(op, x, g.InputInts(InputStep, 2))
}

// DropoutPadded is Dropout of the rows of padded sequences, x [B·S, C] step by step, with the masks of sequences that are packed by lengths [B]
// (device.Recorder); with nil lengths it is Dropout.
func (g *Graph) DropoutPadded(x, lengths *Node, rate float64, purpose string) *Node {
	if lengths == nil || !g.Training || rate == 0 {
		return g.Dropout(x, rate, purpose)
	}
	s, a, width := x.Shape().Clone(), g.dropper(purpose, rate), Dim(x, 1)
	run := func(d device.Device, c *Call) {
		a := a
		a.X, a.Step, a.Y = c.In[0], c.Ints(1), c.Out[0]
		d.(device.Recorder).DropoutPadded(a, c.Ints(2), width, 0)
	}
	op := &Op{Name: fmt.Sprintf("dropout %v %s of rows", rate, purpose), Outs: []tensor.Shape{s}, Wants: []bool{true, false, false}, Run: run}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s}, Run: run}
		return []*Node{g.Apply(bw, dy, in[1], in[2]), nil, nil}
	}
	return g.Apply(op, x, g.InputInts(InputStep, 2), lengths)
}
