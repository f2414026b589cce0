package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// LinearTerm is x Wᵀ + b for x [N, I], W [O, I] and b [O] or nil. Even: its products are even (device.Gemm).
type LinearTerm struct {
	X, W, B *Node
	Even    bool
}

// Linear computes a linear layer: y [N, O].
func (g *Graph) Linear(t LinearTerm) *Node {
	x, w, b := t.X, t.W, t.B
	n, i, o := Dim(x, 0), Dim(x, 1), Dim(w, 0)
	wantShape("weight of a linear layer", w, o, i)
	if rows := rowsOf(g, x, w); rows != nil {
		return linearByRows(g, t, rows)
	}
	op := &Op{Name: fmt.Sprintf("linear %d→%d", i, o)}
	if b != nil {
		wantShape("bias of a linear layer", b, o)
	}
	rows, weight, bias, y := op.arg(x, true), op.arg(w, true), op.optional(b, true), op.result(n, o)
	op.Make = func(c *Call) {
		Do(c, device.Gemm{TransB: true, M: n, N: o, K: i, Alpha: 1, A: c.In[rows], B: c.In[weight], C: c.Out[y],
			Bias: view(c.In, bias), Even: t.Even})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward() // needs no bias
		dx, dWeight, dBias := bw.adding(bw.gradient(rows)), bw.adding(bw.gradient(weight)), bw.gradient(bias)
		rows, weight, dy := bw.arg(in[rows], false), bw.arg(in[weight], false), bw.arg(dyNode, false)
		bw.Outer = &Outer{Result: dWeight, A: dy, B: rows}
		bw.Make = func(c *Call) {
			x, w, dy := c.In[rows], c.In[weight], c.In[dy]
			c.columnSums(view(c.Out, dBias), dy, n, o)
			c.product(c.Out[dx], device.Gemm{M: n, N: i, K: o, Beta: c.beta(dx), A: dy, B: w, Even: t.Even})
			c.product(c.Out[dWeight], device.Gemm{TransA: true, M: o, N: i, K: n, Beta: c.beta(dWeight), A: dy, B: x,
				Even: t.Even})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// rowsOf returns how many rows of the weight of a linear layer each rank multiplies. It is nil, which means all rows,
// if every rank updates all rows, if x is not an input with one row for each item, or if sending the weight and its
// gradient takes fewer bytes than sending x, the products and their gradients.
func rowsOf(g *Graph, x, w *Node) []int32 {
	rows := g.Shard.Rows[w.Name()]
	input := g.leaves[x.Name()]
	items, o, i := g.Shard.Items, Dim(w, 0), Dim(w, 1)
	if rows == nil || input == nil || input.node != x || input.param || Dim(x, 0) != g.Shard.Own() ||
		items*(i+2*o) > 2*o*i {
		return nil
	}
	return rows
}

// linearByRows is a linear layer of inputs whose weight is too large to be sent. The ranks gather the inputs, each rank
// multiplies all of them by its own rows of the weight, and the ranks gather the products. The gradient of the weight
// is computed for these rows alone (OwnRows). The result has the items of this rank. Compile refuses a second reader of
// the weight, whose part of the gradient would have to be summed over the ranks.
func linearByRows(g *Graph, t LinearTerm, rows []int32) *Node {
	g.leaves[t.W.Name()].byRows = true
	n, i, o, all := Dim(t.X, 0), Dim(t.X, 1), Dim(t.W, 0), g.Shard.Items
	lo := device.Total(rows[:g.Shard.Rank])
	hi := lo + int(rows[g.Shard.Rank])
	pieces := device.Shard{Rank: g.Shard.Rank, Ranks: g.Shard.Ranks, Width: all, Lengths: device.Ints{Host: rows}}
	items := device.Shard{Rank: g.Shard.Rank, Ranks: g.Shard.Ranks, Items: all, Width: o}
	op := &Op{Name: fmt.Sprintf("linear %d→%d by rows of %d ranks", i, o, g.Shard.Ranks), Collective: true}
	if t.B != nil {
		wantShape("bias of a linear layer", t.B, o)
	}
	inputs, weight, bias := op.arg(gatherAsync(g, t.X, o/g.Shard.Ranks), false), op.arg(t.W, true),
		op.optional(t.B, true)
	y, products, turned := op.result(n, o), op.scratch(all*o), op.scratch(o*all)
	op.Make = func(c *Call) {
		own, whole := c.Temp[products].Slice(0, all*(hi-lo)), c.Temp[turned]
		a := device.Gemm{TransB: true, M: all, N: hi - lo, K: i, Alpha: 1, A: c.In[inputs],
			B: c.In[weight].Slice(lo*i, hi*i), C: own, Even: t.Even}
		if bias >= 0 {
			a.Bias = c.In[bias].Slice(lo, hi)
		}
		Do(c, device.Wait{X: c.In[inputs]})
		Do(c, a)
		Do(c, device.SwapAxes{Dst: whole.Slice(lo*all, hi*all), X: own, A: all, B: hi - lo, Inner: 1})
		Do(c, device.AllGather{Shard: pieces, X: whole.Slice(lo*all, hi*all), Y: whole})
		Do(c, device.SwapAxes{Dst: c.Temp[products], X: whole, A: o, B: all, Inner: 1})
		DoGrad(c, device.AllGather{Shard: items, DY: c.Temp[products], DX: c.Out[y]})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward()
		bw.ownRows = true
		dWeight, dBias := bw.gradient(weight), bw.gradient(bias)
		inputs, dy, dys := bw.arg(in[inputs], false), bw.arg(dyNode, false), bw.arg(gatherAsync(g, dyNode, 0), false)
		bw.Make = func(c *Call) {
			c.columnSums(view(c.Out, dBias), c.In[dy], n, o)
			Do(c, device.Wait{X: c.In[dys]})
			if c.Out[dWeight].Present() {
				Do(c, device.Gemm{TransA: true, M: hi - lo, N: i, K: all, Alpha: 1, A: c.In[dys].Slice(lo, c.In[dys].N),
					LDA: o, B: c.In[inputs], C: c.Out[dWeight].Slice(lo*i, hi*i), Even: t.Even})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
