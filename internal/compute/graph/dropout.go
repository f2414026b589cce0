package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// InputStep is the int32 input [2] that every training graph with dropout reads: the low and the high half of the
// number of earlier training steps.
const InputStep = "in.step"

// dropper draws the masks of one dropout layer inside an op, which reads InputStep and the numbers of rows.
func (g *Graph) dropper(rate float64, purpose string) device.DropoutParams {
	if !g.Training {
		rate = 0
	}
	return device.DropoutParams{Rate: rate, Key: philox.NewKey(g.Seed, "dropout/"+purpose)}
}

// dropArgs are the arguments of an op that drops: the counter of steps and the numbers of rows (Graph.RowIndices); both
// are -1 where nothing is dropped.
type dropArgs struct{ step, rows int }

// dropped declares the arguments of a dropout of the rate.
func (o *Op) dropped(g *Graph, rate float64, rows *Node) dropArgs {
	if !g.Training || rate == 0 {
		return dropArgs{-1, -1}
	}
	return dropArgs{o.arg(g.InputInts(InputStep, 2), false), o.arg(rows, false)}
}

// set gives drops what the first n rows of a call read.
func (a dropArgs) set(c *Call, drop *device.DropoutParams, n int) {
	if a.step >= 0 {
		drop.Step, drop.Rows = c.Ints(a.step), c.In[a.rows].Slice(0, n)
	}
}

// Dropout sets elements of x [N, …] to zero with the given probability and divides the others by 1 - rate, in a
// training graph; otherwise it is x. The masks are a function of the seed, the purpose, which names the layer, the
// training step, the number of the row, of rows [N] (RowIndices), and the column.
func (g *Graph) Dropout(x, rows *Node, rate float64, purpose string) *Node {
	if !g.Training || rate == 0 {
		return x
	}
	n := Dim(x, 0)
	wantShape("numbers of rows", rows, n)
	s, a := x.Shape().Clone(), device.Dropout{DropoutParams: g.dropper(rate, purpose), Width: x.Shape().TotalSize() / n}
	op := &Op{Name: fmt.Sprintf("dropout %v %s", rate, purpose)}
	values, drop, y := op.arg(x, true), op.dropped(g, rate, rows), op.result(s...)
	op.Make = func(c *Call) {
		a := a
		drop.set(c, &a.DropoutParams, n)
		a.X, a.Y = c.In[values], c.Out[y]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := op.backward(dy, in[drop.step], in[drop.rows])
		bw.gradient(values)
		bw.Make = op.Make
		return g.gradients(bw)
	}
	return g.apply(op)
}

// RowIndices returns the numbers int32 [n] of the rows of a value with capacity for n rows, in which items have the
// given lengths [B]. Rows that belong to no item have the number -1; so do the rows of an item from position there [B]
// on, if there is not nil. Programs compute the numbers from the lengths and Instance.SetPositions.
func (g *Graph) RowIndices(n int, layout Layout, lengths, there *Node) *Node {
	if there == nil {
		there = lengths
	}
	name := fmt.Sprintf("%d rows %s by %s, of which %s are there", n, layout, lengths.Name(), there.Name())
	node := g.leaf(name, false, tensor.Int32, []int{n})
	g.leaves[name].rows = &numbering{of: lengths.Name(), there: there.Name(), layout: layout,
		fed: make([]int32, n), next: make([]int32, n)}
	return node
}

// ItemIndices returns the numbers of the rows of a value with one row for each of n items.
func (g *Graph) ItemIndices(n int) *Node {
	ones := make([]int32, n)
	for i := range ones {
		ones[i] = 1
	}
	return g.RowIndices(n, Concatenated, g.ConstInts(fmt.Sprintf("%d ones", n), ones), nil)
}
