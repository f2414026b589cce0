package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// Ops from which networks compose what has no kernel of its own (device/primitives.go). A sum or a maximum runs along
// rows, x [N, D] → [N], or along segments, sets of rows with counts [C]: x [capacity, D] → [C, D].

// Multiply computes a∘b for two values of the same shape.
func (g *Graph) Multiply(a, b *Node) *Node {
	s := a.Shape().Clone()
	if b.Shape().TotalSize() != s.TotalSize() {
		fail("product of %v and %v element by element", s, b.Shape())
	}
	op := &Op{Name: "multiply"}
	left, right, y := op.arg(a, true), op.arg(b, true), op.result(s...)
	op.Make = func(c *Call) { Do(c, device.Multiply{Dst: c.Out[y], A: c.In[left], B: c.In[right]}) }
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dLeft, dRight := bw.arg(dyNode, false), bw.gradient(left), bw.gradient(right)
		bw.Make = func(c *Call) {
			if c.Out[dLeft].Present() {
				Do(c, device.Multiply{Dst: c.Out[dLeft], A: c.In[right], B: c.In[dy]})
			}
			if c.Out[dRight].Present() {
				Do(c, device.Multiply{Dst: c.Out[dRight], A: c.In[left], B: c.In[dy]})
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// Times computes factor·x for a constant.
func (g *Graph) Times(x *Node, factor float64) *Node {
	op := &Op{Name: fmt.Sprintf("times %v", factor)}
	values, y := op.arg(x, true), op.result(x.Shape().Clone()...)
	op.Make = func(c *Call) { Do(c, device.Combine{Dst: c.Out[y], A: c.In[values], Alpha: factor}) }
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{g.Times(dy, factor)} }
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
	op.Grad = func(_ []*Node, _, dy *Node) []*Node { return []*Node{dy, g.Times(dy, -1)} }
	return g.apply(op)
}

// Map applies an elementwise function with the parameter c.
func (g *Graph) Map(f device.Function, c float64, x *Node) *Node {
	op := &Op{Name: fmt.Sprintf("function %d", f)}
	values, y := op.arg(x, true), op.result(x.Shape().Clone()...)
	op.Make = func(call *Call) {
		Do(call, device.Map{F: f, C: c, X: call.In[values], Y: call.Out[y]})
	}
	op.Grad = func(in []*Node, yNode, dyNode *Node) []*Node {
		bw := op.backward(in...)
		y, dy, dx := bw.arg(yNode, false), bw.arg(dyNode, false), bw.gradient(values)
		bw.Make = func(call *Call) {
			DoGrad(call, device.Map{F: f, C: c, X: call.In[values], Y: call.In[y], DY: call.In[dy], DX: call.Out[dx]})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// Tan computes the tangent of values from -1 to 1, by nine levels of Lambert's continued fraction
// x/(1 - x²/(3 - x²/(5 - …))), which is exact to a rounding there.
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

// lengths declares the counts as an argument of an op, -1 where there are none.
func (a Axis) lengths(op *Op) int {
	if a.counts == nil {
		return -1
	}
	return op.arg(a.counts, false)
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
	values, counts, y := op.arg(x, true), a.lengths(op), op.result(to...)
	op.Make = func(c *Call) { Do(c, reduce(c, args, counts, c.In[values], c.Out[y])) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return a.grads(g.Spread(dy, a, from...)) }
	return g.apply(op)
}

// Mean averages along an axis.
func (g *Graph) Mean(x *Node, a Axis) *Node {
	if a.counts != nil {
		return g.SegmentMeans(x, a.counts)
	}
	return g.Times(g.Sum(x, a), 1/float64(a.width))
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
	op := &Op{Name: fmt.Sprintf("spread over %v", to)}
	values, counts, x := op.arg(y, true), a.lengths(op), op.result(to...)
	op.Make = func(c *Call) { DoGrad(c, reduce(c, args, counts, c.Out[x], c.In[values])) }
	op.Grad = func(in []*Node, _, dy *Node) []*Node { return a.grads(g.Reshape(g.Sum(dy, a), shapeOfY...)) }
	return g.apply(op)
}

// Max takes the greatest values along an axis. The gradient goes to the first of equal ones.
func (g *Graph) Max(x *Node, a Axis) *Node {
	from := x.Shape().Clone()
	args, to := a.shapes(from)
	args.Max = true
	op := &Op{Name: fmt.Sprintf("maxima of %v", from)}
	values, counts := op.arg(x, true), a.lengths(op)
	y, index := op.result(to...), op.saveInts(to.TotalSize())
	op.Make = func(c *Call) {
		k := reduce(c, args, counts, c.In[values], c.Out[y])
		k.Index = c.Saved[index]
		Do(c, k)
	}
	op.Grad = func(in []*Node, yNode, dyNode *Node) []*Node {
		bw := op.backward() // needs no values
		dy, dx, lengths := bw.arg(dyNode, false), bw.gradient(values), -1
		bw.arg(yNode, false) // so that the positions are there
		if counts >= 0 {
			lengths = bw.arg(in[counts], false)
		}
		bw.Make = func(c *Call) {
			k := reduce(c, args, lengths, c.Out[dx], c.In[dy])
			k.Index = c.Saved[index]
			DoGrad(c, k)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// Fixed is x as a constant: nothing flows back through it.
func (g *Graph) Fixed(x *Node) *Node {
	op := &Op{Name: "fixed", Outs: []tensor.Shape{x.Shape().Clone()}, Wants: []bool{false}, Alias: true}
	return g.Apply(op, x)
}

// Softmax computes e^(factor·x) / Σ e^(factor·x) along an axis.
func (g *Graph) Softmax(x *Node, factor float64, a Axis) *Node {
	shape := x.Shape().Clone()
	x = g.Times(x, factor)
	e := g.Map(device.Exp, 0, g.Minus(x, g.Spread(g.Max(g.Fixed(x), a), a, shape...)))
	return g.Multiply(e, g.Spread(g.Map(device.Reciprocal, 0, g.Sum(e, a)), a, shape...))
}

// LogSumExp computes ln(Σ e^(factor·x)) along an axis.
func (g *Graph) LogSumExp(x *Node, factor float64, a Axis) *Node {
	shape := x.Shape().Clone()
	x = g.Times(x, factor)
	most := g.Max(g.Fixed(x), a) // a shift changes nothing, so nothing flows back through it
	sum := g.Sum(g.Map(device.Exp, 0, g.Minus(x, g.Spread(most, a, shape...))), a)
	return g.Add(g.Map(device.Log, 0, sum), most)
}

// Repeat repeats the values of x in n rows: [n, D].
func (g *Graph) Repeat(x *Node, n int) *Node {
	d := x.Shape().TotalSize()
	all := g.ConstInts(fmt.Sprintf("const.all.%d", n), []int32{int32(n)})
	return g.Spread(g.Reshape(x, 1, d), AlongSegments(all), n, d)
}

// SelfAttention lets the rows of every set attend to each other: qkv [capacity, 3D] are their queries, keys and values,
// side by side, counts [B] of them in each set; each head has D/heads columns. Rows are attended to whose entry of
// attended [B, L], int32, is not 0; nil is all. The result is [capacity, D].
func (g *Graph) SelfAttention(qkv, attended, counts *Node, heads int) *Node {
	capacity, d := Dim(qkv, 0), Dim(qkv, 1)/3
	if heads < 1 || d%heads != 0 || 3*d != Dim(qkv, 1) {
		fail("attention of %d heads over queries, keys and values of %d columns in all", heads, Dim(qkv, 1))
	}
	three, args := triple{d: d}, device.SelfAttention{Heads: heads, D: d, LD: 3 * d}
	op := &Op{Name: fmt.Sprintf("self-attention, %d heads of %d", heads, d/heads)}
	rows, lengths, ids := op.arg(qkv, true), op.arg(counts, false), -1
	if attended != nil {
		wantShape("attended rows", attended, Dim(counts, 0), -1)
		args.L, ids = Dim(attended, 1), op.arg(attended, false)
	}
	y := op.result(capacity, d)
	fill := func(c *Call) (a device.SelfAttention, n int) {
		a, n = args, total(c.Host[lengths])
		if a.Lengths = c.Ints(lengths); ids >= 0 {
			a.Words = c.Ints(ids)
		}
		a.Query, a.Key, a.Value = three.part(c.In[rows], n, 0), three.part(c.In[rows], n, 1), three.part(c.In[rows],
			n, 2)
		return a, n
	}
	op.Make = func(c *Call) {
		a, _ := fill(c)
		a.Context = c.Out[y]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx := bw.arg(dyNode, false), bw.gradient(rows)
		bw.Make = func(c *Call) {
			a, n := fill(c)
			a.DContext, a.DQuery = c.In[dy], three.part(c.Out[dx], n, 0)
			a.DKey, a.DValue = three.part(c.Out[dx], n, 1), three.part(c.Out[dx], n, 2)
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// PickRows takes rows of x [capacity, D] by their numbers, positions [B, L] int32, of which row b holds counts_b:
// [B·L, D], the rows of item 0 first. counts [B] are between 1 and L.
func (g *Graph) PickRows(x, positions, counts *Node) *Node {
	capacity, d, b, l := Dim(x, 0), Dim(x, 1), Dim(positions, 0), Dim(positions, 1)
	wantShape("counts of rows", counts, b)
	args := device.Embed{L: l, V: capacity, P: l, K: 1, D: d}
	zeros := g.Const(fmt.Sprintf("const.zeros.%d.%d", l, d), make([]float64, l*d), l, d)
	op := &Op{Name: fmt.Sprintf("%d×%d rows of %d", b, l, d)}
	rows, numbers, lengths, nothing := op.arg(x, true), op.arg(positions, false), op.arg(counts, false), op.arg(zeros,
		false)
	y := op.result(b*l, d)
	op.Make = func(c *Call) {
		a := args
		a.Word, a.Words, a.Lengths, a.Out = c.In[rows], c.Ints(numbers), c.Ints(lengths), c.Out[y]
		a.Position, a.Type = c.In[nothing], c.In[nothing].Slice(0, d)
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward() // needs no rows
		numbers, lengths, dy := bw.arg(in[numbers], false), bw.arg(in[lengths], false), bw.arg(dyNode, false)
		dx := bw.gradient(rows)
		bw.Make = func(c *Call) {
			a := args
			a.Words, a.Lengths, a.Out, a.Word = c.Ints(numbers), c.Ints(lengths), c.In[dy], c.Out[dx]
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
