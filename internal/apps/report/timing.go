package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/run/bench"
	"vsetrain/models"
)

// line is y = slope·x + intercept; r2 is the share of the variance of y that it explains.
type line struct{ slope, intercept, r2 float64 }

// fitLine fits a line to points by least squares. ok is false if there are fewer than two different x.
func fitLine(x, y []float64) (f line, ok bool) {
	n := float64(len(x))
	mx, my := meanOf(x), meanOf(y)
	var xx, xy, yy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
		yy += (y[i] - my) * (y[i] - my)
	}
	if !(xx > 1e-12*n*mx*mx) {
		return f, false
	}
	f = line{slope: xy / xx, intercept: my - xy/xx*mx, r2: 1}
	if yy > 0 {
		f.r2 = xy * xy / (xx * yy)
	}
	return f, true
}

// OpenTiming reads a file that 'vsetrain bench --samples' wrote.
func OpenTiming(path string) (*bench.SamplesReport, error) {
	b, err := regular.ReadFile(path, maxJSON, "measured times")
	if err != nil {
		return nil, err
	}
	var r bench.SamplesReport
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: not a file of 'vsetrain bench --samples': %w", path, err)
	}
	if len(r.Points) == 0 {
		return nil, fmt.Errorf("%s: no measurement; run 'vsetrain bench --samples' again", path)
	}
	for i, p := range r.Points {
		if !(p.Seconds > 0 && p.LossSeconds >= 0 && p.Subset > 0 && p.Images > 0) {
			return nil, fmt.Errorf("%s: point %d (%s, subset %d): %v seconds, %v in the loss; expected positive times",
				path, i+1, p.Loss, p.Subset, p.Seconds, p.LossSeconds)
		}
	}
	return &r, nil
}

// Timing draws and tabulates computation time over the number of samples for each loss, with the paper's fitted lines
// T(n) = a·n + b, where n is the number of the subset.
func Timing(r *bench.SamplesReport) ([]*chart.Figure, *Table) {
	o := models.Options{Network: r.Network}
	network := o.Traits().Title
	whole := &chart.Figure{Name: "timing", Title: "Time of an epoch: " + network, X: "subset n", Y: "seconds",
		ZeroY: true, Legend: chart.TopLeft}
	inLoss := &chart.Figure{Name: "timing-loss", Title: "Time in the loss only: " + network, X: "subset n",
		Y: "milliseconds", ZeroY: true, Legend: chart.TopLeft}
	t := &Table{Name: "timing", Title: "Computation time and number of samples",
		Heads: heads("loss", ">An epoch|seconds, largest subset", ">An epoch|slope s", ">An epoch|intercept s",
			">An epoch|r²", ">In the loss|ms, largest subset", ">In the loss|slope ms", ">In the loss|intercept ms",
			">In the loss|r²"),
		Notes: []string{fmt.Sprintf("%s, batch %d, %s; subset n is the first %d·n images with their captions. T(n) = "+
			"slope·n + intercept by least squares.", network, r.Batch, r.Device, r.StepImages)}}
	for c, name := range r.Losses() {
		var x, epoch, loss []float64
		for _, p := range r.Points {
			if p.Loss == name {
				x, epoch, loss = append(x, float64(p.Subset)), append(epoch, p.Seconds),
					append(loss, 1000*p.LossSeconds)
			}
		}
		label := strings.ToUpper(name)
		var cells []Cell
		for _, half := range []struct {
			f *chart.Figure
			y []float64
		}{{whole, epoch}, {inLoss, loss}} {
			half.f.Series = append(half.f.Series, chart.Series{Name: label, Color: c, Marker: c, X: x, Y: half.y,
				Style: chart.Points})
			cells = append(cells, numberCell(half.y[len(half.y)-1], 3))
			fit, ok := fitLine(x, half.y)
			if !ok {
				cells = append(cells, textCell("-"), textCell("-"), textCell("-"))
				continue
			}
			cells = append(cells, numberCell(fit.slope, 3), numberCell(fit.intercept, 3), numberCell(fit.r2, 4))
			ends := []float64{x[0], x[len(x)-1]}
			half.f.Series = append(half.f.Series, chart.Series{Name: label + " fitted", Color: c, X: ends, Hidden: true,
				Y: []float64{fit.slope*ends[0] + fit.intercept, fit.slope*ends[1] + fit.intercept}})
		}
		t.row(false, label, cells)
	}
	return []*chart.Figure{whole, inLoss}, t
}
