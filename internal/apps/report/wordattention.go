package report

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"path/filepath"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/analysis"
)

// wordSide is the longer side of the map of a word in pixels.
const wordSide = 240

// wordGallery draws a row for each caption: the picture, and a map for each of its words. It leaves out the start and
// end tokens.
func wordGallery(all []*analysis.WordAttention, p *Pictures) (*Gallery, error) {
	g := &Gallery{Title: "Where the words of a caption look", Note: "The weights of the regions for each word, as " +
		"the network computes them. Bright places are attended to: the veil over a place tells the largest weight of " +
		"the boxes that cover it, as a share of the largest one of the word. The boxes of the three largest " +
		"weights are outlined, with a solid, a dashed and a dotted line; their weights stand below."}
	over, grid := false, false
	for k, a := range all {
		over, grid = over || a.AttendsWords, grid || !a.Stored
		row := GalleryRow{Label: fmt.Sprintf("%s: “%s”, image %s, score %.3f", filepath.ToSlash(a.Checkpoint), a.Text,
			a.ImageID, a.Score)}
		c, picture, err := p.card(a.ImageID, wordSide, "picture")
		if err != nil {
			return nil, err
		}
		if picture != nil {
			row.Cards = append(row.Cards, c)
		}
		for j := 1; j+1 < len(a.Words); j++ {
			w := &a.Words[j]
			file := fmt.Sprintf("words-%d-%s-%02d-%s", k+1, slug(a.ImageID), j, slug(w.Word))
			if c, err = drawn(w.Word, file, veiled(w, picture, wordSide), w.Word, w.Largest()); err != nil {
				return nil, err
			}
			row.Cards = append(row.Cards, c)
		}
		g.Rows = append(g.Rows, row)
	}
	if over {
		g.Note += " Where regions attend to words (SCAN i2t) the weights of a region sum to 1 over the words."
	}
	if grid {
		g.Note += " The data set has no boxes: its regions are drawn as the cells of a grid, row by row."
	}
	return g, nil
}

// veiled draws the weights of a word as a veil over a picture. Without a picture (nil) the background is white, and
// every box has a thin outline.
func veiled(w *analysis.WordMap, picture *pictures.RGB, side int) *image.RGBA {
	width, height := fit(int(w.Width), int(w.Height), side)
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	if picture != nil {
		out = scale(picture, width, height)
	} else {
		draw.Draw(out, out.Rect, image.White, image.Point{}, draw.Src)
	}
	opacity := func(v float64) image.Image { return image.NewUniform(color.Alpha{uint8(255*v + 0.5)}) }
	veil := image.NewAlpha(out.Rect)
	draw.Draw(veil, veil.Rect, opacity(analysis.MostVeil), image.Point{}, draw.Src)
	layers := w.Layers()
	boxes := make([]image.Rectangle, len(layers))
	for i, l := range layers {
		at := func(share float64, n int) int { return int(share*float64(n) + 0.5) }
		boxes[i] = image.Rect(at(l.Box[0], width), at(l.Box[1], height), at(l.Box[2], width), at(l.Box[3], height))
		draw.Draw(veil, boxes[i], opacity(l.Veil), image.Point{}, draw.Src)
	}
	draw.DrawMask(out, out.Rect, image.Black, image.Point{}, veil, image.Point{}, draw.Over)
	for i, l := range layers {
		switch {
		case l.Place > 0:
			outline(out, boxes[i].Inset(-1), color.RGBA{A: 255}, 4, dashes[0])
			outline(out, boxes[i], chart.Marker, 2, dashes[l.Place-1])
		case picture == nil:
			outline(out, boxes[i], color.RGBA{128, 128, 128, 255}, 1, dashes[0])
		}
	}
	return out
}

// dashes are the lines of the three largest weights: the number of drawn pixels, and the period in pixels.
var dashes = [3][2]int{{1, 1}, {8, 13}, {2, 6}}

// outline draws the edges of a box, inside of it.
func outline(img *image.RGBA, box image.Rectangle, c color.RGBA, line int, dash [2]int) {
	inner := box.Inset(line)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			along := x - box.Min.X // of the upper and the lower edge
			if y >= inner.Min.Y && y < inner.Max.Y {
				if along = y - box.Min.Y; x >= inner.Min.X && x < inner.Max.X {
					continue
				}
			}
			if along%dash[1] < dash[0] && image.Pt(x, y).In(img.Rect) {
				img.SetRGBA(x, y, c)
			}
		}
	}
}
