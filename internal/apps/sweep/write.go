package sweep

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/csvfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/config"
)

// Write writes the tables (results.csv, results.json), the best configuration (best.yaml), the plots (parallel,
// importance; .svg and .pdf) and their manifest into a folder and returns the files. With own, the folder belongs to
// the sweep, and existing files are replaced.
func (c *Collection) Write(d *Definition, dir string, own bool) (files []string, err error) {
	f, err := integrity.NewFolder(dir)
	if err != nil {
		return nil, err
	}
	f.Replace = own
	defer f.Abort()
	add := func(name string, write func(io.Writer) error) {
		if err == nil {
			err = f.Write(name, write)
		}
	}
	results, err := json.MarshalIndent(c, "", "  ")
	add("results.csv", func(w io.Writer) error { return c.csv(d, w) })
	add("results.json", atomicfile.Bytes(integrity.Seal(append(results, '\n'))))
	plot := func(name string, p *chart.Drawing) {
		add(name+".svg", atomicfile.Bytes(p.SVG()))
		add(name+".pdf", atomicfile.Bytes(p.PDF()))
	}
	if len(c.Rows) > 0 {
		add("best.yaml", c.bestConfig)
		if len(d.Axes) > 0 {
			plot("parallel", c.parallel(d))
		}
		if len(c.Importance) > 0 {
			plot("importance", c.bars())
		}
	}
	if err != nil {
		return nil, err
	}
	files = f.Paths()
	return files, f.Commit()
}

// csv writes a line for each seed of each point, the best point first.
func (c *Collection) csv(d *Definition, w io.Writer) error {
	out := csvfile.NewWriter(w)
	keys := d.Keys()
	head := append([]string{"point", "trial", "seed", "epochs"}, keys...)
	if err := out.Write(append(head, c.Metric, "best_epoch", "mean", "std", "rank")); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, r := range c.Rows {
		std := ""
		if r.Std != nil {
			std = number(*r.Std)
		}
		for _, s := range r.Seeds {
			line := []string{strconv.Itoa(r.Number), s.ID, strconv.FormatUint(s.Seed, 10), strconv.Itoa(r.Epochs)}
			for _, k := range keys {
				line = append(line, r.Point.Text(k))
			}
			line = append(line, number(s.Score), number(s.BestEpoch), number(r.Mean), std, strconv.Itoa(r.Rank))
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// bestConfig writes the configuration of the best point, its best seed, ready for `vsetrain train`.
func (c *Collection) bestConfig(w io.Writer) error {
	best := c.Best()
	r, cfg := best[0], c.best.Config
	cfg.Run.Dir = ""
	seeds := fmt.Sprintf("seed %d", r.Seeds[0].Seed)
	if n := len(r.Seeds); n > 1 {
		seeds = fmt.Sprintf("mean of %d seeds", n)
	}
	more := ""
	if n := len(best); n > 1 {
		more = fmt.Sprintf("# %d points are equal; this is the first of them:\n", n)
		for _, r := range best[1:] {
			more += fmt.Sprintf("#   %s\n", r.Point)
		}
	}
	for _, axis := range c.NoEffect {
		more += fmt.Sprintf("# %s had no effect.\n", axis)
	}
	_, err := fmt.Fprintf(w, "# Best point of the sweep in %s: %s\n# %s %.2f (%s) after %s; trial %s\n%s%s",
		c.Dir, r.Point, c.Metric, r.Mean, seeds, epochs(r.Epochs), c.best.ID, more, config.Marshal(&cfg))
	return err
}

func epochs(n int) string {
	if n == 1 {
		return "1 epoch"
	}
	return fmt.Sprintf("%d epochs", n)
}

func (c *Collection) named(axis string) string {
	if slices.Contains(c.NoEffect, axis) {
		return axis + " (no effect)"
	}
	return axis
}

var metricTitles = map[string]string{"m_recall": "M-Recall", "rsum": "sum of recalls", "i2t_r1": "image to text R@1",
	"t2i_r1": "text to image R@1"}

// parallel draws a line for each point over the metric and the axes. The metric is first, for narrow pages.
func (c *Collection) parallel(d *Definition) *chart.Drawing {
	lo, hi := c.Rows[len(c.Rows)-1].Mean, c.Rows[0].Mean
	score := chart.Axis{Lo: lo, Hi: hi, To: 1}
	if hi == lo {
		score = chart.Axis{Lo: lo - 1, Hi: lo + 1, To: 1}
	}
	result := chart.Column{Name: metricTitles[c.Metric]}
	for _, v := range score.Ticks(5) {
		result.Labels, result.At = append(result.Labels, chart.Number(v)), append(result.At, score.At(v))
	}
	columns := []chart.Column{result}
	for _, key := range d.Keys() {
		col := chart.Column{Name: c.named(key)}
		for i := range d.Axes {
			if a := &d.Axes[i]; a.Key() == key {
				labels, at := a.ticks()
				col.Labels, col.At = append(col.Labels, labels...), append(col.At, at...)
			}
		}
		columns = append(columns, col)
	}
	var tracks []chart.Track
	for _, r := range c.Rows {
		t := chart.Track{At: []float64{score.At(r.Mean)}, Value: r.Mean}
		for _, key := range d.Keys() {
			y := math.NaN()
			if c := r.Point.choice(key); c.Axis >= 0 {
				y = d.Axes[c.Axis].coordinate(c.Value)
			}
			t.At = append(t.At, y)
		}
		tracks = append(tracks, t)
	}
	title := fmt.Sprintf("%d points, the thickest line is the best", len(tracks))
	if n := len(c.Best()); n > 1 {
		title = fmt.Sprintf("%d points, the thickest lines are the best %d,\nwhich are equal", len(tracks), n)
	}
	if c.Method == ASHA {
		title += " (after the epochs each was given)"
	}
	return chart.Parallel(title, columns, tracks)
}

// ticks labels a column: every value of a list, up to ten of them, or five points of an interval.
func (a *Axis) ticks() (labels []string, at []float64) {
	if a.Continuous() {
		for i := range 5 {
			u := float64(i) / 4
			v := a.at(u)
			labels, at = append(labels, strconv.FormatFloat(v.Number, 'g', 3, 64)), append(at, u)
		}
		return labels, at
	}
	step := (len(a.Values) + 9) / 10
	for i := 0; i < len(a.Values); i += step {
		labels, at = append(labels, a.Values[i].Text), append(at, a.coordinate(a.Values[i]))
	}
	return labels, at
}

func (c *Collection) bars() *chart.Drawing {
	var names []string
	var shares []float64
	for _, x := range c.Importance {
		names, shares = append(names, c.named(x.Axis)), append(shares, x.Share)
	}
	first := c.Importance[0]
	title := fmt.Sprintf("Main effects on %s,\n%d points after %s", metricTitles[c.Metric], first.Points,
		epochs(first.Epochs))
	if c.Overlap > 0 {
		title += fmt.Sprintf(";\nthey overlap (sum %.2f)", c.Overlap)
	}
	bars := chart.Bars{Title: title, X: "share of variance (ε²)", Groups: names, Series: []chart.Series{{X: shares}},
		Width: 9, Label: func(v float64) string { return fmt.Sprintf("%.2f", v) }} // for a telephone
	return bars.Draw()
}
