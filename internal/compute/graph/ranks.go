package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// GatherRows returns the rows of all items, in their order, given those of the items that are here: x [n, …] to
// [items, …]. The gradient is that of the rows that are here: what is computed from all of them is the same everywhere.
func GatherRows(g *Graph, x *Node) *Node {
	return gatherRows(g, "gather", x, nil, 0, func(c *Call, d device.Deal, whole, own device.View) {
		DoGrad(c, device.AllGather{Deal: d, DY: whole, DX: own})
	})
}

// GatherShared is GatherRows for values from which each rank computes something else: the gradient is the sum of those
// of all ranks. With the lengths int32 of all items, x and the result have as many rows for each item: [capacity here,
// …] to [capacity, …].
func GatherShared(g *Graph, x, lengths *Node, capacity int) *Node {
	sum := func(c *Call, d device.Deal, whole, own device.View) {
		Do(c, device.ReduceScatter{Deal: d, X: whole, Y: own})
	}
	return gatherRows(g, "shared gather", x, lengths, capacity, sum)
}

func gatherRows(g *Graph, name string, x, lengths *Node, capacity int,
	grad func(c *Call, d device.Deal, whole, own device.View)) *Node {
	if g.Share.Alone() {
		return x
	}
	shape := x.Shape().Clone()
	deal := dealOf(g, x)
	if lengths == nil {
		capacity = deal.Items
		wantShape("rows that are gathered", x, append([]int{g.Share.Own()}, shape[1:]...)...)
	} else {
		wantShape("lengths of rows that are gathered", lengths, deal.Items)
	}
	op := &Op{Name: fmt.Sprintf("%s of %d values a row from %d ranks", name, deal.Width, deal.Ranks), Meets: true}
	own, counts := op.arg(x, true), -1
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
	op.Make = func(c *Call) { Do(c, device.AllGather{Deal: dealt(c), X: c.In[own], Y: c.Out[whole]}) }
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx := bw.arg(dyNode, false), bw.gradient(own)
		bw.Make = func(c *Call) { grad(c, dealt(c), c.In[dy], c.Out[dx]) }
		return g.gradients(bw)
	}
	return g.apply(op)
}

// dealOf is the deal of the rows of a node [n, …], one for each item that is here.
func dealOf(g *Graph, x *Node) device.Deal {
	return device.Deal{Rank: g.Share.Rank, Ranks: g.Share.Ranks, Items: g.Share.Items,
		Width: x.Shape().TotalSize() / Dim(x, 0)}
}

// gatherBehind gathers the rows of x [n, I] of all items as soon as x is there, behind all that follows (device.Join):
// x is not to be written until then. Products of so many rows or more alone read the result. It has no gradient.
func gatherBehind(g *Graph, x *Node, rows int) *Node {
	op := &Op{Name: fmt.Sprintf("gather of %d values a row from %d ranks behind", Dim(x, 1), g.Share.Ranks), Soon: true}
	own, whole, deal := op.arg(x, false), op.result(g.Share.Items, Dim(x, 1)), dealOf(g, x)
	op.Make = func(c *Call) {
		Do(c, device.AllGather{Deal: deal, Behind: true, Operand: rows, X: c.In[own], Y: c.Out[whole]})
	}
	return g.apply(op)
}

// rowsOf are the rows of the weight of a linear layer that each rank multiplies: nil where it multiplies all, since it
// updates all of them, x is no input with one row for each item, or there are so many items that it takes less to send
// the weight and its gradient than x, the products and their gradients.
func rowsOf(g *Graph, x, w *Node) []int32 {
	rows := g.Share.Rows[w.Name()]
	input := g.leaves[x.Name()]
	items, o, i := g.Share.Items, Dim(w, 0), Dim(w, 1)
	if rows == nil || input == nil || input.node != x || input.param || Dim(x, 0) != g.Share.Own() ||
		items*(i+2*o) > 2*o*i {
		return nil
	}
	return rows
}

// linearByRows is a linear layer of inputs whose weight is too large to be sent: the ranks gather the inputs, each
// multiplies all of them by its own rows of the weight, and they gather the products. So is the gradient of the weight
// made, of these rows alone (OwnRows). The result is that of the items that are here.
func linearByRows(g *Graph, t LinearTerm, rows []int32) *Node {
	n, i, o, all := Dim(t.X, 0), Dim(t.X, 1), Dim(t.W, 0), g.Share.Items
	lo := total(rows[:g.Share.Rank])
	hi := lo + int(rows[g.Share.Rank])
	pieces := device.Deal{Rank: g.Share.Rank, Ranks: g.Share.Ranks, Width: all, Lengths: device.Ints{Host: rows}}
	items := device.Deal{Rank: g.Share.Rank, Ranks: g.Share.Ranks, Items: all, Width: o}
	op := &Op{Name: fmt.Sprintf("linear %d→%d by rows of %d ranks", i, o, g.Share.Ranks), Meets: true}
	inputs, weight, bias := op.arg(gatherBehind(g, t.X, o/g.Share.Ranks), false), op.arg(t.W, true), -1
	if t.B != nil {
		wantShape("bias of a linear layer", t.B, o)
		bias = op.arg(t.B, true)
	}
	y, products, turned := op.result(n, o), op.scratch(all*o), op.scratch(o*all)
	op.Make = func(c *Call) {
		own, whole := c.Temp[products].Slice(0, all*(hi-lo)), c.Temp[turned]
		a := device.Gemm{TransB: true, M: all, N: hi - lo, K: i, Alpha: 1, A: c.In[inputs],
			B: c.In[weight].Slice(lo*i, hi*i), C: own, Even: t.Even}
		if bias >= 0 {
			a.Bias = c.In[bias].Slice(lo, hi)
		}
		Do(c, device.Join{X: c.In[inputs]})
		Do(c, a)
		Do(c, device.SwapAxes{Dst: whole.Slice(lo*all, hi*all), X: own, A: all, B: hi - lo, Inner: 1})
		Do(c, device.AllGather{Deal: pieces, X: whole.Slice(lo*all, hi*all), Y: whole})
		Do(c, device.SwapAxes{Dst: c.Temp[products], X: whole, A: o, B: all, Inner: 1})
		DoGrad(c, device.AllGather{Deal: items, DY: c.Temp[products], DX: c.Out[y]})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward()
		bw.ownRows = true
		dWeight, dBias := bw.gradient(weight), -1
		if bias >= 0 {
			dBias = bw.gradient(bias)
		}
		inputs, dy, dys := bw.arg(in[inputs], false), bw.arg(dyNode, false), bw.arg(gatherBehind(g, dyNode, 0), false)
		bw.Make = func(c *Call) {
			if dBias >= 0 && c.Out[dBias].Present() {
				Do(c, device.ColumnSum{Dst: c.Out[dBias], X: c.In[dy], Rows: n, Columns: o})
			}
			Do(c, device.Join{X: c.In[dys]})
			if c.Out[dWeight].Present() {
				Do(c, device.Gemm{TransA: true, M: hi - lo, N: i, K: all, Alpha: 1, A: c.In[dys].Slice(lo, c.In[dys].N),
					LDA: o, B: c.In[inputs], C: c.Out[dWeight].Slice(lo*i, hi*i), Even: t.Even})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// OwnRows reports whether a gradient is that of the whole batch, and of the rows alone that this rank updates: it is
// not to be summed over the ranks.
func OwnRows(g *Graph, n *Node) bool {
	if p, ok := n.Op().(*pick); ok {
		op, ok := children(g.expr, n)[0].Op().(*Op)
		return ok && op.ownRows && p.index == 0
	}
	op, ok := n.Op().(*Op)
	return ok && op.ownRows
}
