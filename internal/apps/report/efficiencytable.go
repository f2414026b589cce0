package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"vsetrain/internal/stats"
)

// Comparison says how soon the runs of a group pass the best M-Recall of a base group of the same network and data set.
type Comparison struct {
	Base, Target *Group
	Pairs        []Efficiency // pairs of runs with the same seed; all pairs if the groups share no seed
	BySeed       bool
	OrEqual      bool
}

// Comparisons pairs the groups of a data set as the paper does: every LSEH with every other loss of its network, and
// LSEH with the usual semantic vectors with LSEH with others. In a network that lacks one of these kinds, the first
// group is the base of the others. A base that was chosen is the base of all others of its network.
func (d *DataSet) Comparisons(orEqual bool) []*Comparison {
	var out []*Comparison
	for _, groups := range d.networks() {
		var bases, targets []*Group
		for _, g := range groups {
			if g.kind() >= 0 {
				targets = append(targets, g)
			} else {
				bases = append(bases, g)
			}
		}
		chosen := slices.Index(groups, d.Base)
		if at := max(chosen, 0); chosen >= 0 || len(bases) == 0 || len(targets) == 0 {
			bases, targets = groups[at:at+1], slices.Concat(groups[:at], groups[at+1:])
		}
		for _, b := range bases {
			for _, t := range targets {
				if c := compareGroups(b, t, orEqual); len(c.Pairs) > 0 {
					out = append(out, c)
				}
			}
		}
		usual := slices.IndexFunc(groups, func(g *Group) bool { return g.kind() == 0 })
		other := slices.IndexFunc(groups, func(g *Group) bool { return g.kind() > 0 })
		if usual >= 0 && other >= 0 && chosen < 0 && bases[0] != groups[usual] {
			if c := compareGroups(groups[usual], groups[other], orEqual); len(c.Pairs) > 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

func compareGroups(base, target *Group, orEqual bool) *Comparison {
	c := &Comparison{Base: base, Target: target, OrEqual: orEqual}
	bases, targets, bySeed := c.sides(func(r *Run) bool { return len(r.Validations) > 0 })
	c.BySeed = bySeed
	for _, b := range bases {
		for _, t := range targets {
			if !bySeed || b.Config.Seed == t.Config.Seed {
				e := Compare(&b.Log, &t.Log, orEqual)
				if e.Collapsed = b.Collapsed(); e.Collapsed {
					e.Reached = false
				}
				c.Pairs = append(c.Pairs, e)
			}
		}
	}
	return c
}

// sides returns the runs of both groups that can be compared: the runs for which has is true, of the seeds that are in
// both groups (bySeed), or of all seeds if the groups share none.
func (c *Comparison) sides(has func(*Run) bool) (base, target []*Run, bySeed bool) {
	with := func(runs, others []*Run, bySeed bool) []*Run {
		return slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool {
			return !has(r) || bySeed && !slices.ContainsFunc(others, func(o *Run) bool {
				return has(o) && o.Config.Seed == r.Config.Seed
			})
		})
	}
	b, t := c.Base.Runs, c.Target.Runs
	if base = with(b, t, true); len(base) > 0 {
		return base, with(t, b, true), true
	}
	return with(b, t, false), with(t, b, false), false
}

// differences returns the differences of the pairs in epochs and in percent. It returns none if a pair did not reach
// the best of the base, because the mean of the other pairs would favour the loss.
func (c *Comparison) differences() (epochs, percent []float64) {
	for _, e := range c.Pairs {
		if !e.Reached {
			return nil, nil
		}
		abs, pct := e.Difference()
		epochs, percent = append(epochs, abs), append(percent, pct)
	}
	return epochs, percent
}

// intervalColumn is the column of intervals in the table of efficiency. It is dropped if it has none.
const intervalColumn = 8

// interval shows the interval of the mean difference in epochs over the seeds.
func (c *Comparison) interval(epochs []float64) Cell {
	if !c.BySeed {
		return textCell("-")
	}
	t, err := stats.OneSample(epochs, 0.95)
	if err != nil {
		return textCell("-")
	}
	return rangeCell(t.Interval, 1)
}

// efficiencyTable is the paper's table of training efficiency of a data set: when each loss reached or passed the best
// M-Recall of its base, the difference, and its average over networks if several networks all reached it.
func (d *DataSet) efficiencyTable(comparisons []*Comparison) *Table {
	how, sign := "exceeds", ">"
	if len(comparisons) > 0 && comparisons[0].OrEqual {
		how, sign = "reaches", "≥"
	}
	t := &Table{Name: "efficiency", Title: "Training efficiency on " + d.Name,
		Heads: heads("network", "base", "loss", ">base|best M-Recall", ">base|at epoch",
			">loss|"+sign+" best at epoch", ">Difference|epochs", ">Difference|%", ">Difference|95 % of epochs",
			">runs"),
		Notes: []string{"The epoch at which the loss first " + how + " the best validation M-Recall of its base, " +
			"less the epoch at which the base reached it; negative is faster."}}
	type mean struct{ epochs, percent []float64 }
	averages, order, some := map[[2]string]*mean{}, [][2]string(nil), false // by the losses of base and target
	for i, c := range comparisons {
		var best, at, target []float64
		missing := 0
		for _, e := range c.Pairs {
			best, at = append(best, e.BaseBest), append(at, e.BaseEpochs)
			if !e.Reached {
				e.Epochs = math.NaN()
				missing++
			}
			target = append(target, e.Epochs)
		}
		epochs, percent := c.differences()
		runs, reached := fmt.Sprint(len(c.Pairs)), reachedCell(target, 1)
		if missing > 0 {
			runs = fmt.Sprintf("%d of %d", len(target)-missing, len(c.Pairs))
			some = true
			switch {
			case !slices.ContainsFunc(c.Pairs, func(e Efficiency) bool { return !e.Collapsed }):
				reached = textCell("base collapsed")
			case missing == len(target):
				reached = textCell("not reached")
			}
		}
		if !c.BySeed && len(c.Pairs) > 1 {
			runs += " pairs"
		}
		t.row(i > 0 && comparisons[i-1].Base.Network != c.Base.Network, c.Base.Network, c.Base.Loss, c.Target.Loss,
			statCell(best, 1), statCell(at, 1), reached, signedCell(epochs, 1), signedCell(percent, 1),
			c.interval(epochs), runs)
		key := [2]string{c.Base.Loss, c.Target.Loss}
		if averages[key] == nil {
			averages[key], order = &mean{}, append(order, key)
		}
		m := averages[key]
		m.epochs, m.percent = append(m.epochs, meanOf(epochs)), append(m.percent, meanOf(percent))
	}
	for i, key := range order {
		m := averages[key]
		if len(m.epochs) < 2 || math.IsNaN(meanOf(m.epochs)) { // a network did not reach it
			continue
		}
		t.row(i == 0, "average", key[0], key[1], "", "", "", signedCell([]float64{meanOf(m.epochs)}, 1),
			signedCell([]float64{meanOf(m.percent)}, 1), "", fmt.Sprintf("%d networks", len(m.epochs)))
		t.Rows[len(t.Rows)-1].Bold = true
	}
	if !slices.ContainsFunc(t.Rows, func(r Row) bool { return strings.Contains(r.Cells[intervalColumn].Text, "to") }) {
		t.dropColumn(intervalColumn)
	} else {
		t.Notes = append(t.Notes, "Numbers of several pairs: mean ± sample standard deviation; 95 %: interval of the "+
			"mean difference by Student's t, one pair a seed.")
	}
	if running := d.names(func(r *Run) bool { return !r.Finished() }); len(running) > 0 {
		t.Notes = append(t.Notes, "Not finished, counted as they stand: "+strings.Join(running, ", ")+".")
	}
	if slices.ContainsFunc(comparisons, func(c *Comparison) bool {
		return slices.ContainsFunc(c.Pairs, func(e Efficiency) bool { return e.Collapsed })
	}) {
		t.Notes = append(t.Notes, "No efficiency is computed from a base that collapsed: "+
			strings.Join(d.names((*Run).Collapsed), ", ")+". Start it with loss.warmup_epochs: 1, or with a lower "+
			"optim.lr.")
	}
	if some {
		t.Notes = append(t.Notes, "If a pair did not reach the best of its base, the row has no difference, and the "+
			"networks have no average.")
	}
	return t
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
