package main

import (
	"vsetrain/internal/apps/chart"
	"vsetrain/internal/run/config"
)

// marginLine is the margin of a loss over the semantic similarity of two captions: at -1 and at 1.
type marginLine struct {
	name, color string
	from, to    float64
}

// margins returns the lines of the losses that the LSEH paper compares, as their presets set them.
func margins() (lines []marginLine, err error) {
	for i, preset := range []string{"vsepp/f30k-benchmark", "vsepp/f30k-lmh2", "vsepp/f30k-lseh"} {
		r, err := config.Load(config.Request{Preset: preset})
		if err != nil {
			return nil, err
		}
		o := r.Config.Loss
		l := marginLine{[]string{"LMH1", "LMH2", o.Title()}[i], []string{blue, green, orange}[i], o.Margin, o.Margin}
		if o.HasMargins() {
			l.from, l.to = o.Margin-o.LSEH.Lambda, o.Margin+o.LSEH.Lambda
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// marginsChart draws them: margins of 0.15 to 0.22 over similarities of -1 to 1.
func marginsChart(lines []marginLine) []byte {
	const left, right, top, bottom, width = 70.0, 80.0, 40.0, 260.0, 560.0
	const low, high = 0.15, 0.22
	c := newCanvas(width, bottom+50, "Margin of a negative pair over the semantic similarity of its captions")
	x := func(v float64) float64 { return left + (v+1)/2*(width-left-right) }
	y := func(v float64) float64 { return bottom - (v-low)/(high-low)*(bottom-top) }
	c.text(width/2, 18, "middle", "Margin of a negative pair over the semantic similarity of its captions")
	for _, v := range chart.Ticks(low, high, 5) {
		c.line(x(-1), y(v), x(1), y(v), grid, 1)
		c.text(left-8, y(v)+4, "end", chart.Number(v))
	}
	for _, v := range chart.Ticks(-1, 1, 5) {
		c.line(x(v), top, x(v), bottom, grid, 1)
		c.text(x(v), bottom+18, "middle", chart.Number(v))
	}
	c.text((left+width-right)/2, bottom+38, "middle", "similarity Sim")
	for _, l := range lines {
		c.line(x(-1), y(l.from), x(1), y(l.to), l.color, 2)
		c.text(x(1)+8, y(l.to)+4, "start", l.name)
	}
	return c.bytes()
}
