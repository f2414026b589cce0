package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// GatherRows returns the rows of all items, in their order, given those of the items that are here: x [n, …] to
// [items, …]. The gradient is that of the rows that are here: what is computed from all of them is the same everywhere.
func GatherRows(g *Graph, x *Node) *Node {
	return gatherRows(g, "gather", x, nil, 0, nil, 0, func(c *Call, d device.Deal, whole, own device.View) {
		DoGrad(c, device.AllGather{Deal: d, DY: whole, DX: own})
	})
}

// GatherBehind is GatherRows as soon as after has been computed, behind all that follows (device.Join): for what is
// read after the program, with operand > 0 by products of so many rows or more alone. It has no gradient. Both x and
// the result have to be retained.
func GatherBehind(g *Graph, x, after *Node, operand int) *Node {
	return gatherRows(g, "gather behind", x, nil, 0, after, operand, nil)
}

// GatherShared is GatherRows for values from which each rank computes something else: the gradient is the sum of those
// of all ranks. With the lengths int32 of all items, x and the result have as many rows for each item: [capacity here,
// …] to [capacity, …].
func GatherShared(g *Graph, x, lengths *Node, capacity int) *Node {
	sum := func(c *Call, d device.Deal, whole, own device.View) {
		Do(c, device.ReduceScatter{Deal: d, X: whole, Y: own})
	}
	return gatherRows(g, "shared gather", x, lengths, capacity, nil, 0, sum)
}

func gatherRows(g *Graph, name string, x, lengths *Node, capacity int, after *Node, operand int,
	grad func(c *Call, d device.Deal, whole, own device.View)) *Node {
	if g.Share.Alone() {
		return x
	}
	shape := x.Shape().Clone()
	deal := device.Deal{Rank: g.Share.Rank, Ranks: g.Share.Ranks, Items: g.Share.Items,
		Width: shape.TotalSize() / shape[0]}
	if lengths == nil {
		capacity = deal.Items
		wantShape("rows that are gathered", x, append([]int{g.Share.Own()}, shape[1:]...)...)
	} else {
		wantShape("lengths of rows that are gathered", lengths, deal.Items)
	}
	behind := after != nil
	op := &Op{Name: fmt.Sprintf("%s of %d values a row from %d ranks", name, deal.Width, deal.Ranks), Soon: behind}
	own, counts := op.arg(x, true), -1
	if behind {
		op.arg(after, false)
	}
	if lengths != nil {
		counts = op.arg(lengths, false)
	}
	whole := op.result(append(tensor.Shape{capacity}, shape[1:]...)...)
	dealt := func(c *Call) device.Deal {
		d := deal
		if counts >= 0 {
			d.Lengths = c.Ints(counts)
		}
		return d
	}
	op.Make = func(c *Call) {
		Do(c, device.AllGather{Deal: dealt(c), Behind: behind, Operand: operand, X: c.In[own], Y: c.Out[whole]})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx := bw.arg(dyNode, false), bw.gradient(own)
		bw.Make = func(c *Call) { grad(c, dealt(c), c.In[dy], c.Out[dx]) }
		return g.gradients(bw)
	}
	return g.apply(op)
}
