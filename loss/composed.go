package loss

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// fromCosts makes a loss of what each anchor costs, written in the operations of the graph, which Gorgonia
// differentiates: rows [N] holds what image i costs, columns [N] what caption j costs, and the loss is the sum of both.
// Hard negatives are not of the loss: they are those of LMH with this margin, for the diagnosis of a training.
func fromCosts(g *graph.Graph, name string, margin float64, scores, rows, columns *graph.Node) *graph.Node {
	n := graph.Dim(scores, 0)
	const argRows, argColumns = 1, 2 // beside argScores
	op := lossOp(g, name, n, func(c *graph.Call, out device.LossOut) {
		graph.Do(c, device.Hinge{N: n, Scores: c.In[argScores], Margin: margin, Max: true, LossOut: out})
		sum, row, column := out.Loss.Slice(0, 1), out.Loss.Slice(1, 2), out.Loss.Slice(2, 3)
		graph.Do(c, device.Reduce{N: 1, D: n, X: c.In[argRows], Y: row})
		graph.Do(c, device.Reduce{N: 1, D: n, X: c.In[argColumns], Y: column})
		graph.Do(c, device.Combine{Dst: sum, A: row, B: column, Alpha: 1, Beta: 1})
	})
	op.Wants = []bool{false, true, true}
	op.Grad = func(_ []*graph.Node, _, dloss *graph.Node) []*graph.Node {
		each := g.Spread(g.Reshape(dloss, 1), graph.AlongRows(n), n)
		return []*graph.Node{nil, each, each}
	}
	return g.Apply(op, scores, rows, columns)
}

// matches are the scores of the matching pairs, the diagonal of scores [N, N]: [N].
func matches(g *graph.Graph, scores *graph.Node) *graph.Node {
	n := graph.Dim(scores, 0)
	identity := make([]float64, n*n)
	for i := range n {
		identity[i*n+i] = 1
	}
	return g.Sum(g.Multiply(scores, g.Const(fmt.Sprintf("const.identity.%d", n), identity, n, n)), graph.AlongRows(n))
}
