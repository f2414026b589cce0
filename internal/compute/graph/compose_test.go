package graph_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/try"
)

// alongSegments is the axis of the words of three captions.
func alongSegments(g *graph.Graph) graph.Axis {
	return graph.AlongSegments(lengthsOf(g))
}

// positive values of any sign's argument, so that roots and logarithms exist.
func positive(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Add(g.Multiply(x, x), g.Map(device.Exp, 0, x))
}

func mapped(f device.Function, c float64) func(g *Graph, in []*Node) *Node {
	return func(g *Graph, in []*Node) *Node { return g.Map(f, c, positive(g, in[0])) }
}

// composeCases are the ops from which networks are composed, on the words of three captions, 8 in all.
var composeCases = []opCase{
	{"multiply", [][]int{{3, 4}, {3, 4}}, func(g *Graph, in []*Node) *Node { return g.Multiply(in[0], in[1]) }},
	{"square", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Multiply(in[0], in[0]) }},
	{"minus", [][]int{{3, 4}, {3, 4}}, func(g *Graph, in []*Node) *Node { return g.Minus(in[0], g.Scale(in[1], 3)) }},
	{"leaky", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Map(device.LeakyReLU, 0.1, in[0]) }},
	{"tangent", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node {
		return graph.Tan(g, g.Activate(device.Tanh, in[0]))
	}},
	{"log", [][]int{{3, 4}}, mapped(device.Log, 0)}, {"sqrt", [][]int{{3, 4}}, mapped(device.Sqrt, 0)},
	{"reciprocal", [][]int{{3, 4}}, mapped(device.Reciprocal, 0.5)}, {"inverse", [][]int{{3, 4}},
		mapped(device.Inverse, 1)},
	{"sum along rows", [][]int{{4, 6}}, func(g *Graph, in []*Node) *Node { return g.Sum(in[0], graph.AlongRows(3)) }},
	{"sum along segments", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node { return g.Sum(in[0], alongSegments(g)) }},
	{"spread along rows", [][]int{{8}}, func(g *Graph, in []*Node) *Node {
		return g.Broadcast(in[0], graph.AlongRows(3), 4, 6)
	}},
	{"spread along segments", [][]int{{3, 2}}, func(g *Graph, in []*Node) *Node {
		return g.Broadcast(in[0], alongSegments(g), 8, 2)
	}},
	{"max along rows", [][]int{{4, 6}}, func(g *Graph, in []*Node) *Node { return g.Max(in[0], graph.AlongRows(3)) }},
	{"max along segments", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node { return g.Max(in[0], alongSegments(g)) }},
	{"softmax along rows", [][]int{{4, 6}}, func(g *Graph, in []*Node) *Node {
		return g.Softmax(in[0], 2, graph.AlongRows(3))
	}},
	{"softmax along segments", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node {
		return g.Softmax(in[0], 2, alongSegments(g))
	}},
	{"log of summed exponentials along rows", [][]int{{4, 6}}, func(g *Graph, in []*Node) *Node {
		return g.LogSumExp(in[0], 2, graph.AlongRows(3))
	}},
	{"log of summed exponentials along segments", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node {
		return g.LogSumExp(in[0], 2, alongSegments(g))
	}},
	{"group products", [][]int{{8, 6}, {2, 3, 3}}, func(g *Graph, in []*Node) *Node {
		return g.GroupProducts(in[0], in[1], lengthsOf(g))
	}},
	{"Gram matrices", [][]int{{2, 3, 4}}, func(g *Graph, in []*Node) *Node { return g.Grams(in[0]) }},
	{"products of segments by their Gram matrices", [][]int{{8, 3}, {8, 2}},
		func(g *Graph, in []*Node) *Node {
			return g.SegmentMix(g.SegmentGrams(in[0], lengthsOf(g), 4), in[1], lengthsOf(g))
		}},
	{"repeat", [][]int{{2, 3}}, func(g *Graph, in []*Node) *Node { return g.Repeat(in[0], 4) }},
	{"rows of self-attention", [][]int{{12, 12}}, func(g *Graph, in []*Node) *Node {
		return g.SelfAttention(in[0], nil, lengthsOf(g), 2)
	}},
	{"rows of masked self-attention", [][]int{{12, 12}}, func(g *Graph, in []*Node) *Node {
		return g.SelfAttention(in[0], g.InputInts("padded words", 3, 4), lengthsOf(g), 2)
	}},
	{"rows by number", [][]int{{6, 3}}, func(g *Graph, in []*Node) *Node {
		w, l := wordsOf(g), lengthsOf(g)
		return g.SelectRows(in[0], w, l)
	}},
	{"tiles", [][]int{{5, 3}, {8, 3}}, func(g *Graph, in []*Node) *Node { return tiles(g, in, lengthsOf(g), 2) }},
	{"whole tiles", [][]int{{5, 3}, {8, 3}}, func(g *Graph, in []*Node) *Node { return tiles(g, in, lengthsOf(g), 5) }},
}

// ofRows is the width of rows of which n stay in the cache of a processor, of 512 Ki values.
func ofRows(n int) int { return 1 << 19 / n }

// tiles scores images with the words of captions, the two values of in, n images at a time.
func tiles(g *Graph, in []*Node, lengths *Node, n int) *Node {
	score := func(g *Graph, images, all []*Node) *Node {
		s := g.LinearRows(all[1], graph.LinearTerm{X: all[0], W: images[0]})
		return g.SwapAxes(g.LogSumExp(g.Multiply(s, s), 1, graph.AlongSegments(all[1])))
	}
	return g.Tiles(ofRows(n), in[:1], []*Node{in[1], lengths}, score)
}

// Tiles of any size give the same values and gradients, whichever gradients are read, and a gradient of a value that
// all tiles read is their sum.
func TestTilesChangeNothing(t *testing.T) {
	var want [][]float64
	for _, n := range []int{5, 1, 2, 3, 9} {
		for _, read := range [][]int{{0, 1}, {0}, {1}} {
			s := newSession(t, cpu.FP64, 2)
			g := s.Graph()
			in := []*graph.Node{g.Input("x0", 5, 3), g.Input("x1", 8, 3)}
			out := tiles(g, in, lengthsOf(g), n)
			cost := g.WeightedSum(out, g.Input("w", 5, 3))
			var wrt []*graph.Node
			for _, k := range read {
				wrt = append(wrt, in[k])
			}
			grads := try.Get(g.Gradients(cost, wrt...))(t)
			prog := try.Get(graph.Compile(s, g, append([]*graph.Node{out}, grads...), nil))(t)
			for name, size := range map[string]int{"x0": 15, "x1": 24, "w": 15} {
				try.Do(t, s.FeedDoubles(name, random(name, size)))
			}
			try.Do(t, s.FeedInts("lengths", lengths))
			for range 2 { // a second run must not add to the first
				try.Do(t, prog.RunAll())
			}
			got := make([][]float64, 3)
			got[0] = prog.Doubles(out)
			for i, k := range read {
				got[1+k] = prog.Doubles(grads[i])
			}
			if want == nil {
				want = got
				continue
			}
			for k := range want {
				for i, v := range got[k] {
					if math.Abs(v-want[k][i]) > 1e-12*(1+math.Abs(want[k][i])) {
						t.Fatalf("tiles of %d, gradients %v: value %d of result %d is %v, expected %v", n, read, i,
							k, v, want[k][i])
					}
				}
			}
			if allocs := testing.AllocsPerRun(10, func() { try.Do(t, prog.RunAll()) }); allocs != 0 {
				t.Errorf("tiles of %d: %v allocations a run, expected 0", n, allocs)
			}
		}
	}
}

// What a tile keeps is memory for one tile.
func TestTilesBoundMemory(t *testing.T) {
	bytes := func(n int) int64 {
		s := newSession(t, cpu.FP32, 1)
		g := s.Graph()
		images, words := g.Input("images", 64, 8), g.Input("words", 400, 8)
		out := tiles(g, []*Node{images, words}, g.InputInts("lengths", 40), n)
		cost := g.WeightedSum(out, g.Input("w", 64, 40))
		grads := try.Get(g.Gradients(cost, images, words))(t)
		try.Get(graph.Compile(s, g, append([]*graph.Node{cost}, grads...), nil))(t)
		return s.SlabBytes()
	}
	if whole, tiled := bytes(64), bytes(4); tiled*5 > whole {
		t.Errorf("tiles of 4 of 64 images take %d bytes, all at once %d; expected less than a fifth", tiled, whole)
	}
}
