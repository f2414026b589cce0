package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Sets of rows, such as the regions of images, are concatenated without padding: the rows of item 0 first. A value has
// capacity for all rows that there could be; only the first Σ counts are there, and every op that reads it takes counts
// [B] int32 too.

// LinearRows computes Σ x Wᵀ + b over one or more terms for the rows that are there: [capacity, O].
func (g *Graph) LinearRows(counts *Node, terms ...LinearTerm) *Node {
	return g.linearRows(1, counts, terms...)
}

// linearRows is LinearRows for rows that are there the given number of times.
func (g *Graph) linearRows(times int, counts *Node, terms ...LinearTerm) *Node {
	capacity, o := Dim(terms[0].X, 0), Dim(terms[0].W, 0)
	op := &Op{}
	lengths := op.arg(counts, false)
	sizes, layers := make([]int, len(terms)), make([]rowTerm, len(terms))
	for k, t := range terms {
		sizes[k] = Dim(t.X, 1)
		wantShape("rows of a linear layer", t.X, capacity, sizes[k])
		wantShape("weight of a linear layer", t.W, o, sizes[k])
		if t.B != nil {
			wantShape("bias of a linear layer", t.B, o)
		}
		layers[k] = rowTerm{size: sizes[k], even: t.Even, x: op.arg(t.X, true), w: op.arg(t.W, true),
			b: op.optional(t.B, true)}
	}
	op.Name = fmt.Sprintf("linear %v→%d of rows", sizes, o)
	y := op.result(capacity, o)
	op.Make = func(c *Call) {
		for k, l := range layers {
			Do(c, device.Gemm{TransB: true, M: times * c.rows(lengths), N: o, K: l.size, Alpha: 1,
				Beta: float64(min(k, 1)), A: c.In[l.x], B: c.In[l.w], C: c.Out[y], Bias: view(c.In, l.b), Even: l.even})
		}
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy := bw.arg(dyNode, false)
		grads := make([]rowTerm, len(layers)) // results
		for k, l := range layers {
			grads[k] = rowTerm{x: bw.gradient(l.x), w: bw.adding(bw.gradient(l.w)), b: bw.gradient(l.b)}
		}
		bw.Make = func(c *Call) {
			n, dy := times*c.rows(lengths), c.In[dy]
			for k, l := range layers {
				d, i := grads[k], l.size
				c.columnSums(view(c.Out, d.b), dy, n, o)
				c.product(c.Out[d.x], device.Gemm{M: n, N: i, K: o, A: dy, B: c.In[l.w], Even: l.even})
				c.product(c.Out[d.w], device.Gemm{TransA: true, M: o, N: i, K: n, Beta: c.beta(d.w), A: dy,
					B: c.In[l.x], Even: l.even})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// rowTerm is a term of a sum of linear layers: its operands, -1 for no bias.
type rowTerm struct {
	size    int // columns of x
	even    bool
	x, w, b int
}
