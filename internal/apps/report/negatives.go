package report

import (
	"fmt"
	"math"
	"strings"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/run/records"
	"vsetrain/train"
)

// counts is one kind of unique hard negatives (#ImEmbs and #DesEmbs of the LSEH paper).
type counts struct {
	file, name, what string // file is the end of the name of its figure
	of               func(s *records.StepRecord) (float64, bool)
}

// activeOf returns the count over the violated anchors of a step. Old logs do not have it (nil); they have it in place
// of the count over all anchors, one too high if the batch had an anchor without a violation.
func activeOf(active *int, all int) (float64, bool) {
	if active != nil {
		return float64(*active), true
	}
	return float64(all), all > 0
}

// kinds are the counts that are drawn. Old logs only have the counts over violated anchors, at most one too high.
var kinds = []counts{
	{"captions", "#DesEmbs", "different captions among the hard negatives of all images",
		func(s *records.StepRecord) (float64, bool) { return float64(s.HardCaptions), s.ActiveCaptions != nil }},
	{"images", "#ImEmbs", "different images among the hard negatives of all captions",
		func(s *records.StepRecord) (float64, bool) { return float64(s.HardImages), s.ActiveImages != nil }},
	{"captions-violated", "#DesEmbs, violated only",
		"different captions among the hard negatives of the images whose margin is violated",
		func(s *records.StepRecord) (float64, bool) { return activeOf(s.ActiveCaptions, s.HardCaptions) }},
	{"images-violated", "#ImEmbs, violated only",
		"different images among the hard negatives of the captions whose margin is violated",
		func(s *records.StepRecord) (float64, bool) { return activeOf(s.ActiveImages, s.HardImages) }},
	{"false", "false hard negatives, %", fmt.Sprintf("share of the hard negatives whose semantic similarity to "+
		"their anchor is at least %v", train.FalseSimilarity), func(s *records.StepRecord) (float64, bool) {
		if s.HardFalse == nil {
			return 0, false
		}
		return *s.HardFalse, true
	}},
}

// movingAverage returns, at each position, the mean of the last n values, or of all values so far.
func movingAverage(values []float64, n int) []float64 {
	out, sum := make([]float64, len(values)), 0.0
	for i, v := range values {
		sum += v
		if i >= n {
			sum -= values[i-n]
		}
		out[i] = sum / float64(min(i+1, n))
	}
	return out
}

// averageOver returns the number of logged batches in a moving average: half an epoch, but at least five.
func averageOver(x []float64) int {
	if len(x) < 2 || x[len(x)-1] <= x[0] {
		return 5
	}
	perEpoch := float64(len(x)-1) / (x[len(x)-1] - x[0])
	return max(5, int(math.Round(perEpoch/2)))
}

// negativeFigures draws, for each network of a data set, moving averages of the unique hard negatives of a batch over
// epochs, and tabulates their peaks.
func (d *DataSet) negativeFigures() (figures []*chart.Figure, peaks *Table) {
	peaks = &Table{Name: "negatives", Title: "Unique hard negatives of a batch on " + d.Name +
		", highest moving average",
		Heads: heads("network", "loss", "run", ">batch", "count", ">peak", ">at epoch")}
	for _, groups := range d.networks() {
		markers, names := seedMarkers(groups)
		for _, kind := range kinds {
			f := &chart.Figure{Name: "negatives-" + slug(groups[0].Network) + "-" + kind.file,
				Title: strings.ToUpper(kind.name[:1]) + kind.name[1:] + ": " + groups[0].Network + " on " + d.Name,
				X:     "epoch", Y: kind.name, Markers: names, Legend: chart.TopRight}
			old, window := false, 0
			for c, g := range groups {
				for _, r := range g.Runs {
					s := chart.Series{Name: g.Loss, Color: c, Marker: markers[r.Config.Seed]}
					if len(names) > 0 {
						s.Style = chart.Marked
					}
					for i := range r.Steps {
						st := &r.Steps[i]
						if v, ok := kind.of(st); ok {
							s.X, s.Y = append(s.X, st.Epoch), append(s.Y, v)
							old = old || st.ActiveCaptions == nil && st.HardFalse == nil
						}
					}
					if len(s.X) == 0 {
						continue
					}
					window = max(window, averageOver(s.X))
					s.Y = movingAverage(s.Y, averageOver(s.X))
					f.Series = append(f.Series, s)
					at := peak(s.Y)
					peaks.row(false, g.Network, g.Loss, r.Name, fmt.Sprint(r.Config.Train.Batch), kind.name,
						numberCell(s.Y[at], 1), numberCell(s.X[at], 1))
				}
			}
			if len(f.Series) == 0 {
				continue
			}
			f.Caption = strings.ToUpper(kind.what[:1]) + kind.what[1:] +
				fmt.Sprintf("; moving average of %d logged batches.", window)
			if old {
				f.Caption += " Some runs were logged by an older version, whose counts are at most one too high."
			}
			figures = append(figures, f)
		}
	}
	return figures, peaks
}

// peak returns the index of the largest value, without the first averages of a run, which are over few batches.
func peak(values []float64) int {
	at := min(4, len(values)-1)
	for i := at; i < len(values); i++ {
		if values[i] > values[at] {
			at = i
		}
	}
	return at
}
