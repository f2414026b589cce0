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
		l := rowTerm{size: sizes[k], even: t.Even, x: op.arg(t.X, true), w: op.arg(t.W, true), b: -1}
		if t.B != nil {
			wantShape("bias of a linear layer", t.B, o)
			l.b = op.arg(t.B, true)
		}
		layers[k] = l
	}
	op.Name = fmt.Sprintf("linear %v→%d of rows", sizes, o)
	y := op.result(capacity, o)
	op.Make = func(c *Call) {
		for k, l := range layers {
			a := device.Gemm{TransB: true, M: times * c.rows(lengths), N: o, K: l.size, Alpha: 1,
				A: c.In[l.x], B: c.In[l.w],
				C: c.Out[y], Even: l.even}
			if k > 0 {
				a.Beta = 1
			}
			if l.b >= 0 {
				a.Bias = c.In[l.b]
			}
			Do(c, a)
		}
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy := bw.arg(dyNode, false)
		grads := make([]rowTerm, len(layers)) // results
		for k, l := range layers {
			grads[k] = rowTerm{x: bw.gradient(l.x), w: bw.adding(bw.gradient(l.w)), b: -1}
			if l.b >= 0 {
				grads[k].b = bw.gradient(l.b)
			}
		}
		bw.Make = func(c *Call) {
			n, dy := times*c.rows(lengths), c.In[dy]
			for k, l := range layers {
				dx, dw, i := c.Out[grads[k].x], c.Out[grads[k].w], l.size
				if b := grads[k].b; b >= 0 && c.Out[b].Present() {
					Do(c, device.ColumnSum{Dst: c.Out[b], X: dy, Rows: n, Columns: o}) // and rounds dy, see Linear
				}
				if dx.Present() {
					Do(c, device.Gemm{M: n, N: i, K: o, Alpha: 1, A: dy, B: c.In[l.w], C: dx, Even: l.even})
				}
				if dw.Present() {
					Do(c, device.Gemm{TransA: true, M: o, N: i, K: n, Alpha: 1, Beta: c.beta(grads[k].w), A: dy,
						B: c.In[l.x], C: dw, Even: l.even})
				}
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
