package main

import (
	"fmt"
	"html"
	"math"
	"strings"

	"vsetrain/internal/apps/chart"
)

// Colours of the charts.
var (
	blue, orange, green = chart.Hex(chart.Colour(0)), chart.Hex(chart.Colour(1)), chart.Hex(chart.Colour(2))
	grid, black         = chart.Hex(chart.Grey), "#000000"
)

// canvas is an SVG picture on white. Coordinates are rounded to a tenth, so that the same numbers give the same bytes.
type canvas struct{ b strings.Builder }

func newCanvas(width, height float64, title string) *canvas {
	c := &canvas{}
	fmt.Fprintf(&c.b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\" viewBox=\"0 0 %s %s\" "+
		"role=\"img\" "+
		"font-family=\"Liberation Sans, Arial, sans-serif\" font-size=\"12\">\n", num(width), num(height), num(width),
		num(height))
	fmt.Fprintf(&c.b, "<!-- drawn by internal/tools/figures: make figures -->\n<title>%s</title>\n",
		html.EscapeString(title))
	c.rect(0, 0, width, height, "#FFFFFF")
	return c
}

func (c *canvas) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&c.b, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"/>\n", num(x), num(y), num(w),
		num(h), fill)
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string, width float64) {
	fmt.Fprintf(&c.b, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" stroke=\"%s\" stroke-width=\"%s\"/>\n",
		num(x1), num(y1), num(x2), num(y2), stroke, num(width))
}

// text writes s at a base line; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, s string) {
	fmt.Fprintf(&c.b, "<text x=\"%s\" y=\"%s\" text-anchor=\"%s\">%s</text>\n", num(x), num(y), anchor,
		html.EscapeString(s))
}

func (c *canvas) bytes() []byte { return []byte(c.b.String() + "</svg>\n") }

func num(v float64) string { return fmt.Sprint(math.Round(v*10) / 10) }

// stepsBars draws how many times as fast as PyTorch every network is; a network that has not been measured beside it
// has no bars.
func stepsBars(steps []step) []byte {
	const left, right, top, group, bar = 150.0, 60.0, 56.0, 44.0, 15.0
	most, n := 1.0, 0
	for _, s := range steps {
		if s.torch > 0 {
			n++
			most = max(most, ratio(s.torch, s.fp32), ratio(s.torch, s.bf16))
		}
	}
	width, bottom := 720.0, top+float64(n)*group
	c := newCanvas(width, bottom+40, "Training steps: how many times as fast as PyTorch float32")
	scale := (width - left - right) / most
	for _, v := range chart.Ticks(0, most, 5) {
		c.line(left+v*scale, top, left+v*scale, bottom, grid, 1)
		c.text(left+v*scale, bottom+16, "middle", chart.Number(v)+"x")
	}
	c.text(width/2, 18, "middle", "Training steps: how many times as fast as PyTorch float32 on the same processor")
	for i, key := range []struct{ fill, name string }{{blue, "vsetrain fp32"}, {orange, "vsetrain bf16"}} {
		x := left + float64(i)*130
		c.rect(x, 32, 12, 12, key.fill)
		c.text(x+18, 42, "start", key.name)
	}
	y := top
	for _, s := range steps {
		if s.torch == 0 {
			continue
		}
		c.text(left-8, y+group/2+4, "end", s.network)
		for i, v := range []struct {
			ms   float64
			fill string
		}{{s.fp32, blue}, {s.bf16, orange}} {
			at := y + (group-2*bar)/2 + float64(i)*bar
			c.rect(left, at, ratio(s.torch, v.ms)*scale, bar-2, v.fill)
			c.text(left+ratio(s.torch, v.ms)*scale+5, at+bar-4, "start", times(s.torch, v.ms))
		}
		y += group
	}
	c.line(left+scale, top, left+scale, bottom, black, 1)
	c.text(left+scale, bottom+32, "middle", "PyTorch")
	return c.bytes()
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
