package graph_test

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/try"
)

func norm(g *graph.Graph, in []*graph.Node, axis int) *graph.Node {
	c := graph.Dim(in[0], axis)
	return g.BatchNorm(in[0], axis, graph.BatchNormWeights{Weight: in[1], Bias: in[2],
		Mean: g.Input(fmt.Sprintf("mean%d", c), c), Var: g.Input(fmt.Sprintf("var%d", c), c)})
}

func decoderCase(rate float64, name string) opCase { // 2 words + 3 features → 3 states, 4 of attention
	return opCase{name, [][]int{{12, 2}, {3, 2, 3}, {3, 3}, {4, 6}, {4}, {1, 4}, {9, 5}, {9, 3}, {9}, {9}},
		func(g *Graph, in []*Node) *Node {
			l := lengthsOf(g)
			numbers := g.RowIndices(12, graph.Packed, l, nil)
			return g.AttentionGRU(in[0], in[1], in[2], l, numbers, graph.DecoderWeights{Attend: in[3],
				AttendBias: in[4], Score: in[5], WIH: in[6], WHH: in[7], BIH: in[8], BHH: in[9]}, rate, "decoder")
		}}
}

// sameRows gives three layers the same rows, beside a residual connection: their gradients meet. Without a function
// after them the gradient of the connection is also the gradient of each layer.
func sameRows(function bool) func(g *Graph, in []*Node) *Node {
	return func(g *Graph, in []*Node) *Node {
		x := g.Activate(device.Tanh, in[0])
		y := g.Linear(graph.LinearTerm{X: x, W: in[1]})
		for _, w := range in[2:] {
			y = g.Add(y, g.Linear(graph.LinearTerm{X: x, W: w}))
		}
		if function {
			y = g.Activate(device.Tanh, y)
		}
		return g.Add(y, x)
	}
}

// regionCases are the ops of networks that reason over regions, in training graphs but for those named otherwise.
var regionCases = []opCase{
	{"sum", [][]int{{3, 4}, {3, 4}}, func(g *Graph, in []*Node) *Node { return g.Add(in[0], in[1]) }},
	{"sum of a value with itself", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Add(in[0], in[0]) }},
	{"layers of the same rows", [][]int{{5, 3}, {3, 3}, {3, 3}, {3, 3}}, sameRows(false)},
	{"layers of the same rows and a function", [][]int{{5, 3}, {3, 3}, {3, 3}, {3, 3}}, sameRows(true)},
	{"rows of a matrix", [][]int{{5, 3}}, func(g *Graph, in []*Node) *Node { return g.SliceRows(in[0], 1, 3) }},
	{"swap axes", [][]int{{3, 4, 2}}, func(g *Graph, in []*Node) *Node { return g.SwapAxes(in[0]) }},
	{"relate", [][]int{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, func(g *Graph, in []*Node) *Node {
		return g.Relate(in[0], in[1], in[2])
	}},
	{"batch norm and a residual connection", [][]int{{6, 3}, {3}, {3}, {6, 3}},
		func(g *Graph, in []*Node) *Node { return g.BatchNormPlus(in[0], 1, running(g, in[1:]), in[3]) }},
	{"batch norm of columns", [][]int{{6, 3}, {3}, {3}}, func(g *Graph, in []*Node) *Node { return norm(g, in, 1) }},
	{"batch norm of channels", [][]int{{3, 4, 2}, {4}, {4}},
		func(g *Graph, in []*Node) *Node { return norm(g, in, 1) }},
	{"batch norm in evaluation", [][]int{{6, 3}, {3}, {3}}, func(g *Graph, in []*Node) *Node { return norm(g, in, 1) }},
	{"dropout", [][]int{{5, 4}}, func(g *Graph, in []*Node) *Node {
		return g.Dropout(in[0], g.ItemIndices(5), 0.4, "here")
	}},
	{"dropout in evaluation", [][]int{{5, 4}}, func(g *Graph, in []*Node) *Node {
		return g.L2Norm(g.Dropout(in[0], g.ItemIndices(5), 0.4, "here"), 1, 0)
	}},
	decoderCase(0, "gru with attention states"), decoderCase(0.4, "gru with attention and dropout states"),
	{"gru states to word loss", [][]int{{12, 2}, {6, 2}, {6}}, func(g *Graph, in []*Node) *Node {
		l := lengthsOf(g)
		return g.Reshape(g.LinearCrossEntropy(in[0], in[1], in[2], g.InputInts("labels", 3, 6),
			g.InputInts("mask", 3, 6), l), 1)
	}},
}

func feedRegions(t *testing.T, s *graph.Instance) {
	t.Helper()
	try.Do(t, s.FeedInts(graph.InputStep, []int32{7, 1}))
	try.Do(t, s.FeedInts("labels", []int32{-1, 3, 1, 0, 5, -1, -1, 4, 4, 2, -1, -1, -1, 0, -1, -1, -1, -1}))
	try.Do(t, s.FeedInts("mask", []int32{-1, 1, 1, 0, 1, -1, -1, 1, 1, 1, -1, -1, -1, 1, -1, -1, -1, -1}))
	try.Do(t, s.FeedInts("padded words", []int32{3, 1, 0, 2, 5, 1, 1, 0, 2, 0, 0, 0}))
	for n := 3; n <= 4; n++ {
		variance := random("var", n)
		for i := range variance {
			variance[i] = 0.5 + math.Abs(variance[i])
		}
		try.Do(t, s.FeedDoubles(fmt.Sprintf("mean%d", n), random("mean", n)))
		try.Do(t, s.FeedDoubles(fmt.Sprintf("var%d", n), variance))
	}
}
