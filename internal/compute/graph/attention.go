package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// linear is a linear layer of rows inside an op. w and b are arguments of the op.
type linear struct{ in, out, w, b int }

// linear declares the parameters of a layer.
func (o *Op) linear(what string, w LinearWeights, in, out int) linear {
	wantShape("weight of "+what, w.W, out, in)
	wantShape("bias of "+what, w.B, out)
	return linear{in, out, o.arg(w.W, true), o.arg(w.B, true)}
}

// forward computes y = x Wᵀ + b for n rows.
func (l linear) forward(c *Call, n int, y, x device.View) {
	Do(c, device.Gemm{TransB: true, M: n, N: l.out, K: l.in, Alpha: 1, A: x, B: c.In[l.w], C: y, Bias: c.In[l.b]})
}

// input computes dx = beta·dx + dy W.
func (l linear) input(c *Call, n int, dx, dy device.View, beta float64) {
	Do(c, device.Gemm{M: n, N: l.in, K: l.out, Alpha: 1, Beta: beta, A: dy, B: c.In[l.w], C: dx})
}

// weights computes dW = dyᵀ x, which may be absent.
func (l linear) weights(c *Call, n int, dw, dy, x device.View) {
	c.product(dw, device.Gemm{TransA: true, M: l.out, N: l.in, K: n, A: dy, B: x})
}

// triple computes queries, keys and values: by one product [n, D] × [D, 3D] if the parameters are adjacent in memory
// (parameters are in the order of the network), otherwise by three products. w and b are indices in Call.In.
type triple struct {
	d    int
	w, b [3]int
}

// joined returns one view of three adjacent ones.
func joined(all []device.View, i [3]int) (device.View, bool) {
	a, b, c := all[i[0]], all[i[1]], all[i[2]]
	ok := a.Buf == b.Buf && b.Buf == c.Buf && a.Off+a.N == b.Off && b.Off+b.N == c.Off
	return device.View{Buf: a.Buf, Off: a.Off, N: a.N + b.N + c.N}, ok && a.Present()
}

// forward computes y [n, 3D].
func (l triple) forward(c *Call, n int, y, x device.View) {
	d := l.d
	w, side := joined(c.In, l.w)
	b, whole := joined(c.In, l.b)
	if side && whole {
		Do(c, device.Gemm{TransB: true, M: n, N: 3 * d, K: d, Alpha: 1, A: x, B: w, C: y, Bias: b})
		return
	}
	for i := range 3 {
		Do(c, device.Gemm{TransB: true, M: n, N: d, K: d, Alpha: 1, A: x, B: c.In[l.w[i]], C: l.part(y, n, i),
			LDC: 3 * d, Bias: c.In[l.b[i]]})
	}
}

// part is one of the three in n rows of y.
func (l triple) part(y device.View, n, i int) device.View { return y.Slice(i*l.d, max(i*l.d, n*3*l.d)) }

// backward adds dy W to dx, if there is one, and writes the gradients of w, results dw.
func (l triple) backward(c *Call, n int, dx, dy, x device.View, dw [3]int) {
	d := l.d
	if dx.Present() {
		if w, ok := joined(c.In, l.w); ok {
			Do(c, device.Gemm{M: n, N: d, K: 3 * d, Alpha: 1, Beta: 1, A: dy, B: w, C: dx})
		} else {
			for i := range 3 {
				Do(c, device.Gemm{M: n, N: d, K: d, Alpha: 1, Beta: 1, A: l.part(dy, n, i), LDA: 3 * d,
					B: c.In[l.w[i]], C: dx})
			}
		}
	}
	if w, ok := joined(c.Out, dw); ok {
		c.product(w, device.Gemm{TransA: true, M: 3 * d, N: d, K: n, A: dy, B: x})
		return
	}
	for i, w := range dw {
		c.product(c.Out[w], device.Gemm{TransA: true, M: d, N: d, K: n, A: l.part(dy, n, i), LDA: 3 * d, B: x})
	}
}

// AttentionLayer is the attention half of an encoder layer,
//
//	LN(x + dropout(O(attention(Q x, K x, V x))))
//
// for x [B·L, D], words [B, L] and lengths [B] → [B·L, D]. Words that are 0 are not attended to. rate is the rate of
// both dropouts; purpose names the layer in their draws.
func (g *Graph) AttentionLayer(x, words, lengths *Node, w AttentionWeights, rate float64, purpose string) *Node {
	capacity, d := Dim(x, 0), Dim(x, 1)
	wantShape("words", words, Dim(lengths, 0), -1)
	if w.Heads < 1 || d%w.Heads != 0 {
		fail("attention of %d heads over %d columns", w.Heads, d)
	}
	op := &Op{Name: fmt.Sprintf("attention layer, %d heads of %d", w.Heads, d/w.Heads)}
	rows, ids, counts := op.arg(x, true), op.arg(words, false), op.arg(lengths, false)
	three := triple{d: d}
	for i, p := range []LinearWeights{w.Query, w.Key, w.Value} {
		l := op.linear([]string{"queries", "keys", "values"}[i], p, d, d)
		three.w[i], three.b[i] = l.w, l.b
	}
	output := op.linear("attention", w.Output, d, d)
	y := op.result(capacity, d)
	qkv, context, branch := op.save(capacity*3*d), op.save(capacity*d), op.scratch(capacity*d)
	n := g.norm(op, capacity, d, w.Norm, rate, g.RowIndices(capacity, Concatenated, lengths, nil), purpose+".output")
	heads := device.SelfAttention{Heads: w.Heads, D: d, LD: 3 * d, L: Dim(words, 1),
		Drop: g.dropper(rate, purpose+".probabilities")}
	args := func(c *Call) (device.SelfAttention, device.LayerNorm, int) {
		all, a := c.rows(counts), heads
		a.Words, a.Lengths = c.Ints(ids), c.Ints(counts)
		n.dropped.set(c, &a.Drop, all)
		a.Query, a.Key, a.Value = three.part(c.Saved[qkv], all, 0), three.part(c.Saved[qkv], all, 1),
			three.part(c.Saved[qkv], all, 2)
		return a, n.args(c, all), all
	}
	op.Make = func(c *Call) {
		a, ln, all := args(c)
		three.forward(c, all, c.Saved[qkv], c.In[rows])
		a.Context, a.Operand = c.Saved[context], true
		Do(c, a)
		output.forward(c, all, c.Temp[branch], c.Saved[context])
		ln.X, ln.Branch, ln.Y = c.In[rows], c.Temp[branch], c.Out[y]
		Do(c, ln)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy := bw.arg(dyNode, false)
		dRows := bw.gradient(rows)
		var dw, db [3]int
		for i := range dw {
			dw[i], db[i] = bw.gradient(three.w[i]), bw.gradient(three.b[i])
		}
		dOutputW, dOutputB := bw.gradient(output.w), bw.gradient(output.b)
		dNormW, dNormB := bw.gradient(n.weight), bw.gradient(n.bias)
		dqkv, dContext, other, sums := bw.scratch(capacity*3*d), bw.scratch(capacity*d), bw.scratch(capacity*d),
			bw.scratch(3*d)
		bw.Make = func(c *Call) {
			a, ln, all := args(c)
			dContext, dqkv := c.Temp[dContext], c.Temp[dqkv]
			// the gradient of the branch is done with before the three
			dx, branch := or(c.Out[dRows], c.Temp[other]), dqkv.Slice(0, capacity*d)
			ln.DY, ln.DX, ln.DBranch, ln.DWeight, ln.DBias = c.In[dy], dx, branch, c.Out[dNormW], c.Out[dNormB]
			ln.DBranchBias, ln.Operand = c.Out[dOutputB], true
			DoGrad(c, ln)
			output.weights(c, all, c.Out[dOutputW], branch, c.Saved[context])
			output.input(c, all, dContext, branch, 0)
			a.DContext, a.DQuery, a.DKey, a.DValue = dContext, three.part(dqkv, all, 0), three.part(dqkv, all, 1),
				three.part(dqkv, all, 2)
			biases, whole := joined(c.Out, db)
			if !whole {
				biases = c.Temp[sums]
			}
			a.DBias, a.Operand = biases, true
			DoGrad(c, a)
			for i, b := range db {
				if !whole && c.Out[b].Present() {
					Do(c, device.Copy{Dst: c.Out[b].Slice(0, d), Src: a.DBias.Slice(i*d, (i+1)*d)})
				}
			}
			three.backward(c, all, c.Out[dRows], dqkv, c.In[rows], dw)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// PerceptronLayer is the other half of an encoder layer,
//
//	LN(x + dropout(W₂ GELU(W₁ x + b₁) + b₂))
//
// for x [B·L, D] with lengths [B] → [B·L, D]. The gradient recomputes GELU, in the memory of its argument.
func (g *Graph) PerceptronLayer(x, lengths *Node, w PerceptronWeights, rate float64, purpose string) *Node {
	capacity, d, f := Dim(x, 0), Dim(x, 1), Dim(w.Inner.W, 0)
	op := &Op{Name: fmt.Sprintf("perceptron layer %d→%d→%d", d, f, d)}
	rows, counts := op.arg(x, true), op.arg(lengths, false)
	inner, outer := op.linear("an inner layer", w.Inner, d, f), op.linear("an outer layer", w.Outer, f, d)
	y := op.result(capacity, d)
	before := op.save(capacity * f)
	hidden, branch := op.scratch(capacity*f), op.scratch(capacity*d)
	n := g.norm(op, capacity, d, w.Norm, rate, g.RowIndices(capacity, Concatenated, lengths, nil), purpose+".output")
	op.Make = func(c *Call) {
		all := c.rows(counts)
		ln, active := n.args(c, all), c.Temp[hidden].Slice(0, all*f)
		Do(c, device.Gemm{TransB: true, M: all, N: f, K: d, Alpha: 1, A: c.In[rows], B: c.In[inner.w],
			C: c.Saved[before], Bias: c.In[inner.b], F: device.GELU, Active: active, Operand: true})
		outer.forward(c, all, c.Temp[branch], active)
		ln.X, ln.Branch, ln.Y = c.In[rows], c.Temp[branch], c.Out[y]
		Do(c, ln)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy := bw.arg(dyNode, false)
		dRows := bw.gradient(rows)
		dInnerW, dInnerB, dOuterW, dOuterB := bw.gradient(inner.w), bw.gradient(inner.b), bw.gradient(outer.w),
			bw.gradient(outer.b)
		dNormW, dNormB := bw.gradient(n.weight), bw.gradient(n.bias)
		hidden, branch, other := bw.scratch(capacity*f), bw.scratch(capacity*d), bw.scratch(capacity*d)
		bw.Make = func(c *Call) {
			all := c.rows(counts)
			ln, branch, hidden := n.args(c, all), c.Temp[branch], c.Temp[hidden].Slice(0, all*f)
			pre, dx := c.Saved[before].Slice(0, all*f), or(c.Out[dRows], c.Temp[other])
			ln.DY, ln.DX, ln.DBranch, ln.DWeight, ln.DBias = c.In[dy], dx, branch, c.Out[dNormW], c.Out[dNormB]
			ln.DBranchBias, ln.Operand = c.Out[dOuterB], true
			DoGrad(c, ln)
			outer.input(c, all, hidden, branch, 0)
			ba := device.BiasActivate{F: device.GELU, M: all, N: f, X: pre, DY: hidden, DX: hidden,
				DBias: c.Out[dInnerB], Operand: true}
			if c.Out[dOuterW].Present() {
				ba.Y = pre
			}
			Do(c, ba)
			inner.weights(c, all, c.Out[dInnerW], hidden, c.In[rows])
			outer.weights(c, all, c.Out[dOuterW], branch, pre)
			if c.Out[dRows].Present() {
				inner.input(c, all, dx, hidden, 1)
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
