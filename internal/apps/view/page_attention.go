package view

import (
	"fmt"
	"math"

	"vsetrain/internal/apps/web"
	"vsetrain/internal/run/analysis"
)

// look returns the address of the attention of caption c to image i, or "" if the words of the network do not attend.
func (p *picked) look(i, c int) string {
	if !p.attends() {
		return ""
	}
	return p.URL("/attention", "i", i, "c", c)
}

// layer is the box of a region in the units of its figure.
type layer struct {
	X, Y, W, H float64
	Veil       string // gray of the mask: the remaining part of the veil
	Line       string // class of its outline; "" without
}

// wordFigure is a picture under a veil with holes where a word attends.
type wordFigure struct {
	Word    string
	W, H    float64
	Layers  []layer
	Largest string    // weights
	Weights []float64 // of every region
}

// pictureSide is the longer side of a picture in units of its figure.
const pictureSide = 400

// wordFigures draws the words of a caption without <start> and <end>.
func wordFigures(a *analysis.WordAttention, picture bool) (out []wordFigure) {
	lines := [4]string{"edge", "marker", "marker second", "marker third"}
	if picture {
		lines[0] = ""
	}
	for j := 1; j+1 < len(a.Words); j++ {
		m := &a.Words[j]
		scale := pictureSide / max(m.Width, m.Height)
		f := wordFigure{Word: m.Word, W: math.Round(scale * m.Width), H: math.Round(scale * m.Height),
			Largest: m.Largest(), Weights: m.Scores}
		for _, l := range m.Layers() {
			b, gray := l.Box, math.Round(255*l.Veil/analysis.MostVeil)
			f.Layers = append(f.Layers, layer{X: b[0] * f.W, Y: b[1] * f.H, W: (b[2] - b[0]) * f.W,
				H: (b[3] - b[1]) * f.H, Veil: fmt.Sprintf("rgb(%[1]v,%[1]v,%[1]v)", gray), Line: lines[l.Place]})
		}
		out = append(out, f)
	}
	return out
}

// attentionPage shows where the words of a caption look in an image: i and c, by number.
func (s *Server) attentionPage(r *request, p *picked) error {
	var d struct {
		Image   figure
		Caption line
		Of      *analysis.WordAttention
		Words   []wordFigure
		Opacity float64 // of the veil
		Own     []line  // captions of the image
	}
	if p.Open {
		i, err := r.whole("i", p.Info.Images)
		if err != nil {
			return err
		}
		c, err := r.whole("c", p.Info.Captions)
		if err != nil {
			return err
		}
		if !p.attends() {
			return web.BadRequest("the words of this network do not attend to regions, as SAF, SGR, GSMN and SCAN do")
		}
		d.Image, d.Caption = p.figure(i), p.line(c)
		if d.Of, err = p.network.index.Attention(r.Context(), i, c); err != nil {
			return err
		}
		d.Words, d.Opacity = wordFigures(d.Of, d.Image.Picture != ""), analysis.MostVeil
		for o := range p.Info.Own.Of(i) {
			l := p.line(o)
			l.Own, l.Look = o == c, p.look(i, o)
			d.Own = append(d.Own, l)
		}
	}
	return p.show(r, "attention", frame{Title: "Attention", Tab: "search", Data: d})
}
