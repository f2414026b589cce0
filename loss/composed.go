package loss

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// fromCosts makes a loss from the costs of the anchors, which are written in operations of the graph, so that Gorgonia
// differentiates them. rows [N] holds the cost of image i, columns [N] the cost of caption j; the loss is the sum of
// all. The hard negatives are the hard negatives of LMH with this margin, for the diagnosis of a training.
func fromCosts(g *graph.Graph, name string, margin float64, scores, rows, columns *graph.Node) *graph.Node {
	n := graph.Dim(scores, 0)
	const argRows, argColumns = 1, 2 // besides argScores
	op := lossOp(g, name, n, func(c *graph.Call, out device.LossOut) {
		graph.Do(c, device.Hinge{N: n, Scores: c.In[argScores], Margin: margin, Max: true, LossOut: out})
		sum, row, column := out.Loss.Slice(0, 1), out.Loss.Slice(1, 2), out.Loss.Slice(2, 3)
		graph.Do(c, device.Reduce{N: 1, D: n, X: c.In[argRows], Y: row})
		graph.Do(c, device.Reduce{N: 1, D: n, X: c.In[argColumns], Y: column})
		graph.Do(c, device.Combine{Dst: sum, A: row, B: column, Alpha: 1, Beta: 1})
	})
	op.NeedsGrad = []bool{false, true, true}
	op.Grad = func(_ []*graph.Node, _, dloss *graph.Node) []*graph.Node {
		each := g.Broadcast(g.Reshape(dloss, 1), graph.AlongRows(n), n)
		return []*graph.Node{nil, each, each}
	}
	return g.Apply(op, scores, rows, columns)
}

// sumOrMax returns the sum or the largest value of each row of costs [n, n]: [n].
func sumOrMax(g *graph.Graph, costs *graph.Node, sum bool) *graph.Node {
	rows := graph.AlongRows(graph.Dim(costs, 0))
	if sum {
		return g.Sum(costs, rows)
	}
	return g.Max(costs, rows)
}

// matches returns the scores of the matching pairs, the diagonal of scores [N, N]: [N].
func matches(g *graph.Graph, scores *graph.Node) *graph.Node {
	n := graph.Dim(scores, 0)
	identity := make([]float64, n*n)
	for i := range n {
		identity[i*n+i] = 1
	}
	return g.Sum(g.Multiply(scores, g.Const(fmt.Sprintf("const.identity.%d", n), identity, n, n)), graph.AlongRows(n))
}

// others returns [n, n] with 0 on the diagonal and 1 elsewhere.
func others(g *graph.Graph, n int) *graph.Node {
	values := make([]float64, n*n)
	for i := range values {
		if i%(n+1) != 0 {
			values[i] = 1
		}
	}
	return g.Const(fmt.Sprintf("const.others.%d", n), values, n, n)
}

// filled returns a constant of a shape with one value.
func filled(g *graph.Graph, value float64, shape ...int) *graph.Node {
	values := slices.Repeat([]float64{value}, graph.Shape(shape).TotalSize())
	return g.Const(fmt.Sprintf("const.filled.%v.%v", value, shape), values, shape...)
}

// violations returns [margin + S_ij - match_i]+ off the diagonal of scores S [n, n], and 0 on it.
func violations(g *graph.Graph, scores, match *graph.Node, margin float64) *graph.Node {
	n := graph.Dim(scores, 0)
	above := g.Minus(scores, g.Broadcast(g.Minus(match, filled(g, margin, n)), graph.AlongRows(n), n, n))
	return g.Multiply(hinged(g, above), others(g, n))
}

// hinged returns [x]+ with slope 1 at 0, as in the losses of the references.
func hinged(g *graph.Graph, x *graph.Node) *graph.Node { return g.Multiply(x, notNegative(g, x)) }

// notNegative returns 1 where x ≥ 0 and 0 elsewhere, without a gradient.
func notNegative(g *graph.Graph, x *graph.Node) *graph.Node {
	n := x.Shape().TotalSize()
	op := &graph.Op{Name: "not negative", Outs: []graph.Shape{x.Shape().Clone()}, Temp: []int{n, n},
		NeedsGrad: []bool{false}}
	op.Make = func(c *graph.Call) {
		y, ones, below := c.Out[0], c.Temp[0], c.Temp[1]
		graph.Do(c, device.Fill{Dst: ones, Value: 1})
		graph.Do(c, device.Combine{Dst: y, A: c.In[0], Alpha: -1})
		graph.DoGrad(c, device.Activate{F: device.ReLU, DX: below, X: y, DY: ones}) // 1 where x < 0
		graph.Do(c, device.Combine{Dst: y, A: ones, B: below, Alpha: 1, Beta: -1})
	}
	return g.Apply(op, x)
}

// cosines returns the cosines of the semantic vectors of the captions of a batch, [N, N], without a gradient.
func cosines(g *graph.Graph, loss string, c Context) *graph.Node {
	if c.Semantics == nil {
		graph.Failf("loss %s needs the semantic vectors of the batch", loss)
	}
	unit := g.L2Norm(g.StopGradient(c.Semantics), 1, 0)
	return g.StopGradient(g.MatMulT(unit, unit, true))
}

// repeated broadcasts a scalar x [1] to the shape of another value.
func repeated(g *graph.Graph, x, like *graph.Node) *graph.Node {
	shape := like.Shape()
	return g.Broadcast(x, graph.AlongRows(shape.TotalSize()), shape...)
}

// different returns 1 where the images of two pairs differ, and 0 elsewhere: [n, n].
func different(g *graph.Graph, c Context, n int) *graph.Node {
	if c.Images == nil || c.Captions == nil {
		graph.Failf("the loss needs the image identities of the batch")
	}
	op := &graph.Op{Name: "different images", Outs: []graph.Shape{{n, n}}, Temp: []int{n * n},
		NeedsGrad: []bool{false, false}}
	op.Make = func(c *graph.Call) {
		graph.Do(c, device.Fill{Dst: c.Temp[0]})
		graph.Do(c, device.SemanticMargins{N: n, Gram: c.Temp[0], Images: c.In[0], Captions: c.In[1], Alpha: 1,
			ZeroSameImage: true, Margins: c.Out[0]})
	}
	return g.Apply(op, c.Images, c.Captions)
}

// above returns 1 where x > 0 and 0 elsewhere, without a gradient.
func above(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Minus(filled(g, 1, x.Shape()...), notNegative(g, g.Scale(g.StopGradient(x), -1)))
}

// largest returns 1 at the first largest value of each row of x [n, d] and 0 elsewhere, without a gradient.
func largest(g *graph.Graph, x *graph.Node) *graph.Node {
	n, d := graph.Dim(x, 0), graph.Dim(x, 1)
	op := &graph.Op{Name: "first of the largest", Outs: []graph.Shape{{n, d}}, Temp: []int{n},
		Saved: []graph.SavedTensor{{DType: device.Int32, N: n}}, NeedsGrad: []bool{false}}
	op.Make = func(c *graph.Call) {
		k := device.Reduce{Max: true, N: n, D: d, X: c.In[0], Y: c.Temp[0], Index: c.Saved[0]}
		graph.Do(c, k)
		graph.Do(c, device.Fill{Dst: c.Temp[0], Value: 1})
		k.X = c.Out[0]
		graph.DoGrad(c, k)
	}
	return g.Apply(op, x)
}

// chosen returns the values of v [n] that one-hot rows select: [n].
func chosen(g *graph.Graph, rows, v *graph.Node) *graph.Node {
	n := graph.Dim(rows, 0)
	return g.Sum(g.Multiply(rows, g.Repeat(v, n)), graph.AlongRows(n))
}

// shares are the probabilities p_ij = e^(S_ij/τ) / (Σ_k e^(S_ik/τ) + ε) of each row of scores, with ε = 1e-10. The
// largest exponent of each row is subtracted first.
type shares struct {
	p, rest *graph.Node // [n, n] p and 1 - p; the latter is the sum of the others, which is accurate near p = 1
	log     *graph.Node // [n] ln p_ii
}

func sharesOf(g *graph.Graph, scores *graph.Node, temperature float64) shares {
	const epsilon = 1e-10
	n := graph.Dim(scores, 0)
	rows := graph.AlongRows(n)
	z := g.Scale(scores, 1/temperature)
	most := g.Max(g.StopGradient(z), rows) // a shift does not change the shares, so it needs no gradient
	z = g.Minus(z, g.Broadcast(most, rows, n, n))
	e := g.Map(device.Exp, 0, z)
	small := g.Scale(g.Map(device.Exp, 0, g.Scale(most, -1)), epsilon)
	sum := g.Add(g.Sum(e, rows), small)
	part := g.Broadcast(g.Map(device.Reciprocal, 0, sum), rows, n, n)
	remains := g.Add(g.MatMulT(e, others(g, n), true), g.Broadcast(small, rows, n, n))
	return shares{p: g.Multiply(e, part), rest: g.Multiply(remains, part),
		log: g.Minus(matches(g, z), g.Map(device.Log, 0, sum))}
}
