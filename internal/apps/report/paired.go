package report

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/eval"
	"vsetrain/internal/compute/par"
)

// recallMeasure is a measure by which systems are compared, with its name in eval.Compare and its name for people.
type recallMeasure struct {
	key, name string
	of        func(eval.Metrics) float64
}

var recallMeasures = []recallMeasure{
	{"m_recall", "M-Recall", func(m eval.Metrics) float64 { return m.MRecall }},
	{"i2t_r1", "image to text R@1", func(m eval.Metrics) float64 { return m.I2T.R1 }},
	{"t2i_r1", "text to image R@1", func(m eval.Metrics) float64 { return m.T2I.R1 }},
	{"i2t_r5", "image to text R@5", func(m eval.Metrics) float64 { return m.I2T.R5 }},
	{"t2i_r5", "text to image R@5", func(m eval.Metrics) float64 { return m.T2I.R5 }},
	{"i2t_r10", "image to text R@10", func(m eval.Metrics) float64 { return m.I2T.R10 }},
	{"t2i_r10", "text to image R@10", func(m eval.Metrics) float64 { return m.T2I.R10 }},
}

// pairedMeasures are the measures in tables of differences; 'vsetrain eval --compare' prints all of them.
var pairedMeasures = recallMeasures[:3]

// pairedTable compares every loss with its base query by query on the test split: the mean recalls over the compared
// runs, and their difference with the interval and p-value of eval.Compare. It is nil if no pair of groups was
// measured.
func (d *DataSet) pairedTable(name, protocol string, comparisons []*Comparison) (*Table, error) {
	t := &Table{Name: name, Title: "Differences on " + d.Name + ", test split, protocol " + protocol +
		", weights of the best validation",
		Heads: heads("network", "base", "loss", "measure", ">base|recall", ">loss|recall", ">Difference|points",
			">Difference|95 %", ">Difference|p")}
	pool := par.New(0)
	defer pool.Close()
	images, ties := 0, 0
	for _, c := range comparisons {
		bases, targets, _ := c.sides(func(r *Run) bool { return len(hits([]*Run{r}, protocol)) > 0 })
		base, target := hits(bases, protocol), hits(targets, protocol)
		if len(base) == 0 || len(target) == 0 {
			continue
		}
		n, err := t.addPaired(pool, target, base, c.Base.Network, c.Base.Loss, c.Target.Loss)
		if err != nil {
			return nil, fmt.Errorf("compare %s %s and %s on %s: %w", c.Base.Network, c.Base.Loss, c.Target.Loss, d.Name,
				err)
		}
		images = n
	}
	if len(t.Rows) == 0 {
		return nil, nil
	}
	for _, r := range d.Runs() {
		m, _ := testRecalls(protocol)(r)
		ties = max(ties, m.Ties.I2T+m.Ties.T2I)
	}
	t.addHolm()
	t.Notes = append(t.Notes, "Recalls are means over the seeds, of those that both have where there are any. "+
		pairedNote(images),
		fmt.Sprintf("Ties: of equal scores the later in the file ranks first; the rank of at most %d queries of a run "+
			"depends on that.", ties))
	return t, nil
}

// addPaired adds the differences of recalls between two systems, after the cells that name them. It returns the number
// of images.
func (t *Table) addPaired(pool *par.Pool, target, base []eval.Hits, names ...any) (images int, err error) {
	r, err := eval.Compare(pool, target, base, eval.DefaultCompareOptions())
	if err != nil {
		return 0, err
	}
	for i, m := range pairedMeasures {
		at := slices.IndexFunc(r.Differences, func(x eval.Difference) bool { return x.Measure == m.key })
		x := r.Differences[at]
		t.row(i == 0 && len(t.Rows) > 0, append(slices.Clone(names), m.name, numberCell(x.B.Value, 2),
			numberCell(x.A.Value, 2), signedCell([]float64{x.Difference.Value}, 2),
			rangeCell(x.Difference.Interval, 2), pCell(x.P))...)
	}
	return r.Images, nil
}

// pairedNote says how differences were tested.
func pairedNote(images int) string {
	o := eval.DefaultCompareOptions()
	return fmt.Sprintf("95 %%: paired bootstrap over %d images with their captions; p: paired permutation test, "+
		"two-sided; %d resamples, seed %d. They say how far other queries would agree, not other seeds.",
		images, o.Resamples, o.Seed)
}

// RunDifferences compares runs with a base, query by query, under the first protocol of the base. Runs without measures
// of the same queries are left out. It is nil if no run can be compared.
func RunDifferences(base *Run, others []*Run) (*Table, error) {
	if len(base.Hits) == 0 {
		return nil, nil
	}
	pool := par.New(0)
	defer pool.Close()
	b := base.Hits[0]
	t := &Table{Name: "differences", Title: "Differences from " + base.Name + ", test split, protocol " + b.Protocol +
		", weights of the best validation",
		Heads: heads("run", "measure", ">base", ">run", ">Difference|points", ">Difference|95 %", ">Difference|p")}
	for _, r := range others {
		i := slices.IndexFunc(r.Hits, func(h eval.Hits) bool { return h.SameQueries(&b) })
		if i < 0 {
			continue
		}
		if _, err := t.addPaired(pool, r.Hits[i:i+1], base.Hits[:1], r.Name); err != nil {
			return nil, fmt.Errorf("compare %s and %s: %w", base.Name, r.Name, err)
		}
	}
	if len(t.Rows) == 0 {
		return nil, nil
	}
	t.addHolm()
	t.Notes = append(t.Notes, pairedNote(b.Images()))
	return t, nil
}

// hits returns the hits of runs under a protocol.
func hits(runs []*Run, protocol string) (hits []eval.Hits) {
	for _, r := range runs {
		for _, h := range r.Hits {
			if h.Protocol == protocol {
				hits = append(hits, h)
			}
		}
	}
	return hits
}

// JudgedTables returns a table for each set of judgements, with a row for each network and loss.
func (d *DataSet) JudgedTables() (tables []*Table) {
	var names []string
	for _, r := range d.Runs() {
		for _, j := range r.Judged {
			if !slices.Contains(names, j.Name) {
				names = append(names, j.Name)
			}
		}
	}
	for _, name := range names {
		t := &Table{Name: "judged-" + slug(name), Title: "Judgements " + name + " on " + d.Name +
			", whole test split, weights of the best validation", Heads: slices.Concat(heads("network", "loss"),
			directionHeads("mAP@R", "R-Precision", "R@1"), heads(">seeds"))}
		var about eval.JudgedMetrics
		for i, g := range d.Groups {
			var values [6][]float64
			for _, r := range g.Runs {
				for _, j := range r.Judged {
					if j.Name != name {
						continue
					}
					about = j
					for c, v := range []float64{j.I2T.MAPAtR, j.I2T.RPrecision, j.I2T.R1, j.T2I.MAPAtR,
						j.T2I.RPrecision, j.T2I.R1} {
						values[c] = append(values[c], v)
					}
				}
			}
			if len(values[0]) == 0 {
				continue
			}
			t.row(i > 0 && d.Groups[i-1].Network != g.Network && len(t.Rows) > 0, g.Network, g.Loss,
				statCells(values[:]), fmt.Sprint(len(values[0])))
		}
		note := fmt.Sprintf("%d images with %d right captions, %d captions with %d right images (docs/evaluation.md).",
			about.I2T.Queries, about.I2T.Positives, about.T2I.Queries, about.T2I.Positives)
		if n := about.I2T.Absent + about.T2I.Absent; n > 0 {
			note = strings.TrimSuffix(note, ".") + fmt.Sprintf("; %d of those are not in the split.", n)
		}
		t.Notes = append(t.Notes, note)
		tables = append(tables, t)
	}
	return tables
}
