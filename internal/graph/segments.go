package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// CaptionRows puts the words of packed captions x [B·L, D] one caption after the other: [room, D]. What lies behind the last word is
// arbitrary.
func (g *Graph) CaptionRows(x, lengths *Node, room int) *Node {
	from, d := x.Shape().Clone(), Dim(x, 1)
	op := &Op{Name: fmt.Sprintf("captions one after the other, %d", d), Outs: []tensor.Shape{{room, d}}, Wants: []bool{true, false}}
	op.Run = func(dev device.Device, c *Call) { dev.UnpackWords(c.Out[0], c.In[0], c.Ints(1), d, false) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{from}}
		bw.Run = func(dev device.Device, c *Call) { dev.UnpackWords(c.Out[0], c.In[0], c.Ints(1), d, true) }
		return []*Node{g.Apply(bw, dy, in[1]), nil}
	}
	return g.Apply(op, x, lengths)
}

// SegmentMeans computes the mean of the rows of every item: x [room, D] with counts [B] → [B, D].
func (g *Graph) SegmentMeans(x, counts *Node) *Node {
	from, d := x.Shape().Clone(), Dim(x, 1)
	op := &Op{Name: fmt.Sprintf("means of %d", d), Outs: []tensor.Shape{{Dim(counts, 0), d}}, Wants: []bool{true, false}}
	op.Run = func(dev device.Device, c *Call) { dev.SegmentMeans(c.Out[0], c.In[0], c.Ints(1), d) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{from}}
		bw.Run = func(dev device.Device, c *Call) { dev.SegmentMeansGrad(c.Out[0], c.In[0], c.Ints(1), d) }
		return []*Node{g.Apply(bw, dy, in[1]), nil}
	}
	return g.Apply(op, x, counts)
}

// GatedPool sums the rows x_r [room, D] of every item b, counts [B] of them, with the weights softmax_r(w·(l_r ∘ gate_b) + bias): l
// [room, D], gate [B, D], w [1, D], bias [1] → [B, D]. The bias changes nothing and has the gradient 0.
func (g *Graph) GatedPool(l, gate, w, bias, x, counts *Node) *Node {
	room, d, b := Dim(x, 0), Dim(x, 1), Dim(counts, 0)
	wantShape("gated rows", l, room, d)
	wantShape("gate", gate, b, d)
	wantShape("weight of a gated pool", w, 1, d)
	wantShape("bias of a gated pool", bias, 1)
	op := &Op{Name: fmt.Sprintf("gated pool of %d", d), Outs: []tensor.Shape{{b, d}}, Wants: []bool{true, true, true, true, true, false},
		Keep: []Slot{{DType: device.Float, N: room}}}
	args := func(c *Call) device.GatedPoolArgs {
		return device.GatedPoolArgs{D: d, L: c.In[0], G: c.In[1], W: c.In[2], X: c.In[4], Counts: c.Ints(5), Weights: c.Keep[0]}
	}
	op.Run = func(dev device.Device, c *Call) {
		a := args(c)
		a.Out = c.Out[0]
		dev.GatedPool(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		rows := tensor.Shape{room, d}
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: []tensor.Shape{rows, {b, d}, {1, d}, {1}, rows}, Temp: []int{b * d, room * d, room * d, b * d}}
		bw.Run = func(dev device.Device, c *Call) {
			a := args(c)
			a.DOut, a.DW = c.In[6], c.Temp[0]
			a.DL, a.DX, a.DG = or(c.Out[0], c.Temp[1]), or(c.Out[4], c.Temp[2]), or(c.Out[1], c.Temp[3])
			dev.GatedPoolGrad(a)
			if c.Out[2].Present() {
				dev.ColumnSum(c.Out[2], c.Temp[0], b, d)
			}
			if c.Out[3].Present() {
				dev.Fill(c.Out[3], 0)
			}
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		return append(out, nil)
	}
	return g.Apply(op, l, gate, w, bias, x, counts)
}

// or returns the view where it is present, otherwise other.
func or(v, other device.View) device.View {
	if v.Present() {
		return v
	}
	return other
}
