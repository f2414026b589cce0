package main

import (
	_ "embed"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"unicode"

	"vsetrain/internal/apps/chart"
)

//go:embed networks.tsv
var networks string

// streams are what a block of a diagram computes with, fills and edges their colours. What is of the last one is left
// out once the network is trained.
var (
	streams = []string{"image", "caption", "pair", "training"}
	fills   = [...]color.RGBA{{0xe6, 0xf0, 0xf7, 255}, {0xfb, 0xed, 0xe4, 255}, {0xe4, 0xf3, 0xee, 255},
		{0xf0, 0xf1, 0xf2, 255}}
	edges = [...]color.RGBA{chart.Colour(0), chart.Colour(1), chart.Colour(2), chart.Soft}
)

// block is a step of a network, at a place of the grid of its diagram. Its lines are a title and shapes; `_` puts the
// letters and digits behind it lower.
type block struct {
	name     string
	col, row float64
	of       int // index of streams
	lines    []string
}

// diagram is the flow of data of a network.
type diagram struct {
	file, title string // the file relative to the repository
	blocks      []block
	flows       [][2]string // names of two blocks: the second reads the first
}

// Sizes of diagrams.
const (
	blockWidth, blockHeight = 108.0, 40.0
	gapX, gapY              = 24.0, 15.0
	margin, head            = 6.0, 32.0
)

func (b block) at() (x, y float64) {
	return margin + b.col*(blockWidth+gapX), head + b.row*(blockHeight+gapY)
}

// draw draws the diagram, or says what is wrong with it: blocks that overlap, text that does not fit, flows from or to
// nothing.
func (d diagram) draw() ([]byte, error) {
	width, height := 0.0, 0.0
	byName := map[string]block{}
	for i, b := range d.blocks {
		x, y := b.at()
		width, height = max(width, x+blockWidth+margin), max(height, y+blockHeight+margin)
		for _, o := range d.blocks[:i] {
			if math.Abs(b.col-o.col) < 1 && math.Abs(b.row-o.row) < 1 {
				return nil, fmt.Errorf("%s: blocks %s and %s overlap", d.file, o.name, b.name)
			}
		}
		for _, l := range b.lines {
			if lowered(l, nil) > blockWidth-6 || len(b.lines) > 3 {
				return nil, fmt.Errorf("%s: block %s has no room for %q", d.file, b.name, l)
			}
		}
		byName[b.name] = b
	}
	c := chart.New(width, height, d.title)
	for _, f := range d.flows {
		from, ok := byName[f[0]]
		to, also := byName[f[1]]
		if !ok || !also {
			return nil, fmt.Errorf("%s: a flow from %q to %q, which are not both blocks", d.file, f[0], f[1])
		}
		arrow(c, from, to)
	}
	for _, b := range d.blocks {
		x, y := b.at()
		box := chart.Box(x, y, blockWidth, blockHeight)
		c.Area(fills[b.of], box...)
		var dashes []int
		if streams[b.of] == "training" {
			dashes = []int{4, 2}
		}
		c.Line(edges[b.of], 0.8, append(box, box[0]), dashes...)
		const line = 11
		for i, l := range b.lines {
			at := chart.Point{X: x + (blockWidth-lowered(l, nil))/2,
				Y: y + blockHeight/2 + 3 + line*(float64(i)-float64(len(b.lines)-1)/2)}
			lowered(l, func(after float64, text string, f chart.Font, down float64) {
				c.Text(chart.Point{X: at.X + after, Y: at.Y + down}, chart.Start, text, f, chart.Black)
			})
		}
	}
	return c.SVG(), nil
}

// diagrams draws those of networks.tsv.
func (b *book) diagrams() error {
	list, err := readDiagrams(networks)
	for _, d := range list {
		if err == nil {
			b.files[d.file], err = d.draw()
		}
	}
	return err
}

// readDiagrams reads a text such as networks.tsv, whose head says what its lines are.
func readDiagrams(text string) (list []*diagram, err error) {
	var d *diagram
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		switch {
		case strings.HasPrefix(line, "#"):
		case len(cells) == 2:
			d = &diagram{file: cells[0], title: cells[1]}
			list = append(list, d)
		case len(cells) == 5 && d != nil:
			b := block{name: cells[0], of: slices.Index(streams, cells[3]), lines: strings.Split(cells[4], " | ")}
			if _, err := fmt.Sscan(cells[1]+" "+cells[2], &b.col, &b.row); err != nil || b.of < 0 {
				return nil, fmt.Errorf("%s: block %q, expected a name, a column, a row, one of %q and its text", d.file,
					cells, streams)
			}
			d.blocks = append(d.blocks, b)
		case len(cells) == 1 && d != nil:
			for _, chain := range strings.Fields(line) {
				names := strings.Split(chain, ">")
				for i := range names[1:] {
					d.flows = append(d.flows, [2]string{names[i], names[i+1]})
				}
			}
		default:
			return nil, fmt.Errorf("networks.tsv: %q is no line of a diagram", line)
		}
	}
	return list, nil
}

// lowered cuts a line into its pieces, and each stands behind the width of those before. It returns the width of all.
func lowered(line string, piece func(after float64, text string, f chart.Font, down float64)) (width float64) {
	for line != "" {
		f, down := chart.Plain, 0.0
		end := strings.IndexByte(line, '_')
		if end == 0 {
			f.Size, down, line = 7, 2.5, line[1:]
			end = strings.IndexFunc(line, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		}
		if end < 0 {
			end = len(line)
		}
		width += f.Width(line[:end])
		if text := strings.TrimLeft(line[:end], " "); piece != nil { // SVG leaves out a space in front
			piece(width-f.Width(text), text, f, down)
		}
		line = line[end:]
	}
	return width
}

// arrow draws what block to reads of block from: to the right, or up and down in a column.
func arrow(c *chart.Drawing, from, to block) {
	x1, y1 := from.at()
	x2, y2 := to.at()
	a, b := chart.Point{X: x1 + blockWidth, Y: y1 + blockHeight/2}, chart.Point{X: x2 - 1, Y: y2 + blockHeight/2}
	tip := chart.Point{X: 5} // from its left end
	if from.col == to.col {
		a, b = chart.Point{X: x1 + blockWidth/2, Y: y1}, chart.Point{X: x2 + blockWidth/2, Y: y2}
		tip = chart.Point{Y: 5}
		if y1 < y2 {
			a.Y += blockHeight
		} else {
			b.Y, tip.Y = b.Y+blockHeight, -5
		}
	}
	b.X, b.Y = b.X-tip.X, b.Y-tip.Y
	var path []chart.Point
	for i := range 17 {
		t := float64(i) / 16
		s := t * t * (3 - 2*t)
		path = append(path, chart.Point{X: a.X + t*(b.X-a.X), Y: a.Y + s*(b.Y-a.Y)})
	}
	c.Line(chart.Soft, 1, path)
	c.Area(chart.Soft, chart.Point{X: b.X + tip.X, Y: b.Y + tip.Y}, chart.Point{X: b.X + tip.Y/2, Y: b.Y + tip.X/2},
		chart.Point{X: b.X - tip.Y/2, Y: b.Y - tip.X/2})
}
