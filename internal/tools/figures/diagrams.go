package main

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"vsetrain/internal/apps/chart"
)

// stream is what a block of a diagram computes with.
type stream int

const (
	image stream = iota
	caption
	pair
	training // left out once the network is trained
)

// fills and edges are the colours of the streams.
var (
	fills = [...]string{"#E6F0F7", "#FBEDE4", "#E4F3EE", "#F0F1F2"}
	edges = [...]string{blue, orange, green, chart.Hex(chart.Soft)}
)

// block is a step of a network, at a place of the grid of its diagram. Its lines are a title and shapes; `_` puts the
// letters and digits behind it lower.
type block struct {
	name     string
	col, row float64
	of       stream
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
	blockWidth, blockHeight = 140.0, 54.0
	gapX, gapY              = 32.0, 20.0
	margin, head            = 10.0, 40.0
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
			if textWidth(l) > blockWidth-8 || len(b.lines) > 3 {
				return nil, fmt.Errorf("%s: block %s has no room for %q", d.file, b.name, l)
			}
		}
		byName[b.name] = b
	}
	c := newCanvas(width, height, d.title)
	fmt.Fprintf(&c.b, "<marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" "+
		"markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "+
		"fill=\"%s\"/></marker>\n", chart.Hex(chart.Soft))
	c.text(margin, 22, "start", d.title)
	for _, f := range d.flows {
		from, ok := byName[f[0]]
		to, also := byName[f[1]]
		if !ok || !also {
			return nil, fmt.Errorf("%s: a flow from %q to %q, which are not both blocks", d.file, f[0], f[1])
		}
		c.arrow(from, to)
	}
	for _, b := range d.blocks {
		c.block(b)
	}
	return c.bytes(), nil
}

func (c *canvas) block(b block) {
	x, y := b.at()
	dash := ""
	if b.of == training {
		dash = " stroke-dasharray=\"5 3\""
	}
	fmt.Fprintf(&c.b, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"5\" fill=\"%s\" stroke=\"%s\"%s/>\n",
		num(x), num(y), num(blockWidth), num(blockHeight), fills[b.of], edges[b.of], dash)
	const line = 15
	first := y + blockHeight/2 - line*float64(len(b.lines)-1)/2 + 4
	for i, l := range b.lines {
		c.lowered(x+blockWidth/2, first+line*float64(i), l)
	}
}

// low matches `_` and what it lowers.
var low = regexp.MustCompile(`_[\pL0-9]+`)

// lowered writes a line around x.
func (c *canvas) lowered(x, y float64, s string) {
	var b strings.Builder
	last, down := 0, false
	plain := func(s string) {
		switch {
		case s == "":
		case down:
			fmt.Fprintf(&b, "<tspan dy=\"-3\">%s</tspan>", html.EscapeString(s))
			down = false
		default:
			b.WriteString(html.EscapeString(s))
		}
	}
	for _, at := range low.FindAllStringIndex(s, -1) {
		plain(s[last:at[0]])
		fmt.Fprintf(&b, "<tspan dy=\"3\" font-size=\"9\">%s</tspan>", html.EscapeString(s[at[0]+1:at[1]]))
		last, down = at[1], true
	}
	plain(s[last:])
	fmt.Fprintf(&c.b, "<text x=\"%s\" y=\"%s\" text-anchor=\"middle\">%s</text>\n", num(x), num(y), b.String())
}

// textWidth is about how wide a line is.
func textWidth(s string) float64 {
	lowered := 0
	for _, m := range low.FindAllString(s, -1) {
		lowered += utf8.RuneCountInString(m) - 1
	}
	plain := utf8.RuneCountInString(low.ReplaceAllString(s, ""))
	return 5.9*float64(plain) + 4.5*float64(lowered)
}

// arrow draws what block to reads of block from: to the right, or up and down in a column.
func (c *canvas) arrow(from, to block) {
	x1, y1 := from.at()
	x2, y2 := to.at()
	var path string
	middle, right := x1+blockWidth/2, x1+blockWidth
	switch y1, y2 := y1+blockHeight/2, y2+blockHeight/2; {
	case from.col == to.col && y1 < y2:
		path = fmt.Sprintf("M%s %sV%s", num(middle), num(y1+blockHeight/2), num(y2-blockHeight/2-1))
	case from.col == to.col:
		path = fmt.Sprintf("M%s %sV%s", num(middle), num(y1-blockHeight/2), num(y2+blockHeight/2+1))
	default:
		path = fmt.Sprintf("M%s %sC%s %s %s %s %s %s", num(right), num(y1), num(right+gapX), num(y1), num(x2-gapX),
			num(y2), num(x2-1), num(y2))
	}
	fmt.Fprintf(&c.b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.3\" "+
		"marker-end=\"url(#tip)\"/>\n", path, chart.Hex(chart.Soft))
}
