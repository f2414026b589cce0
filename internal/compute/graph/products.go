package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Products from which networks compose: of groups of columns, of the rows of items, and within segments.

// GroupProducts multiplies the groups of columns of x [capacity, B·R] by a matrix each, m [B, R, R]: group b of the
// result is x_b m_b. Only the first Σ counts rows are there.
func (g *Graph) GroupProducts(x, m, counts *Node) *Node {
	capacity, b, r := Dim(x, 0), Dim(m, 0), Dim(m, 1)
	wantShape("groups of columns", x, capacity, b*r)
	wantShape("matrices of groups", m, b, r, r)
	all := device.Gemm{N: r, Alpha: 1, Batch: b, Exact: true}
	op := &Op{Name: fmt.Sprintf("%d products of %d columns", b, r)}
	values, matrices, lengths := op.arg(x, true), op.arg(m, true), op.arg(counts, false)
	y := op.result(capacity, b*r)
	product := func(c *Call, n int, transposed bool, x, m, y device.View) {
		k := all
		k.M, k.K, k.TransB = n, r, transposed
		k.A, k.LDA, k.StrideA, k.B, k.StrideB, k.C, k.LDC, k.StrideC = x, b*r, r, m, r*r, y, b*r, r
		Do(c, k)
	}
	op.Make = func(c *Call) {
		product(c, c.rows(lengths), false, c.In[values], c.In[matrices], c.Out[y])
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx, dMatrices := bw.arg(dyNode, false), bw.gradient(values), bw.gradient(matrices)
		bw.Make = func(c *Call) {
			n := c.rows(lengths)
			if c.Out[dx].Present() {
				product(c, n, true, c.In[dy], c.In[matrices], c.Out[dx])
			}
			if c.Out[dMatrices].Present() {
				k := all
				k.TransA, k.M, k.K = true, r, n
				k.A, k.LDA, k.StrideA, k.B, k.LDB, k.StrideB = c.In[values], b*r, r, c.In[dy], b*r, r
				k.C, k.StrideC = c.Out[dMatrices], r*r
				Do(c, k)
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// Grams computes the Gram matrices v vᵀ of v [B, R, E]: [B, R, R].
func (g *Graph) Grams(v *Node) *Node {
	b, r, e := Dim(v, 0), Dim(v, 1), Dim(v, 2)
	op := &Op{Name: fmt.Sprintf("%d Gram matrices of %d×%d", b, r, e)}
	rows, y := op.arg(v, true), op.result(b, r, r)
	op.Make = func(c *Call) {
		Do(c, device.Gemm{TransB: true, M: r, N: r, K: e, Alpha: 1, Batch: b, A: c.In[rows], StrideA: r * e,
			B: c.In[rows], StrideB: r * e, C: c.Out[y], StrideC: r * r, Exact: true})
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx := bw.arg(dyNode, false), bw.gradient(rows)
		bw.Make = func(c *Call) {
			for k, transposed := range []bool{false, true} {
				Do(c, device.Gemm{TransA: transposed, M: r, N: e, K: r, Alpha: 1, Beta: float64(k), Batch: b,
					A: c.In[dy], StrideA: r * r, B: c.In[rows], StrideB: r * e, C: c.Out[dx], StrideC: r * e,
					Exact: true})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// SegmentGrams computes the products of the rows of x [capacity, D] within each segment: [capacity, longest], of which
// a row of a segment of n rows holds n values. The segments have at most longest rows.
func (g *Graph) SegmentGrams(x, counts *Node, longest int) *Node {
	capacity, d := Dim(x, 0), Dim(x, 1)
	args := device.SegmentProducts{D: d, Longest: longest}
	op := &Op{Name: fmt.Sprintf("Gram matrices of segments of %d", d)}
	rows, lengths, y := op.arg(x, true), op.arg(counts, false), op.result(capacity, longest)
	op.Make = func(c *Call) {
		k := args
		k.Counts, k.A, k.B, k.G = c.Ints(lengths), c.In[rows], c.In[rows], c.Out[y]
		Do(c, k)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx, half := bw.arg(dyNode, false), bw.gradient(rows), bw.scratch(capacity*d)
		bw.Make = func(c *Call) {
			k := args
			k.Counts, k.A, k.G, k.B, k.Form = c.Ints(lengths), c.In[rows], c.In[dy], c.Out[dx], device.SegmentApply
			Do(c, k)
			k.B, k.Form = c.Temp[half], device.SegmentApplyT
			Do(c, k)
			n := c.rows(lengths) * d
			Do(c, device.Add{Dst: c.Out[dx].Slice(0, n), A: c.Out[dx].Slice(0, n), B: c.Temp[half].Slice(0, n)})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// SegmentMix multiplies the rows of x [capacity, D] of each segment by its matrix of SegmentGrams, m
// [capacity, longest].
func (g *Graph) SegmentMix(m, x, counts *Node) *Node {
	capacity, d, longest := Dim(x, 0), Dim(x, 1), Dim(m, 1)
	wantShape("matrices of segments", m, capacity, longest)
	args := device.SegmentProducts{D: d, Longest: longest}
	op := &Op{Name: fmt.Sprintf("products of segments of %d", d)}
	matrices, rows, lengths, y := op.arg(m, true), op.arg(x, true), op.arg(counts, false), op.result(capacity, d)
	op.Make = func(c *Call) {
		k := args
		k.Counts, k.G, k.A, k.B, k.Form = c.Ints(lengths), c.In[matrices], c.In[rows], c.Out[y], device.SegmentApply
		Do(c, k)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dMatrices, dRows := bw.arg(dyNode, false), bw.gradient(matrices), bw.gradient(rows)
		bw.Make = func(c *Call) {
			k := args
			k.Counts = c.Ints(lengths)
			if c.Out[dMatrices].Present() {
				k.A, k.B, k.G = c.In[dy], c.In[rows], c.Out[dMatrices]
				Do(c, k)
			}
			if c.Out[dRows].Present() {
				k.G, k.A, k.B, k.Form = c.In[matrices], c.In[dy], c.Out[dRows], device.SegmentApplyT
				Do(c, k)
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
