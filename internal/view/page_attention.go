package view

import (
	"math"

	"vsetrain/internal/experiment"
)

// look is the address of the attention of caption c to image i, "" where the words of the network attend to nothing.
func (p *picked) look(i, c int) string {
	if !p.attends() {
		return ""
	}
	return p.URL("/attention", "i", i, "c", c)
}

// region is a box with the weight that a word gives it, in a picture of W x H units.
type region struct {
	X, Y, W, H float64
	Opacity    float64 // the weight as a share of the largest one of the word
	Most       bool    // it has the largest weight
}

// wordFigure is a picture with the weights of a word.
type wordFigure struct {
	Word    string
	W, H    float64
	Regions []region
	Most    float64 // the largest weight
}

// pictureSide is the longer side of a picture in units of its figure.
const pictureSide = 400

// wordFigures draws the words of a caption without those that the network puts at its start and end.
func wordFigures(a *experiment.WordAttention) (out []wordFigure) {
	for j := 1; j+1 < len(a.Words); j++ {
		m := &a.Words[j]
		scale := pictureSide / max(m.Width, m.Height)
		f := wordFigure{Word: m.Word, W: math.Round(scale * m.Width), H: math.Round(scale * m.Height)}
		most := 0
		for i, w := range m.Scores {
			if w > m.Scores[most] {
				most = i
			}
		}
		f.Most = m.Scores[most]
		for i, b := range m.Boxes {
			r := region{X: b[0] * f.W, Y: b[1] * f.H, W: (b[2] - b[0]) * f.W, H: (b[3] - b[1]) * f.H, Most: i == most}
			if f.Most > 0 {
				r.Opacity = 0.6 * m.Scores[i] / f.Most
			}
			f.Regions = append(f.Regions, r)
		}
		out = append(out, f)
	}
	return out
}

// attentionPage shows where the words of a caption look in an image: i and c, by number.
func (s *Server) attentionPage(r *request) error {
	p, err := s.pick(r)
	if err != nil {
		return err
	}
	defer p.release()
	var d struct {
		Image   figure
		Caption line
		Of      *experiment.WordAttention
		Words   []wordFigure
		Own     []line // captions of the image
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
			return &badRequest{"the words of this network attend to no regions; those of SAF, SGR, GSMN and SCAN do"}
		}
		d.Image, d.Caption = p.figure(i), p.line(c)
		if d.Of, err = p.network.index.Attention(r.Context(), i, c); err != nil {
			return err
		}
		d.Words = wordFigures(d.Of)
		for o := i * p.Info.CaptionsPerImage; o < (i+1)*p.Info.CaptionsPerImage && o < p.Info.Captions; o++ {
			l := p.line(o)
			l.Own, l.Look = o == c, p.look(i, o)
			d.Own = append(d.Own, l)
		}
	}
	return p.show(r, "attention", frame{Title: "Attention", Tab: "search", Data: d})
}
