package graph_test

import "vsetrain/internal/compute/graph"

// The layers of a BERT encoder at width 3, 4 or 2 with one or two heads; of 12 rows the first 8 are there. The words of
// graph_test.go have no 0 among those that count, save in the case of padding.
var transformerCases = []opCase{
	{"rows of embed", [][]int{{6, 2}, {4, 2}, {2, 2}}, func(g *Graph, in []*Node) *Node {
		w, l := wordsOf(g), lengthsOf(g)
		return g.BertEmbeddings(w, l, in[0], in[1], in[2])
	}},
	{"rows of layer norm", [][]int{{12, 3}, {3}, {3}}, func(g *Graph, in []*Node) *Node {
		return g.LayerNormRows(in[0], lengthsOf(g), layerNorm(in[1:]))
	}},
	{"rows of dropout", [][]int{{12, 3}}, func(g *Graph, in []*Node) *Node {
		return g.Dropout(in[0], g.RowIndices(12, graph.Concatenated, lengthsOf(g), nil), 0.4, "a")
	}},
	{"rows into first rows", [][]int{{12, 3}}, func(g *Graph, in []*Node) *Node {
		return g.FirstRows(in[0], lengthsOf(g))
	}},
	selfAttentionCase("rows of attention", 0), selfAttentionCase("rows of attention with dropout", 0.3),
	selfAttentionCase("rows of attention with dropout in evaluation", 0.3),
	perceptronCase("rows of perceptron", 0), perceptronCase("rows of perceptron with dropout", 0.3),
}

func layerNorm(in []*graph.Node) graph.LayerNormWeights {
	return graph.LayerNormWeights{Weight: in[0], Bias: in[1], Eps: 1e-2}
}

func selfAttentionCase(name string, rate float64) opCase {
	const d = 4
	square, row := []int{d, d}, []int{d}
	shapes := [][]int{{12, d}, square, row, square, row, square, row, square, row, row, row}
	return opCase{name, shapes, func(g *Graph, in []*Node) *Node {
		w, l := g.InputInts("padded words", 3, 4), g.InputInts("lengths", 3)
		return g.AttentionLayer(in[0], w, l, graph.AttentionWeights{Query: graph.LinearWeights{W: in[1], B: in[2]},
			Key:   graph.LinearWeights{W: in[3], B: in[4]},
			Value: graph.LinearWeights{W: in[5], B: in[6]}, Output: graph.LinearWeights{W: in[7], B: in[8]},
			Norm: layerNorm(in[9:]), Heads: 2}, rate, "layer")
	}}
}

func perceptronCase(name string, rate float64) opCase {
	return opCase{name, [][]int{{12, 3}, {5, 3}, {5}, {3, 5}, {3}, {3}, {3}},
		func(g *Graph, in []*Node) *Node {
			l := lengthsOf(g)
			return g.PerceptronLayer(in[0], l, graph.PerceptronWeights{Inner: graph.LinearWeights{W: in[1], B: in[2]},
				Outer: graph.LinearWeights{W: in[3], B: in[4]},
				Norm:  layerNorm(in[5:])}, rate, "layer")
		}}
}
