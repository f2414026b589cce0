package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
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
	op := &Op{Name: fmt.Sprintf("sum %v", s), Outs: []tensor.Shape{s}, Wants: []bool{true, true}}
	op.Run = func(d device.Device, c *Call) { d.Add(c.Out[0], c.In[0].Slice(0, n), c.In[1].Slice(0, n)) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{dy, dy} }
	return g.Apply(op, a, b)
}

// SwapAxes exchanges the first two axes of x [A, B, ...]: batch-major sequences become time-major and back.
func (g *Graph) SwapAxes(x *Node) *Node {
	s := x.Shape().Clone()
	a, b := Dim(x, 0), Dim(x, 1)
	to := s.Clone()
	to[0], to[1] = b, a
	inner := s.TotalSize() / (a * b)
	op := &Op{Name: fmt.Sprintf("swap axes of %v", s), Outs: []tensor.Shape{to}, Wants: []bool{true}}
	op.Run = func(d device.Device, c *Call) { d.SwapAxes(c.Out[0], c.In[0], a, b, inner) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.SwapAxes(dy)} }
	return g.Apply(op, x)
}

// Relate passes information between the regions of an image (Li, Zhang, Li, Li, Fu: "Visual Semantic Reasoning for Image-Text
// Matching", ICCV 2019, equations 1 and 2): for theta, phi, values [B, R, C],
//
//	A_b = theta_b phi_bᵀ / R    y_b = A_b values_b    [B, R, C]
func (g *Graph) Relate(theta, phi, values *Node) *Node {
	b, r, c := Dim(theta, 0), Dim(theta, 1), Dim(theta, 2)
	wantShape("phi of related regions", phi, b, r, c)
	wantShape("values of related regions", values, b, r, c)
	// many is a product of every image: [m, k] by [k, n], each operand [R, C] or [R, R].
	many := func(d device.Device, transA, transB bool, m, n, k int, alpha float64, x, y, out device.View) {
		d.Gemm(device.GemmArgs{TransA: transA, TransB: transB, M: m, N: n, K: k, Alpha: alpha, A: x, B: y, C: out,
			Batch: b, StrideA: m * k, StrideB: k * n, StrideC: m * n})
	}
	mean := 1 / float64(r)
	op := &Op{Name: fmt.Sprintf("relate %d regions of %d", r, c), Outs: []tensor.Shape{{b, r, c}}, Wants: []bool{true, true, true},
		Keep: []Slot{{DType: device.Float, N: b * r * r}}}
	op.Run = func(d device.Device, k *Call) {
		many(d, false, true, r, r, c, mean, k.In[0], k.In[1], k.Keep[0])
		many(d, false, false, r, c, r, 1, k.Keep[0], k.In[2], k.Out[0])
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		s := tensor.Shape{b, r, c}
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s, s, s}, Temp: []int{b * r * r}, Forward: op}
		bw.Run = func(d device.Device, k *Call) {
			theta, phi, values, dy, da := k.In[0], k.In[1], k.In[2], k.In[3], k.Temp[0]
			if k.Out[0].Present() || k.Out[1].Present() {
				many(d, false, true, r, r, c, 1, dy, values, da)
			}
			if k.Out[0].Present() {
				many(d, false, false, r, c, r, mean, da, phi, k.Out[0])
			}
			if k.Out[1].Present() {
				many(d, true, false, r, c, r, mean, da, theta, k.Out[1])
			}
			if k.Out[2].Present() {
				many(d, true, false, r, c, r, 1, k.Keep[0], dy, k.Out[2])
			}
		}
		return g.ApplyMulti(bw, in[0], in[1], in[2], dy)
	}
	return g.Apply(op, theta, phi, values)
}

// Rows returns rows [lo, hi) of a matrix.
func (g *Graph) Rows(x *Node, lo, hi int) *Node {
	n, c := Dim(x, 0), Dim(x, 1)
	if lo < 0 || hi <= lo || hi > n {
		fail("rows %d to %d of %d", lo, hi, n)
	}
	op := &Op{Name: fmt.Sprintf("rows %d to %d", lo, hi), Outs: []tensor.Shape{{hi - lo, c}}, Wants: []bool{true}}
	op.Run = func(d device.Device, k *Call) { d.Copy(k.Out[0], k.In[0].Slice(lo*c, hi*c)) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{n, c}}}
		bw.Run = func(d device.Device, k *Call) {
			d.Fill(k.Out[0], 0)
			d.Copy(k.Out[0].Slice(lo*c, hi*c), k.In[0])
		}
		return []*Node{g.Apply(bw, dy)}
	}
	return g.Apply(op, x)
}
