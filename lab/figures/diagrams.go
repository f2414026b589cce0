package main

import (
	_ "embed"
	"errors"
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

// block is a step of a network, at a place of the grid of its diagram.
type block struct {
	name     string
	col, row float64
	of       int // index of streams
	lines    []string
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

// diagrams draws the networks of networks.tsv.
func (b *book) diagrams() error {
	for _, text := range strings.Split(networks, "\n\n")[1:] {
		file, svg, err := diagram(text)
		if err != nil {
			return fmt.Errorf("networks.tsv: %s: %w", file, err)
		}
		b.files[file] = svg
	}
	return nil
}

// diagram draws a paragraph of the form of networks.tsv, or says what is wrong with it: overlapping blocks, text that
// does not fit, arrows from or to missing blocks.
func diagram(text string) (file string, svg []byte, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	file, title, _ := strings.Cut(lines[0], "\t")
	if len(lines) < 3 {
		return file, nil, errors.New("expected a title, blocks and flows")
	}
	width, height := 0.0, 0.0
	var blocks []block
	for _, line := range lines[1 : len(lines)-1] {
		cells := append(strings.Split(line, "\t"), "", "", "", "")
		b := block{name: cells[0], of: slices.Index(streams, cells[3]), lines: strings.Split(cells[4], " | ")}
		if _, err := fmt.Sscan(cells[1]+" "+cells[2], &b.col, &b.row); err != nil || b.of < 0 {
			return file, nil, fmt.Errorf("%q, expected a name, a column, a row, one of %q and a text", line, streams)
		}
		for _, o := range blocks {
			if math.Abs(b.col-o.col) < 1 && math.Abs(b.row-o.row) < 1 {
				return file, nil, fmt.Errorf("blocks %s and %s overlap", o.name, b.name)
			}
		}
		for _, l := range b.lines {
			if lowered(l, nil) > blockWidth-6 || len(b.lines) > 3 {
				return file, nil, fmt.Errorf("block %s has no room for %q", b.name, l)
			}
		}
		x, y := b.at()
		width, height = max(width, x+blockWidth+margin), max(height, y+blockHeight+margin)
		blocks = append(blocks, b)
	}
	c := chart.New(width, height, title)
	for _, chain := range strings.Fields(lines[len(lines)-1]) {
		last := -1
		for name := range strings.SplitSeq(chain, ">") {
			i := slices.IndexFunc(blocks, func(b block) bool { return b.name == name })
			if i < 0 {
				return file, nil, fmt.Errorf("%s: no block %q", chain, name)
			}
			if last >= 0 {
				arrow(c, blocks[last], blocks[i])
			}
			last = i
		}
	}
	for _, b := range blocks {
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
	return file, c.SVG(), nil
}

// lowered cuts a line into its pieces, and each stands after the width of those before. It returns the width of all.
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
