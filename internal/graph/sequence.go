package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// Sequences are packed: captions sorted by length, words time-major without padding (device.Packing). A packed value
// has room for B·L rows; only the first Σ lengths hold words, and every op that reads it takes the lengths too.

// Words reads the word vectors of a batch in packed order: words [B, L] int32, lengths [B] int32, table [V, D] → [B·L, D].
func (g *Graph) Words(words, lengths, table *Node) *Node {
	b, l, v, dim := Dim(words, 0), Dim(words, 1), Dim(table, 0), Dim(table, 1)
	wantShape("lengths", lengths, b)
	a := device.GatherArgs{L: l, V: v, D: dim}
	op := &Op{Name: fmt.Sprintf("words %d×%d", b, l), Outs: []tensor.Shape{{b * l, dim}}, Wants: []bool{false, false, true}}
	op.Run = func(d device.Device, c *Call) {
		a := a
		a.Words, a.Lengths, a.Table, a.Out = c.Ints(0), c.Ints(1), c.In[2], c.Out[0]
		d.GatherWords(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{v, dim}}}
		bw.Run = func(d device.Device, c *Call) {
			a := a
			a.Words, a.Lengths, a.Out, a.Table = c.Ints(0), c.Ints(1), c.In[2], c.Out[0]
			d.ScatterWords(a)
		}
		return []*Node{nil, nil, g.Apply(bw, in[0], in[1], dy)}
	}
	return g.Apply(op, words, lengths, table)
}

// GRUWeights are the parameters of one direction of a GRU: gates stacked r, z, n.
type GRUWeights struct {
	WIH, WHH, BIH, BHH *Node // [3H, I], [3H, H], [3H], [3H]
}

// GRU runs one direction of a GRU over packed x [B·L, I] with lengths [B]. final selects the result: the state after the
// last word [B, H], or the states of all words [B·L, H], packed.
func (g *Graph) GRU(x, lengths *Node, w GRUWeights, reverse, final bool) *Node {
	rows, in, h, b := Dim(x, 0), Dim(x, 1), Dim(w.WHH, 1), Dim(lengths, 0)
	wantShape("weight_ih of a GRU", w.WIH, 3*h, in)
	wantShape("weight_hh of a GRU", w.WHH, 3*h, h)
	wantShape("bias_ih of a GRU", w.BIH, 3*h)
	wantShape("bias_hh of a GRU", w.BHH, 3*h)
	states, last := tensor.Shape{rows, h}, tensor.Shape{b, h}
	op := &Op{Name: fmt.Sprintf("gru %d→%d", in, h), Wants: []bool{true, false, true, true, true, true},
		Keep: []Slot{{DType: device.Float, N: rows * 4 * h}, {DType: device.Float, N: rows * h}}}
	if final {
		op.Outs, op.Temp = []tensor.Shape{last}, []int{rows * h}
	} else {
		op.Outs, op.Temp = []tensor.Shape{states}, []int{b * h}
	}
	args := func(c *Call) device.GRUArgs {
		return device.GRUArgs{I: in, H: h, Reverse: reverse, X: c.In[0], Lengths: c.Ints(1),
			GRUDirection: device.GRUDirection{WIH: c.In[2], WHH: c.In[3], BIH: c.In[4], BHH: c.In[5], Gates: c.Keep[0],
				Prev: c.Keep[1]}}
	}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		if final {
			a.Final, a.Y = c.Out[0], c.Temp[0]
		} else {
			a.Y, a.Final = c.Out[0], c.Temp[0]
		}
		d.GRU(a)
	}
	op.Grad = func(n []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op,
			Outs: []tensor.Shape{{rows, in}, {3 * h, in}, {3 * h, h}, {3 * h}, {3 * h}}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			if final {
				a.DFinal = c.In[6]
			} else {
				a.DY = c.In[6]
			}
			a.DX, a.DWIH, a.DWHH, a.DBIH, a.DBHH = c.Out[0], c.Out[1], c.Out[2], c.Out[3], c.Out[4]
			d.GRUGrad(a)
		}
		out := g.ApplyMulti(bw, n[0], n[1], n[2], n[3], n[4], n[5], dy)
		return []*Node{out[0], nil, out[1], out[2], out[3], out[4]}
	}
	return g.Apply(op, x, lengths, w.WIH, w.WHH, w.BIH, w.BHH)
}

// OrderScores computes -‖max(0, c_j - i_i)‖₂ for images [B, D] and captions [C, D]: [B, C] (order embeddings).
func (g *Graph) OrderScores(images, captions *Node) *Node {
	b, dim, n := Dim(images, 0), Dim(images, 1), Dim(captions, 0)
	wantShape("caption embeddings", captions, n, dim)
	a := device.OrderArgs{B: b, C: n, D: dim}
	op := &Op{Name: "order scores", Outs: []tensor.Shape{{b, n}}, Wants: []bool{true, true}}
	op.Run = func(d device.Device, c *Call) {
		a := a
		a.Images, a.Captions, a.Scores = c.In[0], c.In[1], c.Out[0]
		d.OrderScores(a)
	}
	op.Grad = func(in []*Node, s, ds *Node) []*Node {
		bw := &Op{Name: "order scores gradient", Outs: []tensor.Shape{{b, dim}, {n, dim}}}
		bw.Run = func(d device.Device, c *Call) {
			a := a
			a.Images, a.Captions, a.Scores, a.DScores = c.In[0], c.In[1], c.In[2], c.In[3]
			a.DImages, a.DCaptions = c.Out[0], c.Out[1]
			d.OrderScoresGrad(a)
		}
		return g.ApplyMulti(bw, in[0], in[1], s, ds)
	}
	return g.Apply(op, images, captions)
}
