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

// triple are the products of queries, keys and values: one product [n, D] × [D, 3D] where the parameters lie side by side (device memory holds
// parameters in the order of the network), three otherwise.
type triple struct{ d int }

// joined returns one view of three that lie side by side.
func joined(a, b, c device.View) (device.View, bool) {
	ok := a.Buf == b.Buf && b.Buf == c.Buf && a.Off+a.N == b.Off && b.Off+b.N == c.Off
	return device.View{Buf: a.Buf, Off: a.Off, N: a.N + b.N + c.N}, ok && a.Present()
}

// forward computes y [n, 3D]; w and b alternate in p.
func (l triple) forward(dev device.Device, n int, y, x device.View, p []device.View) {
	d := l.d
	w, side := joined(p[0], p[2], p[4])
	b, whole := joined(p[1], p[3], p[5])
	if side && whole {
		dev.Gemm(device.GemmArgs{TransB: true, M: n, N: 3 * d, K: d, Alpha: 1, A: x, B: w, C: y, Bias: b})
		return
	}
	for i := range 3 {
		dev.Gemm(device.GemmArgs{TransB: true, M: n, N: d, K: d, Alpha: 1, A: x, B: p[2*i], C: l.part(y, n, i), LDC: 3 * d, Bias: p[2*i+1]})
	}
}

// part is one of the three in n rows of y.
func (l triple) part(y device.View, n, i int) device.View { return y.Slice(i*l.d, max(i*l.d, n*3*l.d)) }

// backward adds dy W to dx, where there is one, and writes the gradients of w and b, which alternate in g; sums [3D] is scratch memory.
func (l triple) backward(dev device.Device, n int, dx, dy, x, sums device.View, p, g []device.View) {
	d := l.d
	if dx.Present() {
		if w, ok := joined(p[0], p[2], p[4]); ok {
			dev.Gemm(device.GemmArgs{M: n, N: d, K: 3 * d, Alpha: 1, Beta: 1, A: dy, B: w, C: dx})
		} else {
			for i := range 3 {
				dev.Gemm(device.GemmArgs{M: n, N: d, K: d, Alpha: 1, Beta: 1, A: l.part(dy, n, i), LDA: 3 * d, B: p[2*i], C: dx})
			}
		}
	}
	if w, ok := joined(g[0], g[2], g[4]); ok {
		dev.Gemm(device.GemmArgs{TransA: true, M: 3 * d, N: d, K: n, Alpha: 1, A: dy, B: x, C: w})
	} else {
		for i := range 3 {
			if g[2*i].Present() {
				dev.Gemm(device.GemmArgs{TransA: true, M: d, N: d, K: n, Alpha: 1, A: l.part(dy, n, i), LDA: 3 * d, B: x, C: g[2*i]})
			}
		}
	}
	if b, ok := joined(g[1], g[3], g[5]); ok {
		dev.ColumnSum(b, dy, n, 3*d)
		return
	}
	dev.ColumnSum(sums, dy, n, 3*d)
	for i := range 3 {
		if g[2*i+1].Present() {
			dev.Copy(g[2*i+1].Slice(0, d), sums.Slice(i*d, (i+1)*d))
		}
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
	const qkv, context, keptNorm, step = 0, 1, 2, 13
	three := triple{d}
	n := g.norm(d, w.Norm, rate, purpose+".output", keptNorm)
	in = append(in, w.Norm.Weight, w.Norm.Bias)
	heads := device.SelfAttentionArgs{Heads: w.Heads, D: d, LD: 3 * d, L: Dim(words, 1), Drop: g.drops(rate, purpose+".probabilities")}
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
		a.Query, a.Key, a.Value = three.part(c.Keep[qkv], rows, 0), three.part(c.Keep[qkv], rows, 1), three.part(c.Keep[qkv], rows, 2)
		return a, n.args(c, rows, c.In[11], counter), rows
	}
	op := &Op{Name: fmt.Sprintf("attention layer, %d heads of %d", w.Heads, d/w.Heads), Outs: []tensor.Shape{{room, d}}, Temp: []int{room * d}}
	op.Keep = append([]Slot{{DType: device.Float, N: room * 3 * d}, {DType: device.Float, N: room * d}}, n.slots(room)...)
	op.Wants = []bool{true, false, false, true, true, true, true, true, true, true, true, true, true, false}[:len(in)]
	op.Run = func(dev device.Device, c *Call) {
		a, ln, rows := args(c)
		three.forward(dev, rows, c.Keep[qkv], c.In[0], c.In[3:9])
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
		bw.Temp = []int{room * 3 * d, room * d, room * d, 3 * d}
		bw.Run = func(dev device.Device, c *Call) {
			a, ln, rows := args(c)
			dqkv, dContext := c.Temp[0], c.Temp[1]
			dx, branch := c.Out[0], dqkv.Slice(0, room*d) // whose gradient is done with before those of the three
			if !dx.Present() {
				dx = c.Temp[2]
			}
			ln.DY, ln.DX, ln.DBranch, ln.DWeight, ln.DBias = c.In[len(c.In)-1], dx, branch, c.Out[9], c.Out[10]
			dev.LayerNormGrad(ln)
			l.weights(dev, rows, c.Out[7], c.Out[8], branch, c.Keep[context])
			l.input(dev, rows, dContext, branch, c.In[9], 0)
			a.DContext, a.DQuery, a.DKey, a.DValue = dContext, three.part(dqkv, rows, 0), three.part(dqkv, rows, 1), three.part(dqkv, rows, 2)
			dev.SelfAttentionGrad(a)
			three.backward(dev, rows, c.Out[0], dqkv, c.In[0], c.Temp[3], c.In[3:9], c.Out[1:7])
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
// for x [B·L, D] with lengths [B] → [B·L, D]. GELU is made anew for the gradient, in the place of what went into it.
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
		dev.Gemm(device.GemmArgs{TransB: true, M: rows, N: f, K: d, Alpha: 1, A: c.In[0], B: c.In[2], C: c.Keep[before], Bias: c.In[3], F: device.GELU, Active: active})
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
			outer.input(dev, rows, hidden, branch, c.In[4], 0)
			ba := device.BiasActivateArgs{F: device.GELU, M: rows, N: f, X: pre, DY: hidden, DX: hidden, DBias: c.Out[2]}
			if c.Out[3].Present() {
				ba.Y = pre
			}
			dev.BiasActivateGrad(ba)
			inner.weights(dev, rows, c.Out[1], device.View{}, hidden, c.In[0])
			outer.weights(dev, rows, c.Out[3], c.Out[4], branch, pre)
			if c.Out[0].Present() {
				inner.input(dev, rows, dx, hidden, c.In[2], 1)
			}
		}
		out := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		return append([]*Node{out[0], nil}, append(out[1:], nil)...)[:len(in)]
	}
	return g.Apply(op, in...)
}
