package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"vsetrain/internal/apps/chart"
)

// Column is a vertical axis of a parallel-coordinates plot: its name, and labels at heights in [0, 1].
type Column struct {
	Name   string
	Labels []string
	At     []float64
}

// Track is a line of a parallel-coordinates plot: a height in [0, 1] for each column, NaN where it has none, and the
// value that colours it.
type Track struct {
	At    []float64
	Value float64
}

// Parallel draws parallel coordinates (Inselberg 1985): a column for each setting and the result, a line for each
// point, the best in front and in the strongest colour. The ending of the path chooses the format: .svg, .png or .pdf.
func Parallel(path, title string, columns []Column, tracks []Track) error {
	p := newPlot(title, "", "")
	p.HideY()
	p.X.LineStyle.Width = 0
	p.X.Tick.Label.Color = color.Black
	names := make([]string, len(columns))
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, t := range tracks {
		lo, hi = min(lo, t.Value), max(hi, t.Value)
	}
	tracks = slices.Clone(tracks)
	slices.SortStableFunc(tracks, func(a, b Track) int { return cmp.Compare(a.Value, b.Value) })
	for _, t := range tracks {
		share := 1.0
		if hi > lo {
			share = (t.Value - lo) / (hi - lo)
		}
		if err := track(p, t, chart.Ramp(share), vg.Points(0.8+1.4*share)); err != nil {
			return fmt.Errorf("draw %s: %w", path, err)
		}
	}
	for i, c := range columns {
		names[i] = c.Name
		if err := column(p, float64(i), c); err != nil {
			return fmt.Errorf("draw %s: %w", path, err)
		}
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.3, float64(len(columns))-0.3, -0.05, 1.05
	return save(p, vg.Length(max(14, 4*len(columns)))*vg.Centimeter, 11*vg.Centimeter, path)
}

// track draws one line; where it has no height on a column it passes over it with dashes.
func track(p *plot.Plot, t Track, c color.Color, width vg.Length) error {
	last := -1
	for i, y := range t.At {
		if math.IsNaN(y) {
			continue
		}
		if last >= 0 {
			line, err := plotter.NewLine(plotter.XYs{{X: float64(last), Y: t.At[last]}, {X: float64(i), Y: y}})
			if err != nil {
				return err
			}
			if line.Color, line.Width = c, width; i > last+1 {
				line.Dashes = []vg.Length{vg.Points(2), vg.Points(3)}
			}
			p.Add(line)
		}
		last = i
	}
	return nil
}

// column draws one vertical axis with its labels.
func column(p *plot.Plot, x float64, c Column) error {
	bar, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: 1}})
	if err != nil {
		return err
	}
	bar.Width, bar.Color = vg.Points(1), chart.Soft
	p.Add(bar)
	at := plotter.XYLabels{Labels: c.Labels}
	for _, y := range c.At {
		at.XYs = append(at.XYs, plotter.XY{X: x, Y: y})
	}
	if len(at.XYs) == 0 {
		return nil
	}
	labels, err := newBoxed(at, 4)
	if err != nil {
		return err
	}
	p.Add(labels)
	return nil
}

// Bars draws shares in [0, 1] as horizontal bars, the first at the top, with their values, on a figure that a
// telephone has room for.
func Bars(path, title, axis string, names []string, shares []float64) error {
	p := newPlot(title, axis, "")
	addGrid(p, false)
	p.X.LineStyle.Width = 0
	n := len(names)
	values, labels := make(plotter.Values, n), make([]string, n)
	at := plotter.XYLabels{}
	for i := range n { // the plot begins at the bottom
		values[i], labels[i] = shares[n-1-i], names[n-1-i]
		at.XYs = append(at.XYs, plotter.XY{X: values[i], Y: float64(i)})
		at.Labels = append(at.Labels, fmt.Sprintf("%.2f", values[i]))
	}
	bars, err := plotter.NewBarChart(values, vg.Points(14))
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	bars.Horizontal, bars.Color, bars.LineStyle.Width = true, chart.Colour(0), 0
	numbers, err := newBoxed(at, 4)
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	p.Add(bars, numbers)
	p.NominalY(labels...)
	p.X.Min, p.X.Max = 0, 1.08
	return save(p, 9*vg.Centimeter, vg.Length(3+n)*vg.Centimeter, path)
}
