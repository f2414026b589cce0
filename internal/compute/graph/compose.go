package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// Networks compose from these ops what has no kernel of its own (device/primitives.go). A sum or a maximum runs along
// rows, x [N, D] → [N], or along segments, sets of rows with counts [C]: x [capacity, D] → [C, D].

// Multiply computes a∘b for two values of the same shape.
func (g *Graph) Multiply(a, b *Node) *Node {
	s := a.Shape().Clone()
	if b.Shape().TotalSize() != s.TotalSize() {
		fail("product of %v and %v element by element", s, b.Shape())
	}
	op := &Op{Name: "multiply"}
	left, right, y := op.arg(a, true), op.arg(b, true), op.result(s...)
	multiply := func(c *Call, dst, a, b device.View) {
		if dst.Present() {
			Do(c, device.Multiply{Dst: dst, A: a, B: b})
		}
	}
	op.Make = func(c *Call) { multiply(c, c.Out[y], c.In[left], c.In[right]) }
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dLeft, dRight := bw.arg(dyNode, false), bw.gradient(left), bw.gradient(right)
		bw.Make = func(c *Call) {
			multiply(c, c.Out[dLeft], c.In[right], c.In[dy])
			multiply(c, c.Out[dRight], c.In[left], c.In[dy])
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// Scale computes factor·x for a constant.
func (g *Graph) Scale(x *Node, factor float64) *Node {
	op := &Op{Name: fmt.Sprintf("times %v", factor)}
	values, y := op.arg(x, true), op.result(x.Shape().Clone()...)
	op.Make = func(c *Call) { Do(c, device.Combine{Dst: c.Out[y], A: c.In[values], Alpha: factor}) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.Scale(dy, factor)} }
	return g.apply(op)
}

// Minus computes a - b.
func (g *Graph) Minus(a, b *Node) *Node {
	s := a.Shape().Clone()
	if b.Shape().TotalSize() != s.TotalSize() {
		fail("difference of %v and %v", s, b.Shape())
	}
	op := &Op{Name: "minus"}
	left, right, y := op.arg(a, true), op.arg(b, true), op.result(s...)
	op.Make = func(c *Call) { Do(c, device.Combine{Dst: c.Out[y], A: c.In[left], B: c.In[right], Alpha: 1, Beta: -1}) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{dy, g.Scale(dy, -1)} }
	return g.apply(op)
}

// Map applies an elementwise function with the parameter c.
func (g *Graph) Map(f device.Function, c float64, x *Node) *Node {
	a := &device.Map{F: f, C: c}
	k := kernelOf(g, fmt.Sprintf("function %d", f), a)
	k.arg(x, &a.X, &a.DX)
	return k.result(&a.Y, &a.DY, true, x.Shape().Clone()...)
}

// Tan computes the tangent of values from -1 to 1, by nine levels of Lambert's continued fraction
// x/(1 - x²/(3 - x²/(5 - …))), which is exact there up to rounding.
func Tan(g *Graph, x *Node) *Node {
	n := x.Shape().TotalSize()
	op := &Op{Name: "tangent"}
	values, y, square := op.arg(x, true), op.result(x.Shape().Clone()...), op.scratch(n)
	const levels = 9
	op.Make = func(c *Call) {
		r, minus := c.Out[y], c.Temp[square]
		Do(c, device.Multiply{Dst: minus, A: c.In[values], B: c.In[values]})
		Do(c, device.Combine{Dst: minus, A: minus, Alpha: -1})
		Do(c, device.Fill{Dst: r, Value: 1. / (2*levels + 1)})
		for k := levels - 1; k >= 0; k-- {
			Do(c, device.Multiply{Dst: r, A: r, B: minus})
			Do(c, device.Map{F: device.Reciprocal, C: float64(2*k + 1), X: r, Y: r})
		}
		Do(c, device.Multiply{Dst: r, A: r, B: c.In[values]})
	}
	op.Grad = func(in []*Node, yNode, dyNode *Node) []*Node {
		return []*Node{g.Add(dyNode, g.Multiply(dyNode, g.Multiply(yNode, yNode)))}
	}
	return g.apply(op)
}

// Axis says what a reduction runs along: rows with a number of values, or segments.
type Axis struct {
	width  int
	counts *Node
}

// AlongRows is the axis of the rows of width values.
func AlongRows(width int) Axis { return Axis{width: width} }

// AlongSegments is the axis of sets of rows with the given counts [C], int32.
func AlongSegments(counts *Node) Axis { return Axis{counts: counts} }

// shapes returns the arguments of a reduction of values of the given shape, and the shape of its result.
func (a Axis) shapes(x tensor.Shape) (device.Reduce, tensor.Shape) {
	if a.counts != nil {
		d := x.TotalSize() / x[0]
		return device.Reduce{D: d}, tensor.Shape{Dim(a.counts, 0), d}
	}
	if x.TotalSize()%a.width != 0 {
		fail("rows of %d in %v", a.width, x)
	}
	n := x.TotalSize() / a.width
	return device.Reduce{N: n, D: a.width}, tensor.Shape{n}
}

// reduce fills the arguments of a kernel in.
func reduce(c *Call, args device.Reduce, lengths int, x, y device.View) device.Reduce {
	args.X, args.Y = x, y
	if lengths >= 0 {
		args.Counts = c.Ints(lengths)
	}
	return args
}

// Sum adds along an axis.
func (g *Graph) Sum(x *Node, a Axis) *Node {
	from := x.Shape().Clone()
	args, to := a.shapes(from)
	op := &Op{Name: fmt.Sprintf("sums of %v", from)}
	values, counts, y := op.arg(x, true), op.optional(a.counts, false), op.result(to...)
	op.Make = func(c *Call) { Do(c, reduce(c, args, counts, c.In[values], c.Out[y])) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return a.grads(g.Broadcast(dy, a, from...)) }
	return g.apply(op)
}

// Mean averages along an axis.
func (g *Graph) Mean(x *Node, a Axis) *Node {
	if a.counts != nil {
		return g.SegmentMeans(x, a.counts)
	}
	return g.Scale(g.Sum(x, a), 1/float64(a.width))
}

// grads are the gradients of an op of one value and perhaps counts.
func (a Axis) grads(dx *Node) []*Node {
	if a.counts != nil {
		return []*Node{dx, nil}
	}
	return []*Node{dx}
}

// Broadcast repeats the values y of Sum along an axis: a value of the given shape.
func (g *Graph) Broadcast(y *Node, a Axis, shape ...int) *Node {
	to := tensor.Shape(append([]int(nil), shape...))
	args, from := a.shapes(to)
	if y.Shape().TotalSize() != from.TotalSize() {
		fail("%v spread over %v, expected %v", y.Shape(), to, from)
	}
	shapeOfY := y.Shape().Clone()
	op := &Op{Name: fmt.Sprintf("spread over %v", to)}
	values, counts, x := op.arg(y, true), op.optional(a.counts, false), op.result(to...)
	op.Make = func(c *Call) { DoGrad(c, reduce(c, args, counts, c.Out[x], c.In[values])) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return a.grads(g.Reshape(g.Sum(dy, a), shapeOfY...)) }
	return g.apply(op)
}

// Max takes the greatest values along an axis. The gradient goes to the first of equal ones.
func (g *Graph) Max(x *Node, a Axis) *Node {
	from := x.Shape().Clone()
	args, to := a.shapes(from)
	args.Max = true
	k := kernelOf(g, fmt.Sprintf("maxima of %v", from), &args)
	k.argOnce(x, &args.X, &args.X)
	if a.counts != nil {
		k.ints(a.counts, &args.Counts)
	}
	k.keepInts(to.TotalSize(), &args.Index)
	return k.result(&args.Y, &args.Y, true, to...) // read, so that the positions are there
}

// StopGradient returns x as a constant: no gradient flows through it.
func (g *Graph) StopGradient(x *Node) *Node {
	op := &Op{Name: "fixed", Outs: []tensor.Shape{x.Shape().Clone()}, NeedsGrad: []bool{false}, Alias: true}
	x = g.Apply(op, x)
	if g.OnStopGradient != nil {
		return g.OnStopGradient(x)
	}
	return x
}

// Softmax computes e^(factor·x) / Σ e^(factor·x) along an axis.
func (g *Graph) Softmax(x *Node, factor float64, a Axis) *Node {
	shape := x.Shape().Clone()
	x = g.Scale(x, factor)
	e := g.Map(device.Exp, 0, g.Minus(x, g.Broadcast(g.Max(g.StopGradient(x), a), a, shape...)))
	return g.Multiply(e, g.Broadcast(g.Map(device.Reciprocal, 0, g.Sum(e, a)), a, shape...))
}

// LogSumExp computes ln(Σ e^(factor·x)) along an axis.
func (g *Graph) LogSumExp(x *Node, factor float64, a Axis) *Node {
	shape := x.Shape().Clone()
	x = g.Scale(x, factor)
	most := g.Max(g.StopGradient(x), a) // a shift changes nothing, so nothing flows back through it
	sum := g.Sum(g.Map(device.Exp, 0, g.Minus(x, g.Broadcast(most, a, shape...))), a)
	return g.Add(g.Map(device.Log, 0, sum), most)
}

// Repeat repeats the values of x in n rows: [n, D].
func (g *Graph) Repeat(x *Node, n int) *Node {
	d := x.Shape().TotalSize()
	all := g.ConstInts(fmt.Sprintf("const.all.%d", n), []int32{int32(n)})
	return g.Broadcast(g.Reshape(x, 1, d), AlongSegments(all), n, d)
}

// SelfAttention lets the rows of every set attend to each other: [capacity, D]. qkv [capacity, 3D] holds their queries,
// keys and values side by side, and counts [B] the rows of each set; each head has D/heads columns. Rows whose entry of
// attended [B, L], int32, is 0 are not attended to; nil means all rows are.
func (g *Graph) SelfAttention(qkv, attended, counts *Node, heads int) *Node {
	capacity, d := Dim(qkv, 0), Dim(qkv, 1)/3
	if heads < 1 || d%heads != 0 || 3*d != Dim(qkv, 1) {
		fail("attention of %d heads over queries, keys and values of %d columns in all", heads, Dim(qkv, 1))
	}
	a := &device.SelfAttention{Heads: heads, D: d, LD: 3 * d}
	if attended != nil {
		wantShape("attended rows", attended, Dim(counts, 0), -1)
		a.L = Dim(attended, 1)
	}
	k, three := kernelOf(g, fmt.Sprintf("self-attention, %d heads of %d", heads, d/heads), a), triple{d: d}
	var rows, dRows device.View
	k.arg(qkv, &rows, &dRows)
	k.ints(counts, &a.Lengths)
	if attended != nil {
		k.ints(attended, &a.Words)
	}
	k.last = func() {
		n := device.Total(a.Lengths.Host)
		a.Query, a.Key, a.Value = three.part(rows, n, 0), three.part(rows, n, 1), three.part(rows, n, 2)
		if a.Grad {
			a.DQuery, a.DKey, a.DValue = three.part(dRows, n, 0), three.part(dRows, n, 1), three.part(dRows, n, 2)
		}
	}
	return k.result(&a.Context, &a.DContext, false, capacity, d)
}

// SelectRows takes rows of x [capacity, D] by their numbers, the first counts_b of row b of positions [B, L] int32:
// [B·L, D], the rows of item 0 first. counts [B] are from 1 to L.
func (g *Graph) SelectRows(x, positions, counts *Node) *Node {
	capacity, d, b, l := Dim(x, 0), Dim(x, 1), Dim(positions, 0), Dim(positions, 1)
	wantShape("counts of rows", counts, b)
	a := &device.Embed{L: l, V: capacity, P: l, K: 1, D: d}
	k := kernelOf(g, fmt.Sprintf("%d×%d rows of %d", b, l, d), a)
	k.argOnce(x, &a.Word, &a.Word)
	k.ints(positions, &a.Words)
	k.ints(counts, &a.Lengths)
	k.argOnce(g.Const(fmt.Sprintf("const.zeros.%d.%d", l, d), make([]float64, l*d), l, d), &a.Position, nil)
	k.last = func() {
		if !a.Grad {
			a.Type = a.Position.Slice(0, d)
		}
	}
	return k.result(&a.Out, &a.Out, false, b*l, d)
}
