package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// Tiles runs build on one tile after the other. A tile has some rows of the split values, [B, …] each, and all of the
// whole values; the results [n, …] of the tiles are concatenated to [B, …]. The values inside a tile are dropped after
// the tile, and the backward pass recomputes them (gradient checkpointing). So a network of pairs is written for a few
// images and all captions, and needs the memory of one tile. width is the most numbers that a value of a tile has per
// row. The device chooses the rows of a tile (device.Tiler), or they are as many as fit in the cache of a processor.
//
// build gets an empty graph, with inputs for its arguments. It must not use other values or parameters: pass parameters
// as whole values. int32 values, such as lengths, are always whole.
func (g *Graph) Tiles(width int, split, whole []*Node, build func(g *Graph, split, whole []*Node) *Node) *Node {
	return g.tiles(tilesOf(width, split, whole, build), append(slices.Clone(split), whole...))
}

// CrossScores scores images, regions [B, R·E] and optionally a mask [B, R], with captions, words [capacity, E] and
// lengths [C]: [B, C]. A device that has the kernel computes a if same is set, which says that a and build are
// equivalent. Otherwise build runs in tiles of images.
func (g *Graph) CrossScores(a device.CrossScores, same bool, images []*Node, words, lengths *Node,
	build func(g *Graph, split, whole []*Node) *Node) *Node {
	a.B, a.E = Dim(images[0], 0), Dim(words, 1)
	whole := []*Node{words, lengths}
	t := tilesOf(Dim(words, 0)*a.R, images, whole, build)
	if same {
		t.cross = &a
	}
	return g.tiles(t, append(slices.Clone(images), whole...))
}

// tilesOf are tiles of rows of split, of a width.
func tilesOf(width int, split, whole []*Node, build func(g *Graph, split, whole []*Node) *Node) *tiles {
	if len(split) == 0 {
		fail("tiles of no values")
	}
	n := len(split)
	t := &tiles{rows: Dim(split[0], 0), width: width, split: n, lengths: -1, build: func(g *Graph, x []*Node) *Node {
		return build(g, x[:n:n], x[n:])
	}}
	for k, x := range append(slices.Clone(split), whole...) {
		by := shareWhole
		if k < n {
			by = shareRows
			if rows := Dim(x, 0); rows != t.rows {
				fail("%d and %d rows of values that are split together", t.rows, rows)
			}
		}
		t.args = append(t.args, argOf(by, k, x))
	}
	return t
}

// tiles adds the op of tiles with their arguments.
func (g *Graph) tiles(t *tiles, args []*Node) *Node {
	t.from = g
	op := &Op{Name: fmt.Sprintf("tiles of %d", t.rows), Collective: t.lengths >= 0}
	for _, a := range t.args {
		op.NeedsGrad = append(op.NeedsGrad, !a.ints)
	}
	_, out := t.graph(t.rows, 0, false)
	shape := out.Shape().Clone()
	if shape[0] != t.rows {
		fail("a tile of %d rows gives %v", t.rows, shape)
	}
	t.out = shape.TotalSize() / t.rows
	op.Outs = []tensor.Shape{shape}
	op.Nested = func(s *Instance, _ []bool) (*nested, error) { return t.forward(s) }
	if t.cross != nil {
		op.Make = func(c *Call) {
			a := t.kernel(c)
			a.Scores = c.Out[0]
			Do(c, a)
		}
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Collective: op.Collective}
		for _, a := range t.args {
			if !a.ints {
				bw.Outs = append(bw.Outs, a.shape.Clone())
			}
		}
		bw.Nested = func(s *Instance, read []bool) (*nested, error) { return t.backward(s, read) }
		if t.cross != nil {
			bw.Make = func(c *Call) {
				a := t.kernel(c)
				a.DScores, a.DRegions, a.DWords = c.In[len(c.In)-1], c.Out[0], c.Out[t.split]
				DoGrad(c, a)
				for _, mask := range c.Out[1:t.split] {
					if mask.Present() {
						Do(c, device.Fill{Dst: mask})
					}
				}
			}
		}
		grads := g.ApplyMulti(bw, append(slices.Clone(in), dy)...)
		out := make([]*Node, len(in))
		for k, a := range t.args {
			if !a.ints {
				out[k], grads = grads[0], grads[1:]
			}
		}
		return out
	}
	return g.Apply(op, args...)
}

// share is what a tile is given of an argument.
type share int

const (
	shareWhole  share = iota // all
	shareRows                // the rows of the tile
	shareWords               // the rows of the words of its captions
	shareStarts              // one value for each row, and the one behind them
	shareParam               // nothing: it is a parameter
)

// tileArg is an argument; by its name it is an input of the graph of a tile, or a parameter.
type tileArg struct {
	share
	shape tensor.Shape
	ints  bool
	name  string
}

func argOf(by share, k int, x *Node) tileArg {
	name := "in.tile.%d"
	if by == shareWords { // it has memory of its own, see bind
		name = "in.tile.words.%d"
	}
	return tileArg{by, x.Shape().Clone(), x.Dtype() == tensor.Int32, fmt.Sprintf(name, k)}
}

func (a *tileArg) width() int { return a.shape.TotalSize() / a.shape[0] }

// tiles is an op that runs a graph of its own for every tile.
type tiles struct {
	from        *Graph
	rows, width int
	most        int // rows of a tile; 0 leaves them to the device
	out         int // values of a row of the result
	args        []tileArg
	split       int // of the arguments of CrossScores, those of images
	lengths     int // the argument that is the lengths of the captions which are the rows, -1 without
	build       func(g *Graph, args []*Node) *Node
	cross       *device.CrossScores // what is computed, as a kernel; nil where there is none
}

// kernel is the kernel of CrossScores with the arguments of a call.
func (t *tiles) kernel(c *Call) device.CrossScores {
	a := *t.cross
	a.Regions, a.Words, a.Lengths = c.In[0], c.In[t.split], c.Ints(t.split+1)
	if t.split > 1 {
		a.Mask = c.In[1]
	}
	return a
}

// native reports whether a device computes all as one kernel.
func (t *tiles) native(d device.Device) bool {
	_, ok := device.As[device.CrossScorer](d)
	return ok && t.cross != nil
}

const tileGradient = "in.tile.gradient"

// graph builds the graph of a tile of n rows with the capacity for so many words, 0 for those of all captions; with
// back it is computed once more, for its gradient. sub holds its inputs.
func (t *tiles) graph(n, words int, back bool) (sub *Graph, out *Node) {
	sub = &Graph{Training: t.from.Training, Seed: t.from.Seed, Again: back, expr: G.NewGraph(), dtype: t.from.dtype,
		leaves: map[string]*leaf{}}
	if back && t.lengths >= 0 {
		sub.wanted = sub.SwapAxes(sub.Input(tileGradient, n, t.out))
	}
	var args []*Node
	for _, a := range t.args {
		s := a.shape.Clone()
		switch a.share {
		case shareParam:
			continue
		case shareRows:
			s[0] = n
		case shareStarts:
			s[0] = n + 1
		case shareWords:
			s[0] = cmp.Or(words, s[0])
		}
		if a.ints {
			args = append(args, sub.InputInts(a.name, s...))
		} else {
			args = append(args, sub.Input(a.name, s...))
		}
	}
	given := slices.Collect(maps.Keys(sub.leaves))
	out = t.build(sub, args)
	for name, l := range sub.leaves {
		switch {
		case l.param && t.lengths < 0:
			fail("a tile uses the parameter %s: pass it as a whole value", name)
		case !l.param && l.ints == nil && l.floats == nil && !slices.Contains(given, name):
			fail("a tile uses the input %s, which is no argument of it", name)
		}
	}
	return sub, out
}
