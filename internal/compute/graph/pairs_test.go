package graph_test

import "vsetrain/internal/compute/graph"

func reasonCase(first bool, name string) opCase {
	s := []int{3, 3}
	return opCase{name, [][]int{{22, 3}, s, {3}, s, {3}, s, {3}}, func(g *Graph, in []*Node) *Node {
		l := lengthsOf(g)
		return g.GraphReason(in[0], l, 2, first, graph.ReasonWeights{Query: in[1], QueryBias: in[2], Key: in[3],
			KeyBias: in[4], Out: in[5], OutBias: in[6]})
	}}
}

// similarityShapes are the shapes of the arguments of similarities.
var similarityShapes = [][]int{{2, 3, 4}, {8, 4}, {8, 6}, {2, 4}, {3, 4}, {3, 4}, {3}, {3, 4}, {3}}

func similarityInputs(in []*graph.Node, lengths *graph.Node) graph.SimilarityInputs {
	return graph.SimilarityInputs{Regions: in[0], Words: in[1], Weights: in[2], Images: in[3], Captions: in[4],
		Lengths: lengths,
		LocalW:  in[5], LocalB: in[6], GlobalW: in[7], GlobalB: in[8]}
}

func filterCase(name string) opCase {
	return opCase{name, append(similarityShapes[:9:9], []int{1, 3}, []int{1}, []int{1}, []int{1}),
		func(g *Graph, in []*Node) *Node {
			l := lengthsOf(g)
			return g.Filtrate(similarityInputs(in, l), graph.FilterWeights{Weight: in[9], Bias: in[10],
				Norm: graph.BatchNormWeights{Weight: in[11], Bias: in[12],
					Mean: g.Const("filter mean", []float64{0.2}, 1), Var: g.Const("filter var", []float64{1.4}, 1)}})
		}}
}

func attentionCase(overWords bool, name string) opCase {
	return opCase{name, [][]int{{2, 3, 4}, {8, 4}}, func(g *Graph, in []*Node) *Node {
		return g.PairAttention(in[0], in[1], lengthsOf(g), graph.PairAttentionOptions{Lambda: 4, OverWords: overWords})
	}}
}

// pairCases are the ops over pairs of 2 images of 3 regions and 3 captions of 8 words.
var pairCases = []opCase{
	{"rows to captions one after the other", [][]int{{12, 3}}, func(g *Graph, in []*Node) *Node {
		return g.CaptionRows(in[0], lengthsOf(g), 8)
	}},
	{"segment means", [][]int{{8, 3}}, func(g *Graph, in []*Node) *Node { return g.SegmentMeans(in[0], lengthsOf(g)) }},
	{"gated pool", [][]int{{8, 4}, {3, 4}, {1, 4}, {1}, {8, 4}}, func(g *Graph, in []*Node) *Node {
		return g.GatedPool(in[0], in[1], in[2], in[3], in[4], lengthsOf(g))
	}},
	attentionCase(false, "attention to regions"), attentionCase(true, "attention to words"),
	{"similarities", similarityShapes, func(g *Graph, in []*Node) *Node {
		return g.Similarities(similarityInputs(in, lengthsOf(g)))
	}},
	reasonCase(false, "graph reasoning"), reasonCase(false, "graph reasoning in evaluation"),
	reasonCase(true, "graph reasoning of node 0"),
	filterCase("filtration"), filterCase("filtration in evaluation"),
}
