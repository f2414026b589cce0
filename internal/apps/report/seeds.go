package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"vsetrain/internal/stats"
)

// Primary is the primary measure of a study, and the split on which it is measured: "test" or "dev".
type Primary struct{ Measure, Split string }

// ParsePrimary reads MEASURE@SPLIT.
func ParsePrimary(s string) (Primary, error) {
	measure, split, _ := strings.Cut(s, "@")
	var keys []string
	for _, m := range recallMeasures {
		keys = append(keys, m.key)
	}
	if !slices.Contains(keys, measure) || split != "test" && split != "dev" {
		return Primary{}, fmt.Errorf("expected MEASURE@test or MEASURE@dev with a measure of %s, found %q",
			strings.Join(keys, ", "), s)
	}
	return Primary{measure, split}, nil
}

// score is a number of a run by which settings are compared across seeds.
type score struct {
	name     string
	of       func(*Run) (value float64, ok bool) // NaN if the run did not reach a threshold
	decimals int
}

// recallScore returns the measure with a key of recallMeasures as a score.
func recallScore(key string, of recallsOf) score {
	m := recallMeasures[slices.IndexFunc(recallMeasures, func(m recallMeasure) bool { return m.key == key })]
	return score{m.name, func(r *Run) (float64, bool) {
		v, ok := of(r)
		return m.of(v), ok
	}, 2}
}

// speedScores measure how fast runs learn: the M-Recall on dev after each of the given numbers of epochs, and the
// epochs to pass an M-Recall (0 for none).
func speedScores(after []int, pass float64, orEqual bool) (scores []score) {
	const rounding = 1e-9 // of an epoch position, a quotient of steps
	for _, k := range after {
		end := float64(k) + rounding
		scores = append(scores, score{fmt.Sprintf("M-Recall after epoch %d", k), func(r *Run) (v float64, ok bool) {
			for _, p := range r.Validations {
				if p.Epoch <= end {
					v, ok = p.MRecall, true
				}
			}
			return v, ok && r.Epochs() > float64(k)-rounding
		}, 2})
	}
	if pass > 0 {
		scores = append(scores, score{fmt.Sprintf("epochs to pass %g", pass), func(r *Run) (float64, bool) {
			epoch, reached := r.epochsToExceed(pass, orEqual)
			if !reached {
				epoch = math.NaN()
			}
			return epoch, len(r.Validations) > 0
		}, 1})
	}
	return scores
}

// samples returns the values of both sides of a comparison; bySeed says that they are pairs.
func (c *Comparison) samples(of score) (base, target []float64, bySeed bool) {
	bases, targets, bySeed := c.sides(func(r *Run) bool {
		_, ok := of.of(r)
		return ok
	})
	values := func(runs []*Run) (all []float64) {
		for _, r := range runs {
			v, _ := of.of(r)
			all = append(all, v)
		}
		return all
	}
	return values(bases), values(targets), bySeed
}

// seedTable compares the settings of each network across seeds by some scores: the means, their difference with its 95
// percent interval, the p-value of Student's test on the differences of pairs or of Welch's test, and with a margin the
// test of equivalence. It is nil if no setting has several seeds.
func (d *DataSet) seedTable(name, title string, comparisons []*Comparison, margin float64, scores ...score) *Table {
	if !slices.ContainsFunc(d.Groups, func(g *Group) bool { return len(g.Runs) > 1 }) {
		return nil
	}
	t := &Table{Name: name, Title: title, Heads: heads("network", "base", "loss", "measure", ">base|mean",
		">loss|mean", ">Difference|mean", ">Difference|95 %", ">Difference|p")}
	if margin > 0 {
		t.Heads = append(t.Heads, Head{fmt.Sprintf("Equal within ±%g", margin), "p", true})
	}
	t.Heads = append(t.Heads, heads("test")...)
	untested := false
	for i, c := range comparisons {
		for n, s := range scores {
			base, target, bySeed := c.samples(s)
			if len(base) == 0 || len(target) == 0 {
				continue
			}
			cells := []any{c.Base.Network, c.Base.Loss, c.Target.Loss, s.name, reachedCell(base, s.decimals),
				reachedCell(target, s.decimals)}
			difference, interval, p, equal := signedCell([]float64{meanOf(target) - meanOf(base)}, s.decimals),
				textCell("-"), textCell("-"), textCell("-")
			how := fmt.Sprintf("Welch (n = %d, %d)", len(base), len(target))
			test, err := stats.Welch(target, base, 0.95)
			if bySeed {
				how = fmt.Sprintf("paired by seed (n = %d)", len(base))
				pairs := slices.Clone(target)
				for i := range pairs {
					pairs[i] -= base[i]
				}
				test, err = stats.OneSample(pairs, 0.95)
			}
			if math.IsNaN(difference.Value) {
				difference, how = textCell("-"), "none: not passed by all"
			} else if err != nil {
				how, untested = "none: "+how, true
			} else {
				interval, p = rangeCell(test.Interval, s.decimals), pCell(test.P)
				equal = pCell(test.Equivalence(margin))
			}
			cells = append(cells, difference, interval, p)
			if margin > 0 {
				cells = append(cells, equal)
			}
			t.row(n == 0 && i > 0 && (len(scores) > 1 || comparisons[i-1].Base.Network != c.Base.Network),
				append(cells, how)...)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	if len(scores) == 1 {
		t.dropColumn(3)
	}
	t.Notes = append(t.Notes, "Mean ± sample standard deviation over the seeds. Settings that share seeds are "+
		"compared by these seeds alone: Student's t-test of the differences, seed by seed; others by Welch's t-test. "+
		"Two-sided.")
	t.addHolm()
	if margin > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("Equal within ±%g: two one-sided t-tests; a small p says that the means "+
			"differ by less than %g.", margin, margin))
	}
	if untested {
		t.Notes = append(t.Notes, "No test where there is one seed or one pair, which says nothing of the spread "+
			"between seeds (train two seeds or more), nor where all differences are equal.")
	}
	return t
}

// reachedCell is statCell over the runs that reached a threshold. It says how many did if not all of them did.
func reachedCell(values []float64, decimals int) Cell {
	reached := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	c := statCell(reached, decimals)
	if len(reached) < len(values) {
		c.Text += fmt.Sprintf(" (%d of %d)", len(reached), len(values))
	}
	return c
}

// Seeds compares runs that differ in their seed: a row for the best validation of each run and, for two or more runs, a
// row with the mean, the sample standard deviation and the number of runs. Runs without a validation have no row.
func Seeds(runs []*Run) *Table {
	t := &Table{Name: "seeds", Title: "Best validation of each seed",
		Heads: slices.Concat(heads("seed", ">epoch"), directionHeads("R@1", "R@5", "R@10"), heads(">M-Recall"))}
	row := func(rule bool, name string, epoch Cell, of []*Run) {
		m := measureAll([]*Group{{Runs: of}}, validationRecalls)[0]
		t.row(rule, name, epoch, statCells(m.recalls(directions[0].of)), statCells(m.recalls(directions[1].of)),
			statCell(m.mRecalls(), 2))
	}
	var with []*Run
	for _, r := range runs {
		best, ok := r.Best()
		if !ok {
			continue
		}
		with = append(with, r)
		row(false, fmt.Sprint(r.Config.Seed), numberCell(best.Epoch, 2), []*Run{r})
	}
	if len(with) > 1 {
		row(true, fmt.Sprintf("mean, n = %d", len(with)), textCell(""), with)
		t.Rows[len(t.Rows)-1].Bold = true
		t.Notes = append(t.Notes, "Mean ± sample standard deviation over the seeds.")
	}
	return t
}
