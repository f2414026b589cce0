package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Add computes a + b for values of the same shape, scalars included.
func (g *Graph) Add(a, b *Node) *Node {
	s := a.Shape().Clone()
	if !s.Eq(b.Shape()) {
		fail("sum of %v and %v", s, b.Shape())
	}
	if s.IsScalar() {
		s = nil
	}
	n := size(s)
	op := &Op{Name: fmt.Sprintf("sum %v", s)}
	left, right, sum := op.arg(a, true), op.arg(b, true), op.result(s...)
	op.Make = func(c *Call) {
		Do(c, device.Add{Dst: c.Out[sum], A: c.In[left].Slice(0, n), B: c.In[right].Slice(0, n)})
	}
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{dy, dy} }
	return g.apply(op)
}

// SwapAxes exchanges the first two axes of x [A, B, ...]: batch-major sequences become time-major and back.
func (g *Graph) SwapAxes(x *Node) *Node {
	s := x.Shape().Clone()
	a, b := Dim(x, 0), Dim(x, 1)
	to := s.Clone()
	to[0], to[1] = b, a
	inner := s.TotalSize() / (a * b)
	op := &Op{Name: fmt.Sprintf("swap axes of %v", s)}
	values, swapped := op.arg(x, true), op.result(to...)
	op.Make = func(c *Call) { Do(c, device.SwapAxes{Dst: c.Out[swapped], X: c.In[values], A: a, B: b, Inner: inner}) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.SwapAxes(dy)} }
	return g.apply(op)
}

// Relate passes information between the regions of an image (Li, Zhang, Li, Li, Fu: "Visual Semantic Reasoning for
// Image-Text Matching", ICCV 2019, equations 1 and 2): for theta, phi, values [B, R, C],
//
//	A_b = theta_b phi_bᵀ / R    y_b = A_b values_b    [B, R, C]
func (g *Graph) Relate(theta, phi, values *Node) *Node {
	b, r, c := Dim(theta, 0), Dim(theta, 1), Dim(theta, 2)
	wantShape("phi of related regions", phi, b, r, c)
	wantShape("values of related regions", values, b, r, c)
	// many is a product of every image, where somebody reads it: [m, k] by [k, n], each operand [R, C] or [R, R].
	many := func(c *Call, transA, transB bool, m, n, k int, alpha float64, x, y, out device.View) {
		if out.Present() {
			Do(c, device.Gemm{TransA: transA, TransB: transB, M: m, N: n, K: k, Alpha: alpha, A: x, B: y, C: out,
				Batch: b, StrideA: m * k, StrideB: k * n, StrideC: m * n})
		}
	}
	mean := 1 / float64(r)
	op := &Op{Name: fmt.Sprintf("relate %d regions of %d", r, c)}
	queries, keys, rows := op.arg(theta, true), op.arg(phi, true), op.arg(values, true)
	y, relation := op.result(b, r, c), op.save(b*r*r)
	op.Make = func(k *Call) {
		many(k, false, true, r, r, c, mean, k.In[queries], k.In[keys], k.Saved[relation])
		many(k, false, false, r, c, r, 1, k.Saved[relation], k.In[rows], k.Out[y])
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dRelation := bw.arg(dyNode, false), bw.scratch(b*r*r)
		dQueries, dKeys, dRows := bw.gradient(queries), bw.gradient(keys), bw.gradient(rows)
		bw.Make = func(k *Call) {
			dy, da := k.In[dy], k.Temp[dRelation]
			if k.Out[dQueries].Present() || k.Out[dKeys].Present() {
				many(k, false, true, r, r, c, 1, dy, k.In[rows], da)
			}
			many(k, false, false, r, c, r, mean, da, k.In[keys], k.Out[dQueries])
			many(k, true, false, r, c, r, mean, da, k.In[queries], k.Out[dKeys])
			many(k, true, false, r, c, r, 1, k.Saved[relation], dy, k.Out[dRows])
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// SliceRows returns rows [lo, hi) of a matrix.
func (g *Graph) SliceRows(x *Node, lo, hi int) *Node {
	n, c := Dim(x, 0), Dim(x, 1)
	if lo < 0 || hi <= lo || hi > n {
		fail("rows %d to %d of %d", lo, hi, n)
	}
	op := &Op{Name: fmt.Sprintf("rows %d to %d", lo, hi)}
	all, rows := op.arg(x, true), op.result(hi-lo, c)
	op.Make = func(k *Call) { Do(k, device.Copy{Dst: k.Out[rows], Src: k.In[all].Slice(lo*c, hi*c)}) }
	op.Grad = func(_ []*Node, _, dyNode *Node) []*Node {
		bw := op.backward()
		dy, dx := bw.arg(dyNode, false), bw.gradient(all)
		bw.Make = func(k *Call) {
			for _, rest := range [2][2]int{{0, lo}, {hi, n}} {
				if rest[0] < rest[1] {
					Do(k, device.Fill{Dst: k.Out[dx].Slice(rest[0]*c, rest[1]*c)})
				}
			}
			Do(k, device.Copy{Dst: k.Out[dx].Slice(lo*c, hi*c), Src: k.In[dy]})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
