package report

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"path/filepath"

	"vsetrain/internal/experiment"
)

// WordAttenders returns the runs of networks whose words attend to regions.
func (d *DataSet) WordAttenders() (runs []*Run) {
	for _, g := range d.Groups {
		if g.traits().WordAttention {
			runs = append(runs, g.Runs[0])
		}
	}
	return runs
}

// wordSide is the longer side of the map of a word in pixels.
const wordSide = 200

// wordGallery draws a row for each caption: the picture, and a map for each of its words. The words at start and end,
// which are those of the network alone, are left out.
func wordGallery(all []*experiment.WordAttention, p *Pictures) (*Gallery, error) {
	g := &Gallery{Title: "Where the words of a caption look", Note: "The weights of the regions for each word, as " +
		"the network computes them; a place has the sum over the boxes it lies in, light is the most of its word. " +
		"Below each: the largest weight of a region."}
	over, grid := false, false
	for k, a := range all {
		over, grid = over || a.AttendsWords, grid || !a.Stored
		row := GalleryRow{Label: fmt.Sprintf("%s: “%s”, image %s, score %.3f", filepath.ToSlash(a.Checkpoint), a.Text,
			a.ImageID, a.Score)}
		path, _ := p.Find(a.ImageID)
		if path != "" {
			data, err := p.Embed(a.ImageID, wordSide)
			if err != nil {
				return nil, err
			}
			row.Cards = append(row.Cards, Card{ID: a.ImageID, Data: data, Lines: []string{"picture"}})
		}
		for j := 1; j+1 < len(a.Words); j++ {
			w := &a.Words[j]
			img, err := heatSized(&w.Attention, path, wordSide)
			if err != nil {
				return nil, err
			}
			if path == "" {
				outline(img, w.Boxes)
			}
			b, err := encodePNG(img)
			if err != nil {
				return nil, err
			}
			most := 0.0
			for _, s := range w.Scores {
				most = max(most, s)
			}
			row.Cards = append(row.Cards, Card{ID: w.Word, Data: dataURI("image/png", b), PNG: b,
				File:  fmt.Sprintf("words-%d-%s-%02d-%s", k+1, slug(a.ImageID), j, slug(w.Word)),
				Lines: []string{w.Word, fmt.Sprintf("%.2f", most)}})
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

// outline draws the edges of boxes.
func outline(img draw.Image, boxes [][4]float64) {
	b := img.Bounds()
	line := image.NewUniform(color.RGBA{128, 128, 128, 160})
	for _, x := range boxes {
		r := image.Rect(int(x[0]*float64(b.Dx())), int(x[1]*float64(b.Dy())), int(x[2]*float64(b.Dx())),
			int(x[3]*float64(b.Dy())))
		for _, edge := range []image.Rectangle{{r.Min, image.Pt(r.Max.X, r.Min.Y+1)},
			{image.Pt(r.Min.X, r.Max.Y-1), r.Max}, {r.Min, image.Pt(r.Min.X+1, r.Max.Y)},
			{image.Pt(r.Max.X-1, r.Min.Y), r.Max}} {
			draw.Draw(img, edge.Intersect(b), line, image.Point{}, draw.Over)
		}
	}
}
