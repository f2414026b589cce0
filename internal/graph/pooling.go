package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// BiGRU runs both directions of a GRU over packed x [B·L, I] with lengths [B] and returns the mean of their states for all words,
// packed: [B·L, H].
func (g *Graph) BiGRU(x, lengths *Node, forward, backward GRUWeights) *Node {
	rows, in, h := Dim(x, 0), Dim(x, 1), Dim(forward.WHH, 1)
	ins, wants := []*Node{x, lengths}, []bool{true, false}
	for _, w := range []GRUWeights{forward, backward} {
		wantShape("weight_ih of a GRU", w.WIH, 3*h, in)
		wantShape("weight_hh of a GRU", w.WHH, 3*h, h)
		wantShape("bias_ih of a GRU", w.BIH, 3*h)
		wantShape("bias_hh of a GRU", w.BHH, 3*h)
		ins, wants = append(ins, w.WIH, w.WHH, w.BIH, w.BHH), append(wants, true, true, true, true)
	}
	op := &Op{Name: fmt.Sprintf("bigru %d→%d", in, h), Wants: wants, Outs: []tensor.Shape{{rows, h}}, Temp: []int{rows * h}}
	gates, prev := rows*4*h, rows*h // of a direction; those of both lie side by side
	op.Keep = []Slot{{DType: device.Float, N: 2 * gates}, {DType: device.Float, N: 2 * prev}}
	args := func(c *Call) device.BiGRUArgs {
		a := device.BiGRUArgs{I: in, H: h, X: c.In[0], Lengths: c.Ints(1), Work: c.Temp[0]}
		for k := range a.Directions {
			w := c.In[2+4*k:]
			a.Directions[k] = device.GRUDirection{WIH: w[0], WHH: w[1], BIH: w[2], BHH: w[3],
				Gates: c.Keep[0].Slice(k*gates, (k+1)*gates), Prev: c.Keep[1].Slice(k*prev, (k+1)*prev)}
		}
		return a
	}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.Y = c.Out[0]
		d.BiGRU(a)
	}
	op.Grad = func(n []*Node, _, dy *Node) []*Node {
		outs := []tensor.Shape{{rows, in}}
		for range 2 {
			outs = append(outs, tensor.Shape{3 * h, in}, tensor.Shape{3 * h, h}, tensor.Shape{3 * h}, tensor.Shape{3 * h})
		}
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: outs, Temp: []int{rows * (h + in)}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DY, a.DX = c.In[len(c.In)-1], c.Out[0]
			for k := range a.Directions {
				w := &a.Directions[k]
				w.DWIH, w.DWHH, w.DBIH, w.DBHH = c.Out[1+4*k], c.Out[2+4*k], c.Out[3+4*k], c.Out[4+4*k]
			}
			d.BiGRUGrad(a)
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), n...), dy)...)
		return append([]*Node{out[0], nil}, out[1:]...)
	}
	return g.Apply(op, ins...)
}

// PoolWeights turns packed scores of positions [T, 1] or [T] into weights [B, L]: for each sequence the softmax of
// scores/temperature, 0 behind its length. Every sequence has at most L = longest positions.
func (g *Graph) PoolWeights(scores, lengths *Node, longest int, temperature float64) *Node {
	b, shape := Dim(lengths, 0), scores.Shape().Clone()
	op := &Op{Name: "pool weights", Outs: []tensor.Shape{{b, longest}}, Wants: []bool{true, false}}
	op.Run = func(d device.Device, c *Call) {
		d.PoolWeights(device.PoolWeightsArgs{L: longest, Temperature: temperature, Lengths: c.Ints(1), Scores: c.In[0], Weights: c.Out[0]})
	}
	op.Grad = func(in []*Node, w, dw *Node) []*Node {
		bw := &Op{Name: "pool weights gradient", Outs: []tensor.Shape{shape}}
		bw.Run = func(d device.Device, c *Call) {
			d.PoolWeightsGrad(device.PoolWeightsArgs{L: longest, Temperature: temperature, Lengths: c.Ints(0), Weights: c.In[1], DWeights: c.In[2],
				DScores: c.Out[0]})
		}
		return []*Node{g.Apply(bw, in[1], w, dw), nil}
	}
	return g.Apply(op, scores, lengths)
}

// SortPool sorts each channel of the rows of every item in descending order and sums it with the weights of the item's length: rows
// [room, D] with lengths [B], weights [K, K] of the lengths K to 1, result [B, D]. Rows are concatenated, or packed.
func (g *Graph) SortPool(rows, lengths, weights *Node, packed bool) *Node {
	room, dim, b, k := Dim(rows, 0), Dim(rows, 1), Dim(lengths, 0), Dim(weights, 0)
	wantShape("pooling weights", weights, k, k)
	op := &Op{Name: "sort pool", Outs: []tensor.Shape{{b, dim}}, Wants: []bool{true, false, true}, Keep: []Slot{{DType: device.Int32, N: room * dim}}}
	args := func(c *Call) device.SortPoolArgs {
		return device.SortPoolArgs{D: dim, K: k, Packed: packed, X: c.In[0], Lengths: c.Ints(1), Weights: c.In[2], Ranks: c.Keep[0]}
	}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.Y = c.Out[0]
		d.SortPool(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: "sort pool gradient", Forward: op, Outs: []tensor.Shape{{room, dim}, {k, k}}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DY, a.DX, a.DWeights = c.In[3], c.Out[0], c.Out[1]
			d.SortPoolGrad(a)
		}
		out := g.ApplyMulti(bw, in[0], in[1], in[2], dy)
		return []*Node{out[0], nil, out[1]}
	}
	return g.Apply(op, rows, lengths, weights)
}
