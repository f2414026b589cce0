package report

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"vsetrain/internal/run/analysis"
)

// Gallery consists of rows of pictures.
type Gallery struct {
	Title, Note string
	Rows        []GalleryRow
}

// GalleryRow is one line of pictures.
type GalleryRow struct {
	Label string
	Cards []Card
}

// Card is a picture with lines of text below it.
type Card struct {
	ID    string
	Data  string // URI of the picture; "" for none
	PNG   []byte // contents of its own file; nil for none
	File  string
	Lines []string
	Match bool
}

// cardSide is the longer side of a small picture in pixels.
const cardSide = 160

// hardestItems shows hard negatives as pictures and as a table.
func hardestItems(h *analysis.Hardest, p *Pictures) (*Gallery, *Table, error) {
	where := fmt.Sprintf("line %d of the captions of split %s, in a batch of %d", h.Line, h.Split, h.Batch)
	g := &Gallery{Title: "“" + h.Caption + "”", Note: "L" + where[1:] + ". The images of the batch by their hinge, " +
		"margin + similarity − match, the largest first; in training the first alone gets a gradient. Networks in " +
		"evaluation mode."}
	t := &Table{Name: "hardest", Title: "Hardest negatives of “" + h.Caption + "” (" + where + ")",
		Heads: heads("run", ">rank", "image", ">similarity", ">semantic", ">margin", ">hinge")}
	for i, l := range h.Lists {
		row := GalleryRow{Label: nameOf(l.Run)}
		c, _, err := p.card(h.ImageID, cardSide, "the match", fmt.Sprintf("S %.3f", l.Match))
		if err != nil {
			return nil, nil, err
		}
		c.Match = true
		row.Cards = append(row.Cards, c)
		for k, n := range l.Negatives {
			sem, semantic := "", textCell("-")
			if !math.IsNaN(n.Semantic) {
				sem, semantic = "semantic "+fixed(n.Semantic, 2), numberCell(n.Semantic, 3)
			}
			c, _, err := p.card(n.ImageID, cardSide, fmt.Sprintf("hinge %+.3f", n.Hinge),
				fmt.Sprintf("S %.3f", n.Similarity), sem)
			if err != nil {
				return nil, nil, err
			}
			row.Cards = append(row.Cards, c)
			t.row(k == 0 && i > 0, nameOf(l.Run), k+1, n.ImageID, numberCell(n.Similarity, 4), semantic,
				numberCell(n.Margin, 4), numberCell(n.Hinge, 4))
		}
		g.Rows = append(g.Rows, row)
	}
	return g, t, nil
}

// attentionGallery draws heat maps, a row for each checkpoint.
func attentionGallery(maps []analysis.Attention, p *Pictures) (*Gallery, error) {
	g := &Gallery{Title: "Where the image embedding looks", Note: "Each region adds 50 (k − rank)² to its box, " +
		"ranked by the product of its feature and the embedding; light is the most."}
	for _, part := range chunk(maps, func(a, b analysis.Attention) bool { return a.Checkpoint == b.Checkpoint }) {
		row := GalleryRow{Label: filepath.ToSlash(part[0].Checkpoint)}
		for i := range part {
			a := &part[i]
			c, picture, err := p.card(a.ImageID, heatSide, "picture")
			if err != nil {
				return nil, err
			}
			if picture != nil {
				row.Cards = append(row.Cards, c)
			}
			c, err = drawn(a.ImageID, fmt.Sprintf("attention-%d-%s", len(g.Rows)+1, slug(a.ImageID)), heat(a, picture),
				"attention")
			if err != nil {
				return nil, err
			}
			row.Cards = append(row.Cards, c)
		}
		g.Rows = append(g.Rows, row)
	}
	return g, nil
}

// Wide reports whether the pictures of the row are heat maps, which are shown large.
func (r GalleryRow) Wide() bool {
	return slices.ContainsFunc(r.Cards, func(c Card) bool { return c.PNG != nil })
}
