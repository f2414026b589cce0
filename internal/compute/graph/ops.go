package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// MatMulT computes A Bᵀ for A [M, K] and B [N, K]: the similarities of two sets of embeddings. exact is for float32
// products also in precision bf16.
func (g *Graph) MatMulT(a, b *Node, exact bool) *Node {
	m, k, n := Dim(a, 0), Dim(a, 1), Dim(b, 0)
	wantShape("second factor of a product", b, n, k)
	op := &Op{Name: fmt.Sprintf("product %d×%d×%d", m, n, k)}
	left, right, y := op.arg(a, true), op.arg(b, true), op.result(m, n)
	op.Make = func(c *Call) {
		Do(c, device.Gemm{TransB: true, M: m, N: n, K: k, Alpha: 1, A: c.In[left], B: c.In[right], C: c.Out[y],
			Exact: exact})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dLeft, dRight := bw.arg(dyNode, false), bw.gradient(left), bw.gradient(right)
		bw.Make = func(c *Call) {
			c.product(c.Out[dLeft], device.Gemm{M: m, N: k, K: n, A: c.In[dy], B: c.In[right], Exact: exact})
			c.product(c.Out[dRight], device.Gemm{TransA: true, M: n, N: k, K: m, A: c.In[dy], B: c.In[left],
				Exact: exact})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// L2Norm divides by the Euclidean norm along an axis: x/(‖x‖ + eps). eps = 0 is the plain norm of VSE++ and VSRN,
// 1e-8 the one of the later networks.
func (g *Graph) L2Norm(x *Node, axis int, eps float64) *Node {
	s := x.Shape()
	if axis < 0 || axis >= len(s) {
		fail("l2 norm over axis %d of shape %v", axis, s)
	}
	a := &device.L2Norm{N: s[axis], Eps: eps}
	a.Outer, a.Inner = around(s, axis)
	k := kernelOf(g, "l2 norm", a)
	k.arg(x, &a.X, &a.DX)
	k.keep(a.Outer*a.Inner, &a.Norm)
	return k.result(&a.Y, &a.DY, false, s.Clone()...)
}

// Activate applies an elementwise function.
func (g *Graph) Activate(f device.Activation, x *Node) *Node {
	a := &device.Activate{F: f}
	k := kernelOf(g, fmt.Sprintf("activation %d", f), a)
	k.arg(x, &a.X, &a.DX)
	return k.result(&a.Y, &a.DY, true, x.Shape().Clone()...)
}

// Reshape gives a value another shape of the same size; it never copies.
func (g *Graph) Reshape(x *Node, shape ...int) *Node {
	from, to := x.Shape().Clone(), tensor.Shape(append([]int(nil), shape...))
	if from.TotalSize() != to.TotalSize() {
		fail("reshape of %v to %v", from, to)
	}
	op := &Op{Name: fmt.Sprintf("reshape %v", to), Outs: []tensor.Shape{to}, NeedsGrad: []bool{true}, Alias: true}
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.Reshape(dy, from...)} }
	return g.Apply(op, x)
}

// WeightedSum computes Σ x∘w, a scalar, for x and w of the same size; w has no gradient.
func (g *Graph) WeightedSum(x, w *Node) *Node {
	n := x.Shape().TotalSize()
	if w.Shape().TotalSize() != n {
		fail("weighted sum of %v by %v", x.Shape(), w.Shape())
	}
	op := &Op{Name: "weighted sum"}
	values, weights, sum := op.arg(x, true), op.arg(w, false), op.result()
	op.Make = func(c *Call) {
		Do(c, device.Gemm{TransB: true, M: 1, N: 1, K: n, Alpha: 1, A: c.In[values], B: c.In[weights],
			C: c.Out[sum], Exact: true})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward() // needs no values
		weights, dy, dx := bw.arg(in[weights], false), bw.arg(dyNode, false), bw.gradient(values)
		bw.Make = func(c *Call) { Do(c, device.Scale{Dst: c.Out[dx], X: c.In[weights], Factor: c.In[dy]}) }
		return g.gradients(bw)
	}
	return g.apply(op)
}

// around returns the products of the sizes before and after an axis.
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

// SurrogateLoss returns a scalar whose gradient with respect to x is dx, to start a backward pass at x. It has no
// value.
func SurrogateLoss(g *Graph, x, dx *Node) *Node {
	wantShape("gradient that is given", dx, x.Shape()...)
	op := &Op{Name: "gradient that is given"}
	values, given := op.arg(x, true), op.arg(dx, false)
	op.result()
	op.Grad = func(in []*Node, _, _ *Node) []*Node {
		all := make([]*Node, len(in))
		all[values] = in[given]
		return all
	}
	return g.apply(op)
}
