package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// InputStep is the int32 input [2] that every training graph with dropout reads: the number of training steps done
// before, its low and its high half.
const InputStep = "in.step"

// dropper draws the masks of one dropout layer.
func (g *Graph) dropper(purpose string, rate float64) device.Dropout {
	return device.Dropout{Rate: rate, Key: philox.NewKey(g.Seed, "dropout/"+purpose)}
}

// Dropout sets elements of x to zero with the given probability and divides the others by 1 - rate, in a training
// graph; otherwise it is x. The masks are a function of the seed, the purpose, which names the layer, the training step
// and the place.
func (g *Graph) Dropout(x *Node, rate float64, purpose string) *Node {
	if !g.Training || rate == 0 {
		return x
	}
	s, a := x.Shape().Clone(), g.dropper(purpose, rate)
	op := &Op{Name: fmt.Sprintf("dropout %v %s", rate, purpose)}
	values, step, y := op.arg(x, true), op.arg(g.InputInts(InputStep, 2), false), op.result(s...)
	op.Make = func(c *Call) {
		a := a
		a.X, a.Step, a.Y = c.In[values], c.Ints(step), c.Out[y]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return g.same(op, values, dy, in[step]) }
	return g.apply(op)
}

// same is the gradient of an op that does to dy what it did to an argument.
func (g *Graph) same(op *Op, arg int, in ...*Node) []*Node {
	bw := op.backward(in...)
	bw.gradient(arg)
	bw.Make = op.Make
	return g.gradients(bw)
}

// DropoutPadded is Dropout of the rows of padded sequences, x [B·S, C] step by step, with the masks of sequences that
// are packed by lengths [B] (device.Recorder); with nil lengths it is Dropout.
func (g *Graph) DropoutPadded(x, lengths *Node, rate float64, purpose string) *Node {
	if lengths == nil || !g.Training || rate == 0 {
		return g.Dropout(x, rate, purpose)
	}
	s, a, width := x.Shape().Clone(), g.dropper(purpose, rate), Dim(x, 1)
	op := &Op{Name: fmt.Sprintf("dropout %v %s of rows", rate, purpose)}
	values, step := op.arg(x, true), op.arg(g.InputInts(InputStep, 2), false)
	counts, y := op.arg(lengths, false), op.result(s...)
	op.Make = func(c *Call) {
		a := a
		a.X, a.Step, a.Y = c.In[values], c.Ints(step), c.Out[y]
		Do(c, device.DropoutPadded{Dropout: a, Lengths: c.Ints(counts), Width: width})
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return g.same(op, values, dy, in[step], in[counts]) }
	return g.apply(op)
}
