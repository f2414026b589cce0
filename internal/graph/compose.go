package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// Ops from which networks compose what has no kernel of its own (device.Primitives). A sum or a maximum runs along rows, x [N, D] → [N],
// or along segments, sets of rows with counts [C]: x [room, D] → [C, D].

// Multiply computes a∘b for two values of the same shape.
func (g *Graph) Multiply(a, b *Node) *Node {
	s := a.Shape().Clone()
	if b.Shape().TotalSize() != s.TotalSize() {
		fail("product of %v and %v element by element", s, b.Shape())
	}
	op := &Op{Name: "multiply", Outs: []tensor.Shape{s}, Wants: []bool{true, true}}
	op.Run = func(d device.Device, c *Call) { d.Multiply(c.Out[0], c.In[0], c.In[1]) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: "multiply gradient", Outs: []tensor.Shape{s, b.Shape().Clone()}}
		bw.Run = func(d device.Device, c *Call) {
			for k, out := range c.Out {
				if out.Present() {
					d.Multiply(out, c.In[1-k], c.In[2])
				}
			}
		}
		return g.ApplyMulti(bw, in[0], in[1], dy)
	}
	return g.Apply(op, a, b)
}

// Times computes factor·x for a constant.
func (g *Graph) Times(x *Node, factor float64) *Node {
	op := &Op{Name: fmt.Sprintf("times %v", factor), Outs: []tensor.Shape{x.Shape().Clone()}, Wants: []bool{true}}
	op.Run = func(d device.Device, c *Call) { d.Combine(c.Out[0], c.In[0], device.View{}, factor, 0) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.Times(dy, factor)} }
	return g.Apply(op, x)
}

// Minus computes a - b.
func (g *Graph) Minus(a, b *Node) *Node {
	s := a.Shape().Clone()
	if b.Shape().TotalSize() != s.TotalSize() {
		fail("difference of %v and %v", s, b.Shape())
	}
	op := &Op{Name: "minus", Outs: []tensor.Shape{s}, Wants: []bool{true, true}}
	op.Run = func(d device.Device, c *Call) { d.Combine(c.Out[0], c.In[0], c.In[1], 1, -1) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{dy, g.Times(dy, -1)} }
	return g.Apply(op, a, b)
}

// Map applies an elementwise function with the parameter c.
func (g *Graph) Map(f device.Function, c float64, x *Node) *Node {
	s := x.Shape().Clone()
	op := &Op{Name: fmt.Sprintf("function %d", f), Outs: []tensor.Shape{s}, Wants: []bool{true}}
	op.Run = func(d device.Device, call *Call) { d.Map(device.MapArgs{F: f, C: c, X: call.In[0], Y: call.Out[0]}) }
	op.Grad = func(in []*Node, y, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s}}
		bw.Run = func(d device.Device, call *Call) {
			d.MapGrad(device.MapArgs{F: f, C: c, X: call.In[0], Y: call.In[1], DY: call.In[2], DX: call.Out[0]})
		}
		return []*Node{g.Apply(bw, in[0], y, dy)}
	}
	return g.Apply(op, x)
}

// Axis is what a reduction runs along: rows of a number of values, or segments.
type Axis struct {
	width  int
	counts *Node
}

// AlongRows is the axis of the rows of width values.
func AlongRows(width int) Axis { return Axis{width: width} }

// AlongSegments is the axis of sets of rows with the given counts [C], int32.
func AlongSegments(counts *Node) Axis { return Axis{counts: counts} }

// shapes returns the arguments of a reduction of values of the given shape, and the shape of its result.
func (a Axis) shapes(x tensor.Shape) (device.ReduceArgs, tensor.Shape) {
	if a.counts != nil {
		d := x.TotalSize() / x[0]
		return device.ReduceArgs{D: d}, tensor.Shape{Dim(a.counts, 0), d}
	}
	if x.TotalSize()%a.width != 0 {
		fail("rows of %d in %v", a.width, x)
	}
	n := x.TotalSize() / a.width
	return device.ReduceArgs{N: n, D: a.width}, tensor.Shape{n}
}

// with adds the counts to the arguments of an op.
func (a Axis) with(in ...*Node) []*Node {
	if a.counts != nil {
		in = append(in, a.counts)
	}
	return in
}

// reduce fills the arguments of a kernel in; the counts, where there are any, are the last argument of the call.
func (a Axis) reduce(c *Call, args device.ReduceArgs, x, y device.View) device.ReduceArgs {
	args.X, args.Y = x, y
	if a.counts != nil {
		args.Counts = c.Ints(len(c.In) - 1)
	}
	return args
}

// Sum adds along an axis.
func (g *Graph) Sum(x *Node, a Axis) *Node {
	from := x.Shape().Clone()
	args, to := a.shapes(from)
	op := &Op{Name: fmt.Sprintf("sums of %v", from), Outs: []tensor.Shape{to}, Wants: []bool{true, false}}
	op.Run = func(d device.Device, c *Call) { d.Reduce(a.reduce(c, args, c.In[0], c.Out[0])) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return a.grads(g.Spread(dy, a, from...)) }
	return g.Apply(op, a.with(x)...)
}

// grads are the gradients of an op of one value and perhaps counts.
func (a Axis) grads(dx *Node) []*Node {
	if a.counts != nil {
		return []*Node{dx, nil}
	}
	return []*Node{dx}
}

// Spread repeats the values y of Sum along an axis: a value of the given shape.
func (g *Graph) Spread(y *Node, a Axis, shape ...int) *Node {
	to := tensor.Shape(append([]int(nil), shape...))
	args, from := a.shapes(to)
	if y.Shape().TotalSize() != from.TotalSize() {
		fail("%v spread over %v, expected %v", y.Shape(), to, from)
	}
	shapeOfY := y.Shape().Clone()
	op := &Op{Name: fmt.Sprintf("spread over %v", to), Outs: []tensor.Shape{to}, Wants: []bool{true, false}}
	op.Run = func(d device.Device, c *Call) { d.Spread(a.reduce(c, args, c.Out[0], c.In[0])) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return a.grads(g.Reshape(g.Sum(dy, a), shapeOfY...)) }
	return g.Apply(op, a.with(y)...)
}

// Max takes the greatest values along an axis. The gradient goes to the first of equal ones.
func (g *Graph) Max(x *Node, a Axis) *Node {
	from := x.Shape().Clone()
	args, to := a.shapes(from)
	args.Max = true
	op := &Op{Name: fmt.Sprintf("maxima of %v", from), Outs: []tensor.Shape{to}, Wants: []bool{true, false},
		Keep: []Slot{{DType: device.Int32, N: to.TotalSize()}}}
	op.Run = func(d device.Device, c *Call) {
		k := a.reduce(c, args, c.In[0], c.Out[0])
		k.Index = c.Keep[0]
		d.Reduce(k)
	}
	op.Grad = func(_ []*Node, y, dy *Node) []*Node { // y is an argument so that the positions are there
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{from}, Forward: op}
		bw.Run = func(d device.Device, c *Call) {
			k := a.reduce(c, args, c.Out[0], c.In[0])
			k.Index = c.Keep[0]
			d.Spread(k)
		}
		return a.grads(g.Apply(bw, a.with(dy, y)...))
	}
	return g.Apply(op, a.with(x)...)
}

// fixed is a value through which no gradient flows.
func (g *Graph) fixed(x *Node) *Node {
	op := &Op{Name: "fixed", Outs: []tensor.Shape{x.Shape().Clone()}, Wants: []bool{false}, Alias: true}
	return g.Apply(op, x)
}

// Softmax computes e^(factor·x) / Σ e^(factor·x) along an axis.
func (g *Graph) Softmax(x *Node, factor float64, a Axis) *Node {
	shape := x.Shape().Clone()
	x = g.Times(x, factor)
	e := g.Map(device.Exp, 0, g.Minus(x, g.Spread(g.Max(g.fixed(x), a), a, shape...)))
	return g.Multiply(e, g.Spread(g.Map(device.Reciprocal, 0, g.Sum(e, a)), a, shape...))
}

// LogSumExp computes ln(Σ e^(factor·x)) along an axis.
func (g *Graph) LogSumExp(x *Node, factor float64, a Axis) *Node {
	shape := x.Shape().Clone()
	x = g.Times(x, factor)
	most := g.Max(g.fixed(x), a) // a shift changes nothing, so nothing flows back through it
	sum := g.Sum(g.Map(device.Exp, 0, g.Minus(x, g.Spread(most, a, shape...))), a)
	return g.Add(g.Map(device.Log, 0, sum), most)
}

// GroupProducts multiplies the groups of columns of x [room, B·R] by a matrix each, m [B, R, R]: group b of the result is x_b m_b. Only
// the first Σ counts rows are there.
func (g *Graph) GroupProducts(x, m, counts *Node) *Node {
	room, b, r := Dim(x, 0), Dim(m, 0), Dim(m, 1)
	wantShape("groups of columns", x, room, b*r)
	wantShape("matrices of groups", m, b, r, r)
	all := device.GemmArgs{N: r, Alpha: 1, Batch: b, Exact: true}
	op := &Op{Name: fmt.Sprintf("%d products of %d columns", b, r), Outs: []tensor.Shape{{room, b * r}}, Wants: []bool{true, true, false}}
	rows := func(c *Call, i int) int { return total(c.Host[i]) }
	product := func(d device.Device, n int, transposed bool, x, m, y device.View) {
		k := all
		k.M, k.K, k.TransB = n, r, transposed
		k.A, k.LDA, k.StrideA, k.B, k.StrideB, k.C, k.LDC, k.StrideC = x, b*r, r, m, r*r, y, b*r, r
		d.Gemm(k)
	}
	op.Run = func(d device.Device, c *Call) { product(d, rows(c, 2), false, c.In[0], c.In[1], c.Out[0]) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, b * r}, {b, r, r}}}
		bw.Run = func(d device.Device, c *Call) {
			n := rows(c, 2)
			if c.Out[0].Present() {
				product(d, n, true, c.In[3], c.In[1], c.Out[0])
			}
			if c.Out[1].Present() {
				k := all
				k.TransA, k.M, k.K = true, r, n
				k.A, k.LDA, k.StrideA, k.B, k.LDB, k.StrideB, k.C, k.StrideC = c.In[0], b*r, r, c.In[3], b*r, r, c.Out[1], r*r
				d.Gemm(k)
			}
		}
		return append(g.ApplyMulti(bw, in[0], in[1], in[2], dy), nil)
	}
	return g.Apply(op, x, m, counts)
}

// Grams computes the Gram matrices v vᵀ of v [B, R, E]: [B, R, R].
func (g *Graph) Grams(v *Node) *Node {
	b, r, e := Dim(v, 0), Dim(v, 1), Dim(v, 2)
	op := &Op{Name: fmt.Sprintf("%d Gram matrices of %d×%d", b, r, e), Outs: []tensor.Shape{{b, r, r}}, Wants: []bool{true}}
	op.Run = func(d device.Device, c *Call) {
		d.Gemm(device.GemmArgs{TransB: true, M: r, N: r, K: e, Alpha: 1, Batch: b, A: c.In[0], StrideA: r * e, B: c.In[0], StrideB: r * e,
			C: c.Out[0], StrideC: r * r, Exact: true})
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{b, r, e}}}
		bw.Run = func(d device.Device, c *Call) {
			for k, transposed := range []bool{false, true} {
				d.Gemm(device.GemmArgs{TransA: transposed, M: r, N: e, K: r, Alpha: 1, Beta: float64(k), Batch: b, A: c.In[1], StrideA: r * r,
					B: c.In[0], StrideB: r * e, C: c.Out[0], StrideC: r * e, Exact: true})
			}
		}
		return []*Node{g.Apply(bw, in[0], dy)}
	}
	return g.Apply(op, v)
}

// SegmentGrams computes the products of the rows of x [room, D] within each segment: [room, longest], of which a row of a segment of n
// rows holds n values. The segments have at most longest rows.
func (g *Graph) SegmentGrams(x, counts *Node, longest int) *Node {
	room, d := Dim(x, 0), Dim(x, 1)
	args := device.SegmentProductsArgs{D: d, Longest: longest}
	op := &Op{Name: fmt.Sprintf("Gram matrices of segments of %d", d), Outs: []tensor.Shape{{room, longest}}, Wants: []bool{true, false}}
	op.Run = func(dev device.Device, c *Call) {
		k := args
		k.Counts, k.A, k.B, k.G = c.Ints(1), c.In[0], c.In[0], c.Out[0]
		dev.SegmentProducts(k)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, d}}, Temp: []int{room * d}}
		bw.Run = func(dev device.Device, c *Call) {
			k := args
			k.Counts, k.A, k.G, k.B, k.Form = c.Ints(1), c.In[0], c.In[2], c.Out[0], device.SegmentApply
			dev.SegmentProducts(k)
			k.B, k.Form = c.Temp[0], device.SegmentApplyT
			dev.SegmentProducts(k)
			n := total(c.Host[1]) * d
			dev.Add(c.Out[0].Slice(0, n), c.Out[0].Slice(0, n), c.Temp[0].Slice(0, n))
		}
		return []*Node{g.Apply(bw, in[0], in[1], dy), nil}
	}
	return g.Apply(op, x, counts)
}

// SegmentMix multiplies the rows of x [room, D] of each segment by its matrix of SegmentGrams, m [room, longest].
func (g *Graph) SegmentMix(m, x, counts *Node) *Node {
	room, d, longest := Dim(x, 0), Dim(x, 1), Dim(m, 1)
	wantShape("matrices of segments", m, room, longest)
	args := device.SegmentProductsArgs{D: d, Longest: longest}
	op := &Op{Name: fmt.Sprintf("products of segments of %d", d), Outs: []tensor.Shape{{room, d}}, Wants: []bool{true, true, false}}
	op.Run = func(dev device.Device, c *Call) {
		k := args
		k.Counts, k.G, k.A, k.B, k.Form = c.Ints(2), c.In[0], c.In[1], c.Out[0], device.SegmentApply
		dev.SegmentProducts(k)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, longest}, {room, d}}}
		bw.Run = func(dev device.Device, c *Call) {
			k := args
			k.Counts = c.Ints(2)
			if c.Out[0].Present() {
				k.A, k.B, k.G = c.In[3], c.In[1], c.Out[0]
				dev.SegmentProducts(k)
			}
			if c.Out[1].Present() {
				k.G, k.A, k.B, k.Form = c.In[0], c.In[3], c.Out[1], device.SegmentApplyT
				dev.SegmentProducts(k)
			}
		}
		return append(g.ApplyMulti(bw, in[0], in[1], in[2], dy), nil)
	}
	return g.Apply(op, m, x, counts)
}

// Repeat repeats the values of x in n rows: [n, D].
func (g *Graph) Repeat(x *Node, n int) *Node {
	d := x.Shape().TotalSize()
	all := g.ConstInts(fmt.Sprintf("const.all.%d", n), []int32{int32(n)})
	return g.Spread(g.Reshape(x, 1, d), AlongSegments(all), n, d)
}

// SelfAttention lets the rows of every set attend to each other: qkv [room, 3D] are their queries, keys and values, side by
// side, counts [B] of them in each set; each head has D/heads columns. Rows are attended to whose entry of attended [B, L],
// int32, is not 0; nil is all. The result is [room, D].
func (g *Graph) SelfAttention(qkv, attended, counts *Node, heads int) *Node {
	room, d := Dim(qkv, 0), Dim(qkv, 1)/3
	if heads < 1 || d%heads != 0 || 3*d != Dim(qkv, 1) {
		fail("attention of %d heads over queries, keys and values of %d columns in all", heads, Dim(qkv, 1))
	}
	three, args, in := triple{d}, device.SelfAttentionArgs{Heads: heads, D: d, LD: 3 * d}, []*Node{qkv, counts}
	if attended != nil {
		wantShape("attended rows", attended, Dim(counts, 0), -1)
		args.L, in = Dim(attended, 1), append(in, attended)
	}
	fill := func(c *Call) (a device.SelfAttentionArgs, rows int) {
		a, rows = args, total(c.Host[1])
		if a.Lengths = c.Ints(1); attended != nil {
			a.Words = c.Ints(2)
		}
		a.Query, a.Key, a.Value = three.part(c.In[0], rows, 0), three.part(c.In[0], rows, 1), three.part(c.In[0], rows, 2)
		return a, rows
	}
	op := &Op{Name: fmt.Sprintf("self-attention, %d heads of %d", heads, d/heads), Outs: []tensor.Shape{{room, d}},
		Wants: []bool{true, false, false}[:len(in)]}
	op.Run = func(dev device.Device, c *Call) {
		a, _ := fill(c)
		a.Context = c.Out[0]
		dev.SelfAttention(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, 3 * d}}}
		bw.Run = func(dev device.Device, c *Call) {
			a, rows := fill(c)
			a.DContext, a.DQuery = c.In[len(c.In)-1], three.part(c.Out[0], rows, 0)
			a.DKey, a.DValue = three.part(c.Out[0], rows, 1), three.part(c.Out[0], rows, 2)
			dev.SelfAttentionGrad(a)
		}
		return []*Node{g.Apply(bw, append(append([]*Node(nil), in...), dy)...), nil, nil}[:len(in)]
	}
	return g.Apply(op, in...)
}

// PickRows takes rows of x [room, D] by their numbers, places [B, L] int32, of which row b holds counts_b: [B·L, D], the rows
// of item 0 first. counts [B] are between 1 and L.
func (g *Graph) PickRows(x, places, counts *Node) *Node {
	room, d, b, l := Dim(x, 0), Dim(x, 1), Dim(places, 0), Dim(places, 1)
	wantShape("counts of rows", counts, b)
	args := device.EmbedArgs{L: l, V: room, P: l, K: 1, D: d}
	zeros := g.Const(fmt.Sprintf("const.zeros.%d.%d", l, d), make([]float64, l*d), l, d)
	op := &Op{Name: fmt.Sprintf("%d×%d rows of %d", b, l, d), Outs: []tensor.Shape{{b * l, d}}, Wants: []bool{true, false, false, false}}
	op.Run = func(dev device.Device, c *Call) {
		a := args
		a.Word, a.Words, a.Lengths, a.Out = c.In[0], c.Ints(1), c.Ints(2), c.Out[0]
		a.Position, a.Type = c.In[3], c.In[3].Slice(0, d)
		dev.Embed(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, d}}}
		bw.Run = func(dev device.Device, c *Call) {
			a := args
			a.Words, a.Lengths, a.Out, a.Word = c.Ints(0), c.Ints(1), c.In[2], c.Out[0]
			dev.EmbedGrad(a)
		}
		return []*Node{g.Apply(bw, in[1], in[2], dy), nil, nil, nil}
	}
	return g.Apply(op, x, places, counts, zeros)
}
