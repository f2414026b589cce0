package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// linear is a linear layer of rows inside an op.
type linear struct{ in, out int }

func newLinear(what string, w LinearWeights, in, out int) linear {
	wantShape("weight of "+what, w.W, out, in)
	wantShape("bias of "+what, w.B, out)
	return linear{in, out}
}

// forward computes y = x Wᵀ + b for n rows.
func (l linear) forward(d device.Device, n int, y, x, w, b device.View) {
	d.Gemm(device.GemmArgs{TransB: true, M: n, N: l.out, K: l.in, Alpha: 1, A: x, B: w, C: y, Bias: b})
}

// input computes dx = beta·dx + dy W.
func (l linear) input(d device.Device, n int, dx, dy, w device.View, beta float64) {
	d.Gemm(device.GemmArgs{M: n, N: l.in, K: l.out, Alpha: 1, Beta: beta, A: dy, B: w, C: dx})
}

// weights computes dW = dyᵀ x and db = Σ dy; either may be absent.
func (l linear) weights(d device.Device, n int, dw, db, dy, x device.View) {
	if dw.Present() {
		d.Gemm(device.GemmArgs{TransA: true, M: l.out, N: l.in, K: n, Alpha: 1, A: dy, B: x, C: dw})
	}
	if db.Present() {
		d.ColumnSum(db, dy, n, l.out)
	}
}

// AttentionLayer is the attention half of an encoder layer,
//
//	LN(x + dropout(O(attention(Q x, K x, V x))))
//
// for x [B·L, D], words [B, L] of which those that are 0 are not attended to, and lengths [B] → [B·L, D]. rate is that of both
// dropouts; purpose names the layer in their draws.
func (g *Graph) AttentionLayer(x, words, lengths *Node, w AttentionWeights, rate float64, purpose string) *Node {
	room, d := Dim(x, 0), Dim(x, 1)
	wantShape("words", words, Dim(lengths, 0), -1)
	if w.Heads < 1 || d%w.Heads != 0 {
		fail("attention of %d heads over %d columns", w.Heads, d)
	}
	in := []*Node{x, words, lengths}
	var l linear
	for i, p := range []LinearWeights{w.Query, w.Key, w.Value, w.Output} {
		l = newLinear([]string{"queries", "keys", "values", "attention"}[i], p, d, d)
		in = append(in, p.W, p.B)
	}
	const q, k, v, context, keptNorm, step = 0, 1, 2, 3, 4, 13
	n := g.norm(d, w.Norm, rate, purpose+".output", keptNorm)
	in = append(in, w.Norm.Weight, w.Norm.Bias)
	heads := device.SelfAttentionArgs{Heads: w.Heads, D: d, L: Dim(words, 1), Drop: g.drops(rate, purpose+".probabilities")}
	if n.drop.Rate > 0 {
		in = append(in, g.InputInts(InputStep, 2))
	}
	args := func(c *Call) (device.SelfAttentionArgs, device.LayerNormArgs, int) {
		var counter device.Ints
		if n.drop.Rate > 0 {
			counter = c.Ints(step)
		}
		rows, a := total(c.Host[2]), heads
		a.Words, a.Lengths, a.Drop.Step = c.Ints(1), c.Ints(2), counter
		a.Query, a.Key, a.Value = c.Keep[q], c.Keep[k], c.Keep[v]
		return a, n.args(c, rows, c.In[11], counter), rows
	}
	op := &Op{Name: fmt.Sprintf("attention layer, %d heads of %d", w.Heads, d/w.Heads), Outs: []tensor.Shape{{room, d}}, Temp: []int{room * d}}
	for range keptNorm {
		op.Keep = append(op.Keep, Slot{DType: device.Float, N: room * d})
	}
	op.Keep = append(op.Keep, n.slots(room)...)
	op.Wants = []bool{true, false, false, true, true, true, true, true, true, true, true, true, true, false}[:len(in)]
	op.Run = func(dev device.Device, c *Call) {
		a, ln, rows := args(c)
		for i := range 3 {
			l.forward(dev, rows, c.Keep[i], c.In[0], c.In[3+2*i], c.In[4+2*i])
		}
		a.Context = c.Keep[context]
		dev.SelfAttention(a)
		l.forward(dev, rows, c.Temp[0], c.Keep[context], c.In[9], c.In[10])
		ln.X, ln.Branch, ln.Bias, ln.Y = c.In[0], c.Temp[0], c.In[12], c.Out[0]
		dev.LayerNorm(ln)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		outs := []tensor.Shape{{room, d}}
		for range 4 {
			outs = append(outs, tensor.Shape{d, d}, tensor.Shape{d})
		}
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: append(outs, tensor.Shape{d}, tensor.Shape{d})}
		for range 5 {
			bw.Temp = append(bw.Temp, room*d)
		}
		bw.Run = func(dev device.Device, c *Call) {
			a, ln, rows := args(c)
			dx, branch, dContext := c.Out[0], c.Temp[0], c.Temp[1]
			if !dx.Present() {
				dx = c.Temp[4]
			}
			ln.DY, ln.DX, ln.DBranch, ln.DWeight, ln.DBias = c.In[len(c.In)-1], dx, branch, c.Out[9], c.Out[10]
			dev.LayerNormGrad(ln)
			l.weights(dev, rows, c.Out[7], c.Out[8], branch, c.Keep[context])
			l.input(dev, rows, dContext, branch, c.In[9], 0)
			a.DContext, a.DQuery, a.DKey, a.DValue = dContext, c.Temp[0], c.Temp[2], c.Temp[3]
			dev.SelfAttentionGrad(a)
			for i, dz := range []device.View{a.DQuery, a.DKey, a.DValue} {
				l.weights(dev, rows, c.Out[1+2*i], c.Out[2+2*i], dz, c.In[0])
				if c.Out[0].Present() {
					l.input(dev, rows, dx, dz, c.In[3+2*i], 1)
				}
			}
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		return append([]*Node{out[0], nil, nil}, append(out[1:], nil)...)[:len(in)]
	}
	return g.Apply(op, in...)
}

// PerceptronLayer is the other half of an encoder layer,
//
//	LN(x + dropout(W₂ GELU(W₁ x + b₁) + b₂))
//
// for x [B·L, D] with lengths [B] → [B·L, D]. GELU is made anew for the gradient.
func (g *Graph) PerceptronLayer(x, lengths *Node, w PerceptronWeights, rate float64, purpose string) *Node {
	room, d, f := Dim(x, 0), Dim(x, 1), Dim(w.Inner.W, 0)
	inner, outer := newLinear("an inner layer", w.Inner, d, f), newLinear("an outer layer", w.Outer, f, d)
	const before, keptNorm, step = 0, 1, 8
	n := g.norm(d, w.Norm, rate, purpose+".output", keptNorm)
	in := []*Node{x, lengths, w.Inner.W, w.Inner.B, w.Outer.W, w.Outer.B, w.Norm.Weight, w.Norm.Bias}
	if n.drop.Rate > 0 {
		in = append(in, g.InputInts(InputStep, 2))
	}
	args := func(c *Call) (device.LayerNormArgs, int) {
		var counter device.Ints
		if n.drop.Rate > 0 {
			counter = c.Ints(step)
		}
		rows := total(c.Host[1])
		return n.args(c, rows, c.In[6], counter), rows
	}
	op := &Op{Name: fmt.Sprintf("perceptron layer %d→%d→%d", d, f, d), Outs: []tensor.Shape{{room, d}}, Temp: []int{room * f, room * d},
		Keep:  append([]Slot{{DType: device.Float, N: room * f}}, n.slots(room)...),
		Wants: []bool{true, false, true, true, true, true, true, true, false}[:len(in)]}
	op.Run = func(dev device.Device, c *Call) {
		ln, rows := args(c)
		active := c.Temp[0].Slice(0, rows*f)
		inner.forward(dev, rows, c.Keep[before], c.In[0], c.In[2], c.In[3])
		dev.Activate(device.GELU, active, c.Keep[before].Slice(0, rows*f))
		outer.forward(dev, rows, c.Temp[1], active, c.In[4], c.In[5])
		ln.X, ln.Branch, ln.Bias, ln.Y = c.In[0], c.Temp[1], c.In[7], c.Out[0]
		dev.LayerNorm(ln)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Temp: []int{room * f, room * d, room * d},
			Outs: []tensor.Shape{{room, d}, {f, d}, {f}, {d, f}, {d}, {d}, {d}}}
		bw.Run = func(dev device.Device, c *Call) {
			ln, rows := args(c)
			dx, branch, hidden := c.Out[0], c.Temp[1], c.Temp[0].Slice(0, rows*f)
			pre := c.Keep[before].Slice(0, rows*f)
			if !dx.Present() {
				dx = c.Temp[2]
			}
			ln.DY, ln.DX, ln.DBranch, ln.DWeight, ln.DBias = c.In[len(c.In)-1], dx, branch, c.Out[5], c.Out[6]
			dev.LayerNormGrad(ln)
			if c.Out[3].Present() {
				dev.Activate(device.GELU, hidden, pre)
			}
			outer.weights(dev, rows, c.Out[3], c.Out[4], branch, hidden)
			outer.input(dev, rows, hidden, branch, c.In[4], 0)
			dev.ActivateGrad(device.GELU, hidden, pre, device.View{}, hidden)
			inner.weights(dev, rows, c.Out[1], c.Out[2], hidden, c.In[0])
			if c.Out[0].Present() {
				inner.input(dev, rows, dx, hidden, c.In[2], 1)
			}
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		return append([]*Node{out[0], nil}, append(out[1:], nil)...)[:len(in)]
	}
	return g.Apply(op, in...)
}
