package graph

import (
	"errors"
	"fmt"

	"vsetrain/internal/compute/device"
)

// How tiles run: the graph of a tile is compiled for each size, and run for every tile.

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
