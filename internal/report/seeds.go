package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/stats"
)

// SeedTable compares the M-Recall of the settings of each network across seeds: mean, sample standard deviation and
// number of the runs of both groups, the difference of the means with its 95 percent interval, and the p-value of
// Welch's test. It is nil if no network has two settings.
func (d *DataSet) SeedTable(name, what string, comparisons []*Comparison, of Measure) *Table {
	t := &Table{Name: name, Title: "M-Recall of settings across seeds on " + d.Name + ", " + what,
		Heads: []Head{{Name: "network"}, {Name: "base"}, {Name: "loss"}, {Over: "base", Name: "M-Recall", Number: true},
			{Over: "base", Name: "seeds", Number: true},
			{Over: "loss", Name: "M-Recall", Number: true}, {Over: "loss", Name: "seeds", Number: true},
			{Over: "Difference", Name: "points", Number: true}, {Over: "Difference", Name: "95 %", Number: true},
			{Over: "Difference", Name: "p", Number: true}}}
	var single, equal []string
	for i, c := range comparisons {
		base, target := c.Base.values(of), c.Target.values(of)
		if len(base) == 0 || len(target) == 0 {
			continue
		}
		difference, interval, p := signedCell([]float64{meanOf(target) - meanOf(base)}, 2), textCell("-"), textCell("-")
		switch test, err := stats.Welch(target, base, 0.95); {
		case errors.Is(err, stats.ErrOneValue):
			for _, g := range []*Group{c.Base, c.Target} {
				if n := g.Network + " " + g.Loss; len(g.values(of)) < 2 && !slices.Contains(single, n) {
					single = append(single, n)
				}
			}
		case err != nil:
			equal = append(equal, c.Base.Network+" "+c.Base.Loss+" and "+c.Target.Loss)
		default:
			interval, p = rangeCell(test.Interval, 2), pCell(test.P)
		}
		t.Rows = append(t.Rows, Row{Rule: i > 0 && comparisons[i-1].Base.Network != c.Base.Network,
			Cells: []Cell{textCell(c.Base.Network), textCell(c.Base.Loss), textCell(c.Target.Loss),
				statCell(base, 2), textCell(fmt.Sprint(len(base))), statCell(target, 2),
				textCell(fmt.Sprint(len(target))),
				difference, interval, p}})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	t.Notes = append(t.Notes, "Mean ± sample standard deviation over the runs; Welch's t-test, two-sided, for each "+
		"pair by itself.")
	if len(single) > 0 {
		t.Notes = append(t.Notes, "No test across seeds for "+strings.Join(single, ", ")+": one run says nothing of "+
			"the spread between runs; train two seeds or more.")
	}
	if len(equal) > 0 {
		t.Notes = append(t.Notes, "No test for "+strings.Join(equal, ", ")+": the runs of each are equal.")
	}
	return t
}

// Seeds compares runs that differ in their seed: a row for the best validation of each, and the mean with the sample
// standard deviation and the number of runs where there are two or more. Runs without a validation have no row.
func Seeds(runs []*Run) *Table {
	t := &Table{Name: "seeds", Title: "Best validation of each seed",
		Heads: []Head{{Name: "seed"}, {Name: "epoch", Number: true}}}
	for _, d := range directions {
		for _, n := range []string{"R@1", "R@5", "R@10"} {
			t.Heads = append(t.Heads, Head{d.name, n, true})
		}
	}
	t.Heads = append(t.Heads, Head{Name: "M-Recall", Number: true})
	row := func(name, epoch Cell, of []*Run) Row {
		g := &Group{Runs: of}
		m := measureAll([]*Group{g}, validationRecalls)[0]
		cells := []Cell{name, epoch}
		for _, d := range directions {
			for _, r := range m.recalls(d.of) {
				cells = append(cells, statCell(r, 1))
			}
		}
		return Row{Cells: append(cells, statCell(g.values(validationRecalls), 2))}
	}
	var with []*Run
	for _, r := range runs {
		best, ok := r.best()
		if !ok {
			continue
		}
		with = append(with, r)
		t.Rows = append(t.Rows, row(textCell(fmt.Sprint(r.Config.Seed)), numberCell(best.Epoch, 2), []*Run{r}))
	}
	if len(with) > 1 {
		all := row(textCell(fmt.Sprintf("mean, n = %d", len(with))), textCell(""), with)
		all.Rule, all.Bold = true, true
		t.Rows = append(t.Rows, all)
		t.Notes = append(t.Notes, "Mean ± sample standard deviation over the seeds.")
	}
	return t
}

// values returns the M-Recalls of the runs of a group.
func (g *Group) values(of Measure) (values []float64) {
	for _, r := range g.Runs {
		if m, ok := of(r); ok {
			values = append(values, m.MRecall)
		}
	}
	return values
}
