package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// Tiles computes build for tiles of some rows of the split values, [B, …] each, one after the other, with whole values
// that all tiles read: the results [n, …] of the tiles make one value [B, …]. What is computed inside a tile is
// forgotten when the tile is done; the backward pass computes it again. So a network of pairs is written for a few
// images and all captions, and its memory is the memory of one tile. The largest values of a tile hold width numbers
// for each row; a tile has as many rows as the device wants of them (device.Tiler), or as stay in the cache of a
// processor.
//
// build is given an empty graph and inputs of it that stand for its arguments. It may use no other value, and no
// parameter: those are passed as whole values. int32 values, such as lengths, can only be whole.
func (g *Graph) Tiles(width int, split, whole []*Node, build func(g *Graph, split, whole []*Node) *Node) *Node {
	return g.tiles(tilesOf(width, split, whole, build), append(slices.Clone(split), whole...))
}

// CrossScores scores images, the regions [B, R·E] and perhaps the mask [B, R], with captions, words [capacity, E] and
// lengths [C]: [B, C]. A device that has the kernel computes a, if it says the same as build; others compute build in
// tiles of images.
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

// tileProgram is the compiled graph of tiles of one size: its arguments are inputs of the nested instance.
type tileProgram struct {
	rows, words int // words: capacity of values with a row for each
	prog        *Program
	out         *Node
	grads       []*Node // of the float arguments whose gradient is read, in their order
}

// cacheValues is how many float32 stay in the cache of a processor beside others of a tile.
const cacheValues = 1 << 19

// tileRows is the number of rows at whose multiples tiles of a device.Tiler end: whatever the width of a row, operands
// in bfloat16 with columns for all rows of the tile then begin at multiples of 16 bytes, without which products take
// three times as long.
const tileRows = 8

// size is how many rows a tile has on a device.
func (t *tiles) size(d device.Device) int {
	if t.most > 0 {
		return min(t.rows, t.most)
	}
	values, multiple := cacheValues, 1
	if tiler, ok := device.As[device.Tiler](d); ok {
		values, multiple = tiler.TileValues(), tileRows
	}
	most := min(t.rows, max(1, values/max(1, t.width)))
	if most < t.rows && most > multiple {
		most -= most % multiple
	}
	return most
}

// tileRun runs the tiles of a device, or with back their gradients.
type tileRun struct {
	*tiles
	s     *Instance // of the graphs of tiles
	all   []*tileProgram
	back  bool
	of    []int // the argument of each gradient, -1 where it is not read
	flops float64
}

// programs compiles the graphs of the tiles: all but the last have the same size. The words of captions are taken to be
// spread evenly; ready corrects that.
func (t *tileRun) programs() (*nested, error) {
	most := t.size(t.s.Dev)
	sizes := []int{most}
	if last := t.rows % most; last != 0 {
		sizes = append(sizes, last)
	}
	for _, n := range sizes {
		p := &tileProgram{rows: n}
		for _, a := range t.args {
			if a.share == shareWords {
				p.words = wordsOfBlock((a.shape[0]*n + t.rows - 1) / t.rows)
			}
		}
		if err := t.compile(p); err != nil {
			return nil, err
		}
		t.all = append(t.all, p)
	}
	n := &nested{run: t.run, flops: func() float64 { return t.flops }}
	if t.lengths >= 0 {
		n.ready = t.ready
	}
	return n, nil
}

// wordsOfBlock rounds a number of words up to a capacity for which graphs are compiled.
func wordsOfBlock(n int) int { return (n + n/8 + 7) / 8 * 8 }

func (t *tileRun) compile(p *tileProgram) error {
	return Build(func() (err error) {
		var sub *Graph
		sub, p.out = t.graph(p.rows, p.words, t.back)
		results := []*Node{p.out}
		if t.back {
			var wrt []*Node
			for _, arg := range t.of {
				if arg >= 0 {
					wrt = append(wrt, sub.leaves[t.args[arg].name].node)
				}
			}
			cost := sub.WeightedSum(p.out, sub.Input(tileGradient, p.out.Shape()...))
			if p.grads, err = sub.Gradients(cost, wrt...); err != nil {
				return err
			}
			results = p.grads
		}
		p.prog, err = Compile(t.s, sub, results, nil)
		return err
	})
}

// tilePlace is where a tile begins, and how many words its captions have.
type tilePlace struct{ row, word, words int }

// each calls do with all tiles, their graphs and places.
func (t *tileRun) each(lengths device.Ints, do func(at tilePlace, p *tileProgram)) {
	for at := (tilePlace{}); at.row < t.rows; {
		p := t.all[0]
		if t.rows-at.row < p.rows {
			p = t.all[len(t.all)-1]
		}
		if t.lengths >= 0 {
			at.words = device.Total(lengths.Host[at.row : at.row+p.rows])
		}
		do(at, p)
		at.row, at.word = at.row+p.rows, at.word+at.words
	}
}

// ready makes room for the words of all blocks.
func (t *tileRun) ready(c *Call) (err error) {
	if c.ints[t.lengths].Bounded {
		return errors.New("the lengths of captions are bounds, expected the lengths themselves")
	}
	t.each(c.Ints(t.lengths), func(at tilePlace, p *tileProgram) {
		if at.words > p.words && err == nil {
			p.words = wordsOfBlock(at.words)
			err = t.compile(p)
		}
		for k := range t.args {
			if a := &t.args[k]; a.share == shareWords && err == nil {
				_, err = t.s.inputOf(a.name, device.Float, p.words*a.width())
			}
		}
	})
	return err
}

// span is where the share of a tile of n rows lies in an argument.
func (t *tiles) span(k int, at tilePlace, n int) (lo, hi int) {
	switch a := &t.args[k]; a.share {
	case shareRows:
		return at.row * a.width(), (at.row + n) * a.width()
	case shareStarts:
		return at.row, at.row + n + 1
	case shareWords:
		return at.word * a.width(), (at.word + at.words) * a.width()
	default:
		return 0, a.shape.TotalSize()
	}
}

// bind sets argument k of a tile.
func (t *tileRun) bind(c *Call, k int, at tilePlace, p *tileProgram) {
	a, arg := &t.args[k], c.Ints(k)
	lo, hi := t.span(k, at, p.rows)
	arg.View = arg.Slice(lo, hi)
	switch a.share {
	case shareParam:
		return
	case shareWords: // its graph has the capacity for more, which may not be there
		in, err := t.s.inputOf(a.name, device.Float, p.words*a.width())
		if err != nil {
			panic(fmt.Sprintf("graph: tiles: %v", err)) // ready made room
		}
		device.Do(t.s.Dev, device.Copy{Dst: in.Slice(0, hi-lo), Src: arg.View})
		return
	case shareRows, shareStarts:
		if a.ints {
			arg.Host, arg.Layout = arg.Host[lo:hi], nil
		}
	}
	t.s.bind(a.name, arg)
}

func (p *tileProgram) must() {
	if err := p.prog.Prepare(); err != nil {
		panic(fmt.Sprintf("graph: tiles: %v", err)) // sizes are those that the program was built for
	}
	p.prog.Run()
}

func (t *tiles) forward(s *Instance) (*nested, error) {
	if t.native(s.Dev) {
		return nil, nil
	}
	return (&tileRun{tiles: t, s: s.inner()}).programs()
}

// backward computes the gradients that are read.
func (t *tiles) backward(s *Instance, read []bool) (*nested, error) {
	if t.native(s.Dev) {
		return nil, nil
	}
	r := &tileRun{tiles: t, s: s.inner(), back: true}
	for arg, a := range t.args {
		if a.ints {
			continue
		}
		if !read[len(r.of)] {
			arg = -1
		}
		r.of = append(r.of, arg)
	}
	return r.programs()
}

// run computes all tiles.
func (t *tileRun) run(d device.Device, c *Call) {
	var lengths device.Ints
	if t.lengths >= 0 {
		lengths = c.Ints(t.lengths)
	}
	t.flops = 0
	t.each(lengths, func(at tilePlace, p *tileProgram) {
		for k := range t.args {
			t.bind(c, k, at, p)
		}
		lo, hi := at.row*t.out, (at.row+p.rows)*t.out
		if t.back {
			t.s.bind(tileGradient, device.Ints{View: c.In[len(c.In)-1].Slice(lo, hi)})
		}
		p.must()
		t.flops += p.prog.Flops()
		if t.back {
			t.add(d, c, at, p)
		} else {
			device.Do(d, device.Copy{Dst: c.Out[0].Slice(lo, hi), Src: p.prog.View(p.out).Slice(0, hi-lo)})
		}
	})
}

// add takes the gradients of a tile.
func (t *tileRun) add(d device.Device, c *Call, at tilePlace, p *tileProgram) {
	grads := p.grads
	for k, arg := range t.of {
		if arg < 0 {
			continue
		}
		lo, hi := t.span(arg, at, p.rows)
		out, grad := c.Out[k].Slice(lo, hi), p.prog.View(grads[0]).Slice(0, hi-lo)
		grads = grads[1:]
		if by := t.args[arg].share; at.row > 0 && (by == shareWhole || by == shareParam) {
			device.Do(d, device.Add{Dst: out, A: out, B: grad})
		} else {
			device.Do(d, device.Copy{Dst: out, Src: grad})
		}
	}
}
