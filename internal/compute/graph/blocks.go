package graph

import (
	"maps"
	"slices"
)

// Captions are the values of CaptionBlocks that depend only on the captions.
type Captions struct {
	Lengths          *Node   // int32 [C], in descending order
	Words            []*Node // each [capacity, …], a row per word, one caption after the other
	Values           []*Node // each [C, …]
	Edges, EdgeStart *Node   // int32, of WordGraph; nil without
}

// CaptionBlocks scores images, values that all blocks read, with captions: [B, C]. build computes at most n captions at
// a time (gradient checkpointing): its values are dropped after each block, and the backward pass recomputes them. It
// does not update running statistics again, and kernels may skip pairs without gradient. In contrast to Tiles, build
// may use parameters.
func (g *Graph) CaptionBlocks(n int, images []*Node, c Captions,
	build func(g *Graph, images []*Node, c Captions) *Node) *Node {
	t := &tiles{rows: Dim(c.Lengths, 0), most: n, lengths: len(images)}
	var args []*Node
	add := func(by share, x ...*Node) {
		for _, x := range x {
			if x != nil {
				t.args, args = append(t.args, argOf(by, len(args), x)), append(args, x)
			}
		}
	}
	add(shareWhole, images...)
	add(shareRows, c.Lengths)
	add(shareWhole, c.Edges)
	add(shareStarts, c.EdgeStart)
	add(shareWords, c.Words...)
	add(shareRows, c.Values...)
	t.build = func(g *Graph, x []*Node) *Node {
		next := func(n int) (some []*Node) {
			some, x = x[:n:n], x[n:]
			return some
		}
		images, own := next(len(images)), Captions{Lengths: next(1)[0]}
		if c.Edges != nil {
			own.Edges, own.EdgeStart = next(1)[0], next(1)[0]
		}
		own.Words, own.Values = next(len(c.Words)), next(len(c.Values))
		return g.SwapAxes(build(g, images, own))
	}
	t.from = g
	sub, _ := t.graph(t.rows, 0, false)
	for _, name := range slices.Sorted(maps.Keys(sub.leaves)) {
		if l := sub.leaves[name]; l.param {
			x := g.Param(name, l.shape...)
			t.args, args = append(t.args, tileArg{share: shareParam, shape: l.shape, name: name}), append(args, x)
		}
	}
	return g.SwapAxes(g.tiles(t, args))
}
