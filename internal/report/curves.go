package report

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// palette are colours that stay apart for colour-blind readers (Okabe and Ito).
var palette = []color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255},
	{86, 180, 233, 255}, {0, 0, 0, 255}}

// Curves draws M-Recall over epochs for several runs, with a vertical line where each run after the first passes the best of the first.
// The ending of the path chooses the format: .svg, .png or .pdf.
func Curves(path string, runs []*Run) error {
	p := plot.New()
	p.Title.Text = "Validation M-Recall"
	p.X.Label.Text = "epoch"
	p.Y.Label.Text = "M-Recall"
	p.Y.Min = 0
	p.Legend.Top = false
	p.Add(plotter.NewGrid())
	top := 0.0
	for _, r := range runs {
		if b, ok := Best(r.History()); ok {
			top = max(top, b.MRecall)
		}
	}
	for i, r := range runs {
		var xy plotter.XYs
		for _, pt := range r.History() {
			xy = append(xy, plotter.XY{X: pt.Epoch, Y: pt.MRecall})
		}
		if len(xy) == 0 {
			continue
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return fmt.Errorf("draw %s: %w", r.Dir, err)
		}
		line.Color, line.Width = palette[i%len(palette)], vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(r.Name, line)
		at, ok := 0.0, false
		if i == 0 {
			b, found := Best(r.History())
			at, ok = b.Epoch, found
		} else {
			e := Compare(runs[0].History(), r.History(), false)
			at, ok = e.Epochs, e.Reached
		}
		if ok {
			mark, err := plotter.NewLine(plotter.XYs{{X: at, Y: 0}, {X: at, Y: top}})
			if err != nil {
				return fmt.Errorf("draw %s: %w", r.Dir, err)
			}
			mark.Color, mark.Dashes = palette[i%len(palette)], []vg.Length{vg.Points(3), vg.Points(3)}
			p.Add(mark)
		}
	}
	if err := p.Save(18*vg.Centimeter, 11*vg.Centimeter, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
