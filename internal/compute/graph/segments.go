package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// CaptionRows puts the words of packed captions x [B·L, D] one caption after the other: [capacity, D]. What lies after
// the last word is arbitrary.
func (g *Graph) CaptionRows(x, lengths *Node, capacity int) *Node {
	d := Dim(x, 1)
	op := &Op{Name: fmt.Sprintf("captions one after the other, %d", d)}
	words, counts, rows := op.arg(x, true), op.arg(lengths, false), op.result(capacity, d)
	op.Make = func(c *Call) {
		Do(c, device.UnpackWords{Dst: c.Out[rows], Src: c.In[words], Lengths: c.Ints(counts), D: d})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward() // needs no words
		dy, counts, dx := bw.arg(dyNode, false), bw.arg(in[counts], false), bw.gradient(words)
		bw.Make = func(c *Call) {
			Do(c, device.UnpackWords{Dst: c.Out[dx], Src: c.In[dy], Lengths: c.Ints(counts), D: d, Back: true})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// SegmentMeans computes the mean of the rows of every item: x [capacity, D] with counts [B] → [B, D].
func (g *Graph) SegmentMeans(x, counts *Node) *Node {
	d := Dim(x, 1)
	a := &device.SegmentMeans{D: d}
	k := kernelOf(g, fmt.Sprintf("means of %d", d), a)
	k.argOnce(x, &a.Rows, &a.Rows)
	k.ints(counts, &a.Counts)
	return k.result(&a.Means, &a.Means, false, Dim(counts, 0), d)
}

// GatedPool sums the rows x_r [capacity, D] of every item b, counts [B] of them, with the weights softmax_r(w·(l_r ∘
// gate_b) + bias): l [capacity, D], gate [B, D], w [1, D], bias [1] → [B, D]. The bias changes nothing and has the
// gradient 0.
func (g *Graph) GatedPool(l, gate, w, bias, x, counts *Node) *Node {
	capacity, d, b := Dim(x, 0), Dim(x, 1), Dim(counts, 0)
	wantShape("gated rows", l, capacity, d)
	wantShape("gate", gate, b, d)
	wantShape("weight of a gated pool", w, 1, d)
	wantShape("bias of a gated pool", bias, 1)
	op := &Op{Name: fmt.Sprintf("gated pool of %d", d)}
	gated, gates, weight, constant := op.arg(l, true), op.arg(gate, true), op.arg(w, true), op.arg(bias, true)
	rows, lengths := op.arg(x, true), op.arg(counts, false)
	out, weights := op.result(b, d), op.save(capacity)
	args := func(c *Call) device.GatedPool {
		return device.GatedPool{D: d, L: c.In[gated], G: c.In[gates], W: c.In[weight], X: c.In[rows],
			Counts: c.Ints(lengths), Weights: c.Saved[weights]}
	}
	op.Make = func(c *Call) {
		a := args(c)
		a.Out = c.Out[out]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dGated, dGates := bw.arg(dyNode, false), bw.written(gated), bw.written(gates)
		dWeight, dConstant, dRows := bw.gradient(weight), bw.gradient(constant), bw.written(rows)
		weightsOfItems := bw.scratch(b * d)
		bw.Make = func(c *Call) {
			a := args(c)
			a.DOut, a.DW, a.DL, a.DX, a.DG = c.In[dy], c.Temp[weightsOfItems], dGated(c), dRows(c), dGates(c)
			DoGrad(c, a)
			c.columnSums(c.Out[dWeight], a.DW, b, d)
			if c.Out[dConstant].Present() {
				Do(c, device.Fill{Dst: c.Out[dConstant]})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
