package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// BiGRU runs both directions of a GRU over packed x [B·L, I] with lengths [B] and returns the mean of their states for
// all words, packed: [B·L, H].
func (g *Graph) BiGRU(x, lengths *Node, forward, backward GRUWeights) *Node {
	rows, in, h := Dim(x, 0), Dim(x, 1), Dim(forward.WHH, 1)
	op := &Op{Name: fmt.Sprintf("bigru %d→%d", in, h)}
	words, counts := op.arg(x, true), op.arg(lengths, false)
	directions := [2]gruWeights{op.gru(forward, in, h), op.gru(backward, in, h)}
	y, work := op.result(rows, h), op.scratch(rows*h)
	nGates, nPrev := rows*4*h, rows*h // of a direction; those of both lie side by side
	gates, prev := op.save(2*nGates), op.save(2*nPrev)
	args := func(c *Call) device.BiGRU {
		a := device.BiGRU{I: in, H: h, X: c.In[words], Lengths: c.Ints(counts)}
		for k, w := range directions {
			a.Directions[k] = w.views(c)
			a.Directions[k].Gates = c.Saved[gates].Slice(k*nGates, (k+1)*nGates)
			a.Directions[k].Prev = c.Saved[prev].Slice(k*nPrev, (k+1)*nPrev)
		}
		return a
	}
	op.Make = func(c *Call) {
		a := args(c)
		a.Y, a.Work = c.Out[y], c.Temp[work]
		Do(c, a)
	}
	op.Grad = func(n []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(n...)
		dy, dx := bw.arg(dyNode, false), bw.gradient(words)
		d0, d1 := bw.gruGradients(directions[0]), bw.gruGradients(directions[1])
		work := bw.scratch(rows * (h + in))
		bw.Make = func(c *Call) {
			a := args(c)
			a.DY, a.DX, a.Work = c.In[dy], c.Out[dx], c.Temp[work]
			d0.set(c, &a.Directions[0])
			d1.set(c, &a.Directions[1])
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// PoolWeights turns packed scores of positions [T, 1] or [T] into weights [B, L]: for each sequence the softmax of
// scores/temperature, 0 behind its length. Every sequence has at most L = longest positions.
func (g *Graph) PoolWeights(scores, lengths *Node, longest int, temperature float64) *Node {
	op := &Op{Name: "pool weights"}
	values, counts, weights := op.arg(scores, true), op.arg(lengths, false), op.result(Dim(lengths, 0), longest)
	args := device.PoolWeights{L: longest, Temperature: temperature}
	op.Make = func(c *Call) {
		a := args
		a.Lengths, a.Scores, a.Weights = c.Ints(counts), c.In[values], c.Out[weights]
		Do(c, a)
	}
	op.Grad = func(in []*Node, weightsNode, dyNode *Node) []*Node {
		bw := op.backward() // needs no scores
		counts, weights, dWeights := bw.arg(in[counts], false), bw.arg(weightsNode, false), bw.arg(dyNode, false)
		dScores := bw.gradient(values)
		bw.Make = func(c *Call) {
			a := args
			a.Lengths, a.Weights, a.DWeights, a.DScores = c.Ints(counts), c.In[weights], c.In[dWeights], c.Out[dScores]
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// SortPool sorts each channel of the rows of every item in descending order and sums it with the weights of the item's
// length: rows [capacity, D] with lengths [B], weights [K, K] of the lengths K to 1, result [B, D]. Rows are
// concatenated, or packed.
func (g *Graph) SortPool(rows, lengths, weights *Node, packed bool) *Node {
	capacity, dim, b, k := Dim(rows, 0), Dim(rows, 1), Dim(lengths, 0), Dim(weights, 0)
	wantShape("pooling weights", weights, k, k)
	op := &Op{Name: "sort pool"}
	x, counts, w := op.arg(rows, true), op.arg(lengths, false), op.arg(weights, true)
	y, ranks := op.result(b, dim), op.saveInts(capacity*dim)
	args := func(c *Call) device.SortPool {
		return device.SortPool{D: dim, K: k, Packed: packed, X: c.In[x], Lengths: c.Ints(counts), Weights: c.In[w],
			Ranks: c.Saved[ranks]}
	}
	op.Make = func(c *Call) {
		a := args(c)
		a.Y = c.Out[y]
		Do(c, a)
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward(in...)
		dy, dx, dWeights := bw.arg(dyNode, false), bw.gradient(x), bw.gradient(w)
		bw.Make = func(c *Call) {
			a := args(c)
			a.DY, a.DX, a.DWeights = c.In[dy], c.Out[dx], c.Out[dWeights]
			DoGrad(c, a)
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
