package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// BiGRU runs both directions of a GRU over packed x [B·L, I] with lengths [B] and returns the mean of their states for
// all words, packed: [B·L, H].
func (g *Graph) BiGRU(x, lengths *Node, forward, backward GRUWeights) *Node {
	rows, in, h := Dim(x, 0), Dim(x, 1), Dim(forward.WHH, 1)
	a := &device.BiGRU{I: in, H: h}
	k, first, second := kernelOf(g, fmt.Sprintf("bigru %d→%d", in, h), a), &a.Directions[0], &a.Directions[1]
	k.arg(x, &a.X, &a.DX)
	k.ints(lengths, &a.Lengths)
	k.gru(forward, first, in, h)
	k.gru(backward, second, in, h)
	k.keep(rows*4*h, &first.Gates, &second.Gates)
	k.keep(rows*h, &first.Prev, &second.Prev)
	k.scratch(&a.Work, rows*h, rows*(h+in))
	return k.result(&a.Y, &a.DY, false, rows, h)
}

// PoolWeights turns packed scores of positions [T, 1] or [T] into weights [B, L]: for each sequence the softmax of
// scores/temperature, 0 after its length. Every sequence has at most L = longest positions.
func (g *Graph) PoolWeights(scores, lengths *Node, longest int, temperature float64) *Node {
	a := &device.PoolWeights{L: longest, Temperature: temperature}
	k := kernelOf(g, "pool weights", a)
	k.argOnce(scores, &a.Scores, &a.DScores)
	k.ints(lengths, &a.Lengths)
	return k.result(&a.Weights, &a.DWeights, true, Dim(lengths, 0), longest)
}

// SortPool sorts each channel of the rows of every item in descending order and sums it with the weights of the item's
// length: rows [capacity, D] with lengths [B], weights [K, K] of the lengths K to 1, result [B, D]. Rows are
// concatenated, or packed.
func (g *Graph) SortPool(rows, lengths, weights *Node, packed bool) *Node {
	capacity, dim, b, n := Dim(rows, 0), Dim(rows, 1), Dim(lengths, 0), Dim(weights, 0)
	wantShape("pooling weights", weights, n, n)
	a := &device.SortPool{D: dim, K: n, Packed: packed}
	k := kernelOf(g, "sort pool", a)
	k.arg(rows, &a.X, &a.DX)
	k.ints(lengths, &a.Lengths)
	k.arg(weights, &a.Weights, &a.DWeights)
	k.keepInts(capacity*dim, &a.Ranks)
	return k.result(&a.Y, &a.DY, false, b, dim)
}
