package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// WordLoss is how badly the states [B·S, H] of a decoder, packed by steps [B], predict the next words: with the logits
// z = W h + b, W [V, H], b [V],
//
//	1/B Σ_b Σ_t mask[b, t+1] · (log Σ_v exp z_v - z_labels[b, t+1])    a scalar
//
// labels and mask are int32 [B, L], L greater than every number of steps. Only the rows of words are computed.
func (g *Graph) WordLoss(states, w, bias, labels, mask, steps *Node) *Node {
	rows, h, v, b, l := Dim(states, 0), Dim(states, 1), Dim(w, 0), Dim(labels, 0), Dim(labels, 1)
	wantShape("weight of a word loss", w, v, h)
	wantShape("bias of a word loss", bias, v)
	wantShape("mask of a word loss", mask, b, l)
	wantShape("steps of a word loss", steps, b)
	args := func(c *Call) device.CrossEntropyArgs {
		return device.CrossEntropyArgs{L: l, V: v, Labels: c.Ints(3), Mask: c.Ints(4), Lengths: c.Ints(5), Scale: 1 / float64(b),
			Logits: c.Keep[0], Norm: c.Keep[1]}
	}
	op := &Op{Name: fmt.Sprintf("word loss %d→%d", h, v), Outs: []tensor.Shape{nil}, Wants: []bool{true, true, true, false, false, false},
		Keep: []Slot{{DType: device.Float, N: rows * v}, {DType: device.Float, N: rows}}}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		d.Gemm(device.GemmArgs{TransB: true, M: total(a.Lengths.Host), N: v, K: h, Alpha: 1, A: c.In[0], B: c.In[1], C: a.Logits, Bias: c.In[2]})
		a.Loss = c.Out[0]
		d.CrossEntropy(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{rows, h}, {v, h}, {v}}, Forward: op}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DLoss, a.DLogits = c.In[6], a.Logits
			d.CrossEntropyGrad(a)
			n := total(a.Lengths.Host)
			if c.Out[0].Present() {
				d.Gemm(device.GemmArgs{M: n, N: h, K: v, Alpha: 1, A: a.DLogits, B: c.In[1], C: c.Out[0]})
			}
			if c.Out[1].Present() {
				d.Gemm(device.GemmArgs{TransA: true, M: v, N: h, K: n, Alpha: 1, A: a.DLogits, B: c.In[0], C: c.Out[1]})
			}
			if c.Out[2].Present() {
				d.ColumnSum(c.Out[2], a.DLogits, n, v)
			}
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		return []*Node{out[0], out[1], out[2], nil, nil, nil}
	}
	return g.Apply(op, states, w, bias, labels, mask, steps)
}
