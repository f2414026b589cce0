package main

import (
	"vsetrain/internal/apps/chart"
	"vsetrain/internal/run/config"
)

// margins draws the margins of the losses that the LSEH paper compares, as their presets set them.
func margins() (*chart.Figure, error) {
	f := &chart.Figure{Title: "Margin of a negative pair over the semantic similarity of its captions",
		X: "similarity Sim", Y: "margin", Legend: chart.TopLeft}
	for i, preset := range []string{"vsepp/f30k-benchmark", "vsepp/f30k-lmh2", "vsepp/f30k-lseh"} {
		r, err := config.Load(config.Request{Preset: preset})
		if err != nil {
			return nil, err
		}
		o := r.Config.Loss
		rise := 0.0
		if o.HasMargins() {
			rise = o.LSEH.Lambda
		}
		f.Series = append(f.Series, chart.Series{Name: []string{"LMH1", "LMH2", o.Title()}[i], Color: []int{0, 2, 1}[i],
			X: []float64{-1, 1}, Y: []float64{o.Margin - rise, o.Margin + rise}})
	}
	return f, nil
}
