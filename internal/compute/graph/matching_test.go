package graph_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/try"
)

func polarParams(in []*graph.Node) graph.PolarParams {
	return graph.PolarParams{MeanRho: in[0], MeanTheta: in[1], PrecisionRho: in[2], PrecisionTheta: in[3]}
}

var positions = []float64{0, 0.1, 0.3, 0.5, 0.2, 0.2, 0.9, 0.8, 0.5, 0.6, 0.7, 0.9, 0.1, 0.1, 0.2, 0.4, 0.1, 0.1, 0.2,
	0.4, 0.6, 0, 1, 0.3}

func polarCase(name string, sum bool) opCase {
	return opCase{name, [][]int{{4, 1}, {4, 1}, {4, 1}, {4, 1}}, func(g *Graph, in []*Node) *Node {
		return g.PolarWeights(g.Const("places", positions, 2, 12), 3, sum, polarParams(in))
	}}
}

// matchingCases are of two images of three regions, and of the captions of "lengths", without capacity to spare.
var matchingCases = []opCase{
	{"match", [][]int{{2, 3, 8}, {8, 8}}, func(g *Graph, in []*Node) *Node {
		return g.CrossMatch(in[0], in[1], lengthsOf(g), 3, 4)
	}},
	{"linear of nodes", [][]int{{16, 3}, {5, 3}, {5}}, func(g *Graph, in []*Node) *Node {
		return g.LinearNodes(2, lengthsOf(g), in[0], in[1], in[2])
	}},
	polarCase("polar kernels", false), polarCase("sums of polar kernels", true),
	{"scaled blocks", [][]int{{12, 10}, {2, 10}}, func(g *Graph, in []*Node) *Node {
		return g.ScaleBlocks(in[0], in[1], 2, 3, 10, 2)
	}},
	{"nodes mixed by captions", [][]int{{16, 6}, {26}}, func(g *Graph, in []*Node) *Node {
		return g.MixNodes(in[0], in[1], lengthsOf(g), 2, 1, false)
	}},
	{"nodes mixed by images", [][]int{{12, 6}, {2, 18}}, func(g *Graph, in []*Node) *Node {
		return g.MixNodes(in[0], in[1], g.ConstInts("threes and none", []int32{3, 3}), 2, 2, true)
	}},
	{"sparse word graph", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node {
		w := g.WordGraph(in[0], lengthsOf(g), g.ConstInts("edges", []int32{0, 2, 2, 3, 1, 2}),
			g.ConstInts("starts", []int32{0, 2, 3, 3}), 0.7)
		return g.MixNodes(g.Const("x", random("x", 16), 16, 1), w, lengthsOf(g), 2, 1, false)
	}},
	{"dense word graph", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node {
		return g.MixNodes(g.Const("x", random("x", 16), 16, 1), g.WordGraph(in[0], lengthsOf(g), nil, nil, 0.7),
			lengthsOf(g), 2, 1, false)
	}},
	{"means of nodes", [][]int{{16, 5}}, func(g *Graph, in []*Node) *Node {
		return g.MeanNodes(in[0], lengthsOf(g), 2)
	}},
	{"stack", [][]int{{1, 3}, {2, 3}}, func(g *Graph, in []*Node) *Node { return g.Concat(in...) }},
}

// A match with one image, one caption or one word is the same numbers as in a batch.
func TestMatchOfOnePair(t *testing.T) {
	s := newSession(t, cpu.FP64, 2)
	regions, words := random("regions", 2*3*8), random("match words", 8*8)
	lengths := []int32{4, 3, 1}
	score := func(images, captions []int) [][]float64 {
		g := s.Graph()
		var v, w []float64
		var l []int32
		for _, i := range images {
			v = append(v, regions[i*24:(i+1)*24]...)
		}
		first := []int{0, 4, 7, 8}
		for _, c := range captions {
			w, l = append(w, words[first[c]*8:first[c+1]*8]...), append(l, lengths[c])
		}
		n := g.CrossMatch(g.Input("v", len(images), 3, 8), g.Input("w", len(w)/8, 8), g.InputInts("l", len(l)), 3, 4)
		prog := try.Get(graph.Compile(s, g, []*graph.Node{n}, nil))(t)
		try.Do(t, s.FeedDoubles("v", v))
		try.Do(t, s.FeedDoubles("w", w))
		try.Do(t, s.FeedInts("l", l))
		try.Do(t, prog.RunAll())
		out := prog.Doubles(n)
		var pairs [][]float64 // nodes of each pair
		word := len(images) * len(captions) * 3 * 4
		for i := range images {
			at := 0
			for c := range captions {
				node := append([]float64(nil), out[(i*len(captions)+c)*12:][:12]...)
				k := int(l[c]) * 4
				pairs = append(pairs, append(node, out[word+i*len(w)/8*4+at:][:k]...))
				at += k
			}
		}
		return pairs
	}
	all := score([]int{0, 1}, []int{0, 1, 2})
	for i := range 2 {
		for c := range 3 {
			one := score([]int{i}, []int{c})[0]
			for k, v := range one {
				if math.Abs(v-all[i*3+c][k]) > 1e-12 || math.IsNaN(v) {
					t.Fatalf("image %d with caption %d: node value %d is %v alone and %v in a batch", i, c, k, v,
						all[i*3+c][k])
				}
			}
		}
	}
}
