package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// AllGatherRows returns the rows of all items, in their order, from the rows of the items of this rank: x [n, …] to
// [items, …]. All ranks must compute the same from the result, so the gradient of x is this rank's rows of the
// gradient.
func AllGatherRows(g *Graph, x *Node) *Node {
	return gatherRows(g, "gather", x, nil, 0, func(c *Call, d device.Shard, whole, own device.View) {
		DoGrad(c, device.AllGather{Shard: d, DY: whole, DX: own})
	})
}

// AllGatherShared is AllGatherRows for values that each rank uses differently: the gradients of all ranks are summed.
// With lengths, the int32 lengths of all items, x and the result have that many rows for each item: [capacity of this
// rank, …] to [capacity, …].
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

// dealOf returns the shard of the rows of a node [n, …], one for each item of this rank.
func dealOf(g *Graph, x *Node) device.Shard {
	return device.Shard{Rank: g.Shard.Rank, Ranks: g.Shard.Ranks, Items: g.Shard.Items,
		Width: x.Shape().TotalSize() / Dim(x, 0)}
}

// gatherAsync gathers the rows of x [n, I] of all items as soon as x is computed, concurrently with the following ops
// until device.Wait; nothing may write x until then. Only products of at least rows rows read the result. It has no
// gradient.
func gatherAsync(g *Graph, x *Node, rows int) *Node {
	op := &Op{Name: fmt.Sprintf("gather of %d values a row from %d ranks behind", Dim(x, 1), g.Shard.Ranks),
		Early: true}
	own, whole, deal := op.arg(x, false), op.result(g.Shard.Items, Dim(x, 1)), dealOf(g, x)
	op.Make = func(c *Call) {
		Do(c, device.AllGather{Shard: deal, Async: true, Operand: rows, X: c.In[own], Y: c.Out[whole]})
	}
	return g.apply(op)
}

// OwnRows reports whether a gradient is the gradient of the whole batch for the rows that this rank updates. It must
// not be summed over the ranks.
func OwnRows(g *Graph, n *Node) bool {
	if p, ok := n.Op().(*pick); ok {
		op, ok := children(g.expr, n)[0].Op().(*Op)
		return ok && op.ownRows && p.index == 0
	}
	op, ok := n.Op().(*Op)
	return ok && op.ownRows
}
