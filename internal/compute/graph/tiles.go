package graph

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// Tiles computes build for tiles of some rows of the split values, [B, …] each, one after the other, with whole values
// that all tiles read: the results [n, …] of the tiles make one value [B, …]. What is computed inside a tile is
// forgotten when the tile is done; the backward pass computes it again. So a network of pairs is written for a few
// images and all captions, and its memory is that of one tile. The largest values of a tile hold width numbers for each
// row; a tile has as many rows as the device wants of them (device.Tiler), or as stay in the cache of a processor.
//
// build is given an empty graph and inputs of it that stand for its arguments. It may use no other value, and no
// parameter: those are passed as whole values. int32 values, such as lengths, can only be whole.
func (g *Graph) Tiles(width int, split, whole []*Node, build func(g *Graph, split, whole []*Node) *Node) *Node {
	return g.tiles(width, split, whole, nil, build)
}

// CrossScores scores images, the regions [B, R·E] and perhaps the mask [B, R], with captions, words [capacity, E] and
// lengths [C]: [B, C]. A device that has the kernel computes a, if it says the same as build; others compute build in
// tiles of images.
func (g *Graph) CrossScores(a device.CrossScores, same bool, images []*Node, words, lengths *Node,
	build func(g *Graph, split, whole []*Node) *Node) *Node {
	a.B, a.E = Dim(images[0], 0), Dim(words, 1)
	kernel := &a
	if !same {
		kernel = nil
	}
	return g.tiles(Dim(words, 0)*a.R, images, []*Node{words, lengths}, kernel, build)
}

// tiles is Tiles, or with cross CrossScores.
func (g *Graph) tiles(width int, split, whole []*Node, cross *device.CrossScores,
	build func(g *Graph, split, whole []*Node) *Node) *Node {
	if len(split) == 0 {
		fail("tiles of no values")
	}
	rows := Dim(split[0], 0)
	t := &tiles{from: g, rows: rows, width: width, split: shapesOf(split), whole: shapesOf(whole), build: build,
		cross: cross}
	for _, s := range t.split {
		if s[0] != rows {
			fail("%d and %d rows of values that are split together", rows, s[0])
		}
	}
	op := &Op{Name: fmt.Sprintf("tiles of %d", rows)}
	for k, x := range append(append([]*Node(nil), split...), whole...) {
		t.ints = append(t.ints, x.Dtype() == tensor.Int32)
		t.names = append(t.names, fmt.Sprintf("in.tile.%d", k))
		op.NeedsGrad = append(op.NeedsGrad, !t.ints[k])
	}
	_, out := t.graph(rows)
	shape := out.Shape().Clone()
	if shape[0] != rows {
		fail("a tile of %d rows gives %v", rows, shape)
	}
	t.out = shape.TotalSize() / rows
	op.Outs = []tensor.Shape{shape}
	op.Nested = func(s *Instance, _ []bool) (func(device.Device, *Call), error) { return t.forward(s) }
	if cross != nil {
		op.Make = func(c *Call) {
			a := t.kernel(c)
			a.Scores = c.Out[0]
			Do(c, a)
		}
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient"}
		for k, x := range in {
			if !t.ints[k] {
				bw.Outs = append(bw.Outs, x.Shape().Clone())
			}
		}
		bw.Nested = func(s *Instance, read []bool) (func(device.Device, *Call), error) { return t.backward(s, read) }
		if cross != nil {
			bw.Make = func(c *Call) {
				a := t.kernel(c)
				a.DScores, a.DRegions, a.DWords = c.In[len(c.In)-1], c.Out[0], c.Out[len(split)]
				DoGrad(c, a)
				for _, mask := range c.Out[1:len(split)] {
					if mask.Present() {
						Do(c, device.Fill{Dst: mask})
					}
				}
			}
		}
		grads := g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)
		out := make([]*Node, len(in))
		for k := range in {
			if !t.ints[k] {
				out[k], grads = grads[0], grads[1:]
			}
		}
		return out
	}
	return g.Apply(op, append(append([]*Node(nil), split...), whole...)...)
}

func shapesOf(nodes []*Node) (s []tensor.Shape) {
	for _, n := range nodes {
		s = append(s, n.Shape().Clone())
	}
	return s
}

// tiles is an op that runs a graph of its own for every tile.
type tiles struct {
	from         *Graph
	rows, width  int
	out          int // values of a row of the result
	split, whole []tensor.Shape
	ints         []bool
	names        []string // of the arguments, as inputs of the graph of a tile
	build        func(g *Graph, split, whole []*Node) *Node
	cross        *device.CrossScores // what is computed, as a kernel; nil where there is none
}

// kernel is that of CrossScores with the arguments of a call.
func (t *tiles) kernel(c *Call) device.CrossScores {
	a := *t.cross
	a.Regions, a.Words, a.Lengths = c.In[0], c.In[len(t.split)], c.Ints(len(t.split)+1)
	if len(t.split) > 1 {
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

// graph builds the graph of a tile of n rows; sub holds its inputs.
func (t *tiles) graph(n int) (sub *Graph, out *Node) {
	sub = &Graph{Training: t.from.Training, Seed: t.from.Seed, expr: G.NewGraph(), dtype: t.from.dtype,
		leaves: map[string]*leaf{}}
	var split, whole []*Node
	for k, s := range t.split {
		s = s.Clone()
		s[0] = n
		split = append(split, sub.Input(t.names[k], s...))
	}
	for i, s := range t.whole {
		k := len(t.split) + i
		if t.ints[k] {
			whole = append(whole, sub.InputInts(t.names[k], s...))
		} else {
			whole = append(whole, sub.Input(t.names[k], s...))
		}
	}
	out = t.build(sub, split, whole)
	for name, l := range sub.leaves {
		if l.param {
			fail("a tile uses the parameter %s: pass it as a whole value", name)
		}
	}
	return sub, out
}

// tileProgram is the compiled graph of tiles of one size: its arguments are inputs of the nested instance.
type tileProgram struct {
	rows  int
	prog  *Program
	out   *Node
	grads []*Node // of the float arguments whose gradient is read, in their order
}

// cacheValues is how many float32 stay in the cache of a processor beside others of a tile.
const cacheValues = 1 << 19

// tileRows is the number of rows at whose multiples tiles of a device.Tiler end: whatever the width of a row, operands
// in bfloat16 with columns for all rows of the tile then begin at multiples of 16 bytes, without which products take
// three times as long.
const tileRows = 8

// programs compiles the graphs of the tiles for a device: all but the last have the same size.
func (t *tiles) programs(d device.Device, compile func(sub *Graph, out *Node, p *tileProgram) error) (
	all []*tileProgram, err error) {
	values, multiple := cacheValues, 1
	if tiler, ok := device.As[device.Tiler](d); ok {
		values, multiple = tiler.TileValues(), tileRows
	}
	most := min(t.rows, max(1, values/max(1, t.width)))
	if most < t.rows && most > multiple {
		most -= most % multiple
	}
	sizes := []int{most}
	if last := t.rows % most; last != 0 {
		sizes = append(sizes, last)
	}
	for _, n := range sizes {
		p := &tileProgram{rows: n}
		err := Build(func() error {
			sub, out := t.graph(n)
			p.out = out
			return compile(sub, out, p)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// each runs the programs over the tiles: run gets the first row and the program, whose inputs are set.
func (t *tiles) each(s *Instance, all []*tileProgram, c *Call, run func(first int, p *tileProgram)) {
	for first := 0; first < t.rows; first += all[0].rows {
		p := all[0]
		if t.rows-first < p.rows {
			p = all[len(all)-1]
		}
		for k := range t.ints {
			arg := c.Ints(k)
			if k < len(t.split) {
				width := t.split[k].TotalSize() / t.rows
				arg.View = arg.Slice(first*width, (first+p.rows)*width)
			}
			s.bind(t.names[k], arg)
		}
		run(first, p)
	}
}

func (p *tileProgram) must() {
	if err := p.prog.Prepare(); err != nil {
		panic(fmt.Sprintf("graph: tiles: %v", err)) // sizes are those that the program was built for
	}
	p.prog.Run()
}

func (t *tiles) forward(s *Instance) (func(device.Device, *Call), error) {
	if t.native(s.Dev) {
		return nil, nil
	}
	inner := s.inner()
	all, err := t.programs(s.Dev, func(sub *Graph, out *Node, p *tileProgram) (err error) {
		p.prog, err = Compile(inner, sub, []*Node{out}, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(d device.Device, c *Call) {
		t.each(inner, all, c, func(first int, p *tileProgram) {
			p.must()
			device.Do(d, device.Copy{Dst: c.Out[0].Slice(first*t.out, (first+p.rows)*t.out),
				Src: p.prog.View(p.out).Slice(0, p.rows*t.out)})
		})
	}, nil
}

// backward computes the gradients that are read.
func (t *tiles) backward(s *Instance, read []bool) (func(device.Device, *Call), error) {
	if t.native(s.Dev) {
		return nil, nil
	}
	inner := s.inner()
	var of []int // the argument of each gradient, -1 where it is not read
	for arg, ints := range t.ints {
		if ints {
			continue
		}
		if !read[len(of)] {
			arg = -1
		}
		of = append(of, arg)
	}
	all, err := t.programs(s.Dev, func(sub *Graph, out *Node, p *tileProgram) (err error) {
		var wrt []*Node
		for _, arg := range of {
			if arg >= 0 {
				wrt = append(wrt, sub.leaves[t.names[arg]].node)
			}
		}
		cost := sub.WeightedSum(out, sub.Input(tileGradient, out.Shape()...))
		if p.grads, err = sub.Gradients(cost, wrt...); err != nil {
			return err
		}
		p.prog, err = Compile(inner, sub, p.grads, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(d device.Device, c *Call) {
		dy := c.In[len(c.In)-1]
		t.each(inner, all, c, func(first int, p *tileProgram) {
			inner.bind(tileGradient, device.Ints{View: dy.Slice(first*t.out, (first+p.rows)*t.out)})
			p.must()
			grads := p.grads
			for k, arg := range of {
				if arg < 0 {
					continue
				}
				out, grad := c.Out[k], p.prog.View(grads[0])
				grads = grads[1:]
				switch {
				case arg < len(t.split):
					width := t.split[arg].TotalSize() / t.rows
					device.Do(d, device.Copy{Dst: out.Slice(first*width, (first+p.rows)*width), Src: grad.Slice(0,
						p.rows*width)})
				case first == 0:
					device.Do(d, device.Copy{Dst: out, Src: grad.Slice(0, out.N)})
				default:
					device.Do(d, device.Add{Dst: out, A: out, B: grad.Slice(0, out.N)})
				}
			}
		})
	}, nil
}
