package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// AllGatherRows returns the rows of all items, in their order, given the rows of the items that are here: x [n, …] to
// [items, …]. The gradient is with respect to the rows that are here: what is computed from all of them is the same
// everywhere.
func AllGatherRows(g *Graph, x *Node) *Node {
	return gatherRows(g, "gather", x, nil, 0, func(c *Call, d device.Shard, whole, own device.View) {
		DoGrad(c, device.AllGather{Shard: d, DY: whole, DX: own})
	})
}

// AllGatherShared is AllGatherRows for values from which each rank computes something else: the gradient is the sum of
// the gradients of all ranks. With the lengths int32 of all items, x and the result have as many rows for each item:
// [capacity here, …] to [capacity, …].
func AllGatherShared(g *Graph, x, lengths *Node, capacity int) *Node {
	sum := func(c *Call, d device.Shard, whole, own device.View) {
		Do(c, device.ReduceScatter{Shard: d, X: whole, Y: own})
	}
	return gatherRows(g, "shared gather", x, lengths, capacity, sum)
}

func gatherRows(g *Graph, name string, x, lengths *Node, capacity int,
	grad func(c *Call, d device.Shard, whole, own device.View)) *Node {
	if g.Shard.Alone() {
		return x
	}
	shape := x.Shape().Clone()
	deal := dealOf(g, x)
	if lengths == nil {
		capacity = deal.Items
		wantShape("rows that are gathered", x, append([]int{g.Shard.Own()}, shape[1:]...)...)
	} else {
		wantShape("lengths of rows that are gathered", lengths, deal.Items)
	}
	op := &Op{Name: fmt.Sprintf("%s of %d values a row from %d ranks", name, deal.Width, deal.Ranks), Collective: true}
	own, counts := op.arg(x, true), op.optional(lengths, false)
	whole := op.result(append(tensor.Shape{capacity}, shape[1:]...)...)
	dealt := func(c *Call) device.Shard {
		d := deal
		if counts >= 0 {
			d.Lengths = c.Ints(counts)
		}
		return d
	}
	op.Make = func(c *Call) { Do(c, device.AllGather{Shard: dealt(c), X: c.In[own], Y: c.Out[whole]}) }
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx := bw.arg(dyNode, false), bw.gradient(own)
		bw.Make = func(c *Call) { grad(c, dealt(c), c.In[dy], c.Out[dx]) }
		return g.gradients(bw)
	}
	return g.apply(op)
}

// dealOf is the deal of the rows of a node [n, …], one for each item that is here.
func dealOf(g *Graph, x *Node) device.Shard {
	return device.Shard{Rank: g.Shard.Rank, Ranks: g.Shard.Ranks, Items: g.Shard.Items,
		Width: x.Shape().TotalSize() / Dim(x, 0)}
}

// gatherAsync gathers the rows of x [n, I] of all items as soon as x is there, beside all that follows (device.Wait): x
// is not to be written until then. Products of that many rows or more alone read the result. It has no gradient.
func gatherAsync(g *Graph, x *Node, rows int) *Node {
	op := &Op{Name: fmt.Sprintf("gather of %d values a row from %d ranks behind", Dim(x, 1), g.Shard.Ranks),
		Early: true}
	own, whole, deal := op.arg(x, false), op.result(g.Shard.Items, Dim(x, 1)), dealOf(g, x)
	op.Make = func(c *Call) {
		Do(c, device.AllGather{Shard: deal, Async: true, Operand: rows, X: c.In[own], Y: c.Out[whole]})
	}
	return g.apply(op)
}

// OwnRows reports whether a gradient is the gradient of the whole batch, and of the rows alone that this rank updates:
// it is not to be summed over the ranks.
func OwnRows(g *Graph, n *Node) bool {
	if p, ok := n.Op().(*pick); ok {
		op, ok := children(g.expr, n)[0].Op().(*Op)
		return ok && op.ownRows && p.index == 0
	}
	op, ok := n.Op().(*Op)
	return ok && op.ownRows
}
