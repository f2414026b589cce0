package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// Sets of rows, such as the regions of images, are concatenated without padding: the rows of item 0 first. A value has room for all
// rows that there could be; only the first Σ counts are there, and every op that reads it takes counts [B] int32 too.

// total is the number of rows of a batch.
func total(counts []int32) (n int) {
	for _, c := range counts {
		n += int(c)
	}
	return n
}

// LinearRows computes Σ x Wᵀ + b over one or more terms for the rows that are there: [room, O].
func (g *Graph) LinearRows(counts *Node, terms ...LinearTerm) *Node {
	return g.linearRows(1, counts, terms...)
}

// linearRows is LinearRows for rows that are there the given number of times.
func (g *Graph) linearRows(times int, counts *Node, terms ...LinearTerm) *Node {
	room, o := Dim(terms[0].X, 0), Dim(terms[0].W, 0)
	in, wants := []*Node{counts}, []bool{false}
	sizes, biases := make([]int, len(terms)), make([]bool, len(terms))
	for k, t := range terms {
		sizes[k], biases[k] = Dim(t.X, 1), t.B != nil
		wantShape("rows of a linear layer", t.X, room, sizes[k])
		wantShape("weight of a linear layer", t.W, o, sizes[k])
		in, wants = append(in, t.X, t.W), append(wants, true, true)
		if t.B != nil {
			wantShape("bias of a linear layer", t.B, o)
			in, wants = append(in, t.B), append(wants, true)
		}
	}
	op := &Op{Name: fmt.Sprintf("linear %v→%d of rows", sizes, o), Outs: []tensor.Shape{{room, o}}, Wants: wants}
	op.Run = func(d device.Device, c *Call) {
		for k, at := 0, 1; k < len(sizes); k++ {
			a := device.GemmArgs{TransB: true, M: times * total(c.Host[0]), N: o, K: sizes[k], Alpha: 1, A: c.In[at], B: c.In[at+1],
				C: c.Out[0], Even: terms[k].Even}
			if k > 0 {
				a.Beta = 1
			}
			at += 2
			if biases[k] {
				a.Bias = c.In[at]
				at++
			}
			d.Gemm(a)
		}
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		var outs []tensor.Shape
		for k, i := range sizes {
			outs = append(outs, tensor.Shape{room, i}, tensor.Shape{o, i})
			if biases[k] {
				outs = append(outs, tensor.Shape{o})
			}
		}
		bw := &Op{Name: op.Name + " gradient", Outs: outs}
		bw.Run = func(d device.Device, c *Call) {
			n, dy := times*total(c.Host[0]), c.In[len(c.In)-1]
			for k, at := 0, 0; k < len(sizes); k++ {
				i := sizes[k]
				if c.Out[at].Present() {
					d.Gemm(device.GemmArgs{M: n, N: i, K: o, Alpha: 1, A: dy, B: c.In[at+2], C: c.Out[at],
						Even: terms[k].Even})
				}
				if c.Out[at+1].Present() {
					d.Gemm(device.GemmArgs{TransA: true, M: o, N: i, K: n, Alpha: 1, A: dy, B: c.In[at+1], C: c.Out[at+1],
						Even: terms[k].Even})
				}
				at += 2
				if biases[k] {
					if c.Out[at].Present() {
						d.ColumnSum(c.Out[at], dy, n, o)
					}
					at++
				}
			}
		}
		return append([]*Node{nil}, g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)...)
	}
	return g.Apply(op, in...)
}
