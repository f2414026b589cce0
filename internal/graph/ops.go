package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// LinearTerm is x Wᵀ + b for x [N, I], W [O, I] and b [O] or nil. Even says that its products are even (device.GemmArgs).
type LinearTerm struct {
	X, W, B *Node
	Even    bool
}

// Linear computes a linear layer: y [N, O].
func (g *Graph) Linear(t LinearTerm) *Node {
	x, w, b := t.X, t.W, t.B
	n, i, o := Dim(x, 0), Dim(x, 1), Dim(w, 0)
	wantShape("weight of a linear layer", w, o, i)
	in := []*Node{x, w}
	if b != nil {
		wantShape("bias of a linear layer", b, o)
		in = append(in, b)
	}
	op := &Op{Name: fmt.Sprintf("linear %d→%d", i, o), Outs: []tensor.Shape{{n, o}}, Wants: []bool{true, true, b != nil}}
	op.Run = func(d device.Device, c *Call) {
		a := device.GemmArgs{TransB: true, M: n, N: o, K: i, Alpha: 1, A: c.In[0], B: c.In[1], C: c.Out[0], Even: t.Even}
		if len(c.In) > 2 {
			a.Bias = c.In[2]
		}
		d.Gemm(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		outs := []tensor.Shape{{n, i}, {o, i}}
		if b != nil {
			outs = append(outs, tensor.Shape{o})
		}
		bw := &Op{Name: fmt.Sprintf("linear %d→%d gradient", i, o), Outs: outs, Outer: &Outer{Result: 1, A: 2, B: 0}}
		bw.Run = func(d device.Device, c *Call) {
			x, w, dy := c.In[0], c.In[1], c.In[2]
			if c.Out[0].Present() {
				d.Gemm(device.GemmArgs{M: n, N: i, K: o, Alpha: 1, A: dy, B: w, C: c.Out[0], Even: t.Even})
			}
			if c.Out[1].Present() {
				d.Gemm(device.GemmArgs{TransA: true, M: o, N: i, K: n, Alpha: 1, A: dy, B: x, C: c.Out[1], Even: t.Even})
			}
			if len(c.Out) > 2 && c.Out[2].Present() {
				d.ColumnSum(c.Out[2], dy, n, o)
			}
		}
		return g.ApplyMulti(bw, in[0], in[1], dy)
	}
	return g.Apply(op, in...)
}

// MatMulT computes A Bᵀ for A [M, K] and B [N, K]: the similarities of two sets of embeddings. exact asks for float32
// products also in precision bf16.
func (g *Graph) MatMulT(a, b *Node, exact bool) *Node {
	m, k, n := Dim(a, 0), Dim(a, 1), Dim(b, 0)
	wantShape("second factor of a product", b, n, k)
	op := &Op{Name: fmt.Sprintf("product %d×%d×%d", m, n, k), Outs: []tensor.Shape{{m, n}}, Wants: []bool{true, true}}
	op.Run = func(d device.Device, c *Call) {
		d.Gemm(device.GemmArgs{TransB: true, M: m, N: n, K: k, Alpha: 1, A: c.In[0], B: c.In[1], C: c.Out[0], Exact: exact})
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{m, k}, {n, k}}}
		bw.Run = func(d device.Device, c *Call) {
			if c.Out[0].Present() {
				d.Gemm(device.GemmArgs{M: m, N: k, K: n, Alpha: 1, A: c.In[2], B: c.In[1], C: c.Out[0], Exact: exact})
			}
			if c.Out[1].Present() {
				d.Gemm(device.GemmArgs{TransA: true, M: n, N: k, K: m, Alpha: 1, A: c.In[2], B: c.In[0], C: c.Out[1], Exact: exact})
			}
		}
		return g.ApplyMulti(bw, in[0], in[1], dy)
	}
	return g.Apply(op, a, b)
}

// L2Norm divides by the Euclidean norm along an axis: x/(‖x‖ + eps). eps = 0 is the plain norm of VSE++ and VSRN,
// 1e-8 the one of the later networks.
func (g *Graph) L2Norm(x *Node, axis int, eps float64) *Node {
	s := x.Shape()
	if axis < 0 || axis >= len(s) {
		fail("l2 norm over axis %d of shape %v", axis, s)
	}
	a := device.L2NormArgs{N: s[axis], Eps: eps}
	a.Outer, a.Inner = around(s, axis)
	op := &Op{Name: "l2 norm", Outs: []tensor.Shape{s.Clone()}, Wants: []bool{true},
		Keep: []Slot{{DType: device.Float, N: a.Outer * a.Inner}}}
	op.Run = func(d device.Device, c *Call) {
		a := a
		a.X, a.Y, a.Norm = c.In[0], c.Out[0], c.Keep[0]
		d.L2Norm(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: "l2 norm gradient", Outs: []tensor.Shape{s.Clone()}, Forward: op}
		bw.Run = func(d device.Device, c *Call) {
			a := a
			a.X, a.DY, a.DX, a.Norm = c.In[0], c.In[1], c.Out[0], c.Keep[0]
			d.L2NormGrad(a)
		}
		return []*Node{g.Apply(bw, in[0], dy)}
	}
	return g.Apply(op, x)
}

// Activate applies an elementwise function.
func (g *Graph) Activate(f device.Activation, x *Node) *Node {
	s := x.Shape().Clone()
	op := &Op{Name: fmt.Sprintf("activation %d", f), Outs: []tensor.Shape{s}, Wants: []bool{true}}
	op.Run = func(d device.Device, c *Call) { d.Activate(f, c.Out[0], c.In[0]) }
	op.Grad = func(in []*Node, y, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s}}
		bw.Run = func(d device.Device, c *Call) { d.ActivateGrad(f, c.Out[0], c.In[0], c.In[1], c.In[2]) }
		return []*Node{g.Apply(bw, in[0], y, dy)}
	}
	return g.Apply(op, x)
}

// Reshape gives a value another shape of the same size; it never copies.
func (g *Graph) Reshape(x *Node, shape ...int) *Node {
	from, to := x.Shape().Clone(), tensor.Shape(append([]int(nil), shape...))
	if from.TotalSize() != to.TotalSize() {
		fail("reshape of %v to %v", from, to)
	}
	op := &Op{Name: fmt.Sprintf("reshape %v", to), Outs: []tensor.Shape{to}, Wants: []bool{true}, Alias: true}
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.Reshape(dy, from...)} }
	return g.Apply(op, x)
}

// WeightedSum computes Σ x∘w, a scalar, for x and w of the same size; w has no gradient.
func (g *Graph) WeightedSum(x, w *Node) *Node {
	n := x.Shape().TotalSize()
	if w.Shape().TotalSize() != n {
		fail("weighted sum of %v by %v", x.Shape(), w.Shape())
	}
	op := &Op{Name: "weighted sum", Outs: []tensor.Shape{nil}, Wants: []bool{true, false}}
	op.Run = func(d device.Device, c *Call) {
		d.Gemm(device.GemmArgs{TransB: true, M: 1, N: 1, K: n, Alpha: 1, A: c.In[0], B: c.In[1], C: c.Out[0], Exact: true})
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: "weighted sum gradient", Outs: []tensor.Shape{x.Shape().Clone()}}
		bw.Run = func(d device.Device, c *Call) { d.Scale(c.Out[0], c.In[0], c.In[1]) }
		return []*Node{g.Apply(bw, in[1], dy), nil}
	}
	return g.Apply(op, x, w)
}

// around returns the products of the sizes before and behind an axis.
func around(s tensor.Shape, axis int) (outer, inner int) {
	outer, inner = 1, 1
	for i, d := range s {
		if i < axis {
			outer *= d
		} else if i > axis {
			inner *= d
		}
	}
	return outer, inner
}
