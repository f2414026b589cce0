package report

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/eval"
)

// recallsOf returns the recalls of a run that a table shows; ok is false if the run has none.
type recallsOf func(*Run) (m eval.Metrics, ok bool)

// validationRecalls returns the recalls of the best validation of a run.
func validationRecalls(r *Run) (eval.Metrics, bool) {
	v, ok := r.Best()
	return eval.Metrics{I2T: v.I2T, T2I: v.T2I, RSum: v.RSum, MRecall: v.MRecall}, ok
}

// testRecalls returns the recalls on the test split under a protocol.
func testRecalls(protocol string) recallsOf {
	return func(r *Run) (eval.Metrics, bool) {
		for _, m := range r.Test {
			if m.Protocol == protocol {
				return m, true
			}
		}
		return eval.Metrics{}, false
	}
}

// directions are the two halves of a recall table.
var directions = []struct {
	name string
	of   func(m eval.Metrics) eval.Recalls
}{{"Image to text", func(m eval.Metrics) eval.Recalls { return m.I2T }},
	{"Text to image", func(m eval.Metrics) eval.Recalls { return m.T2I }}}

// directionHeads returns headings of columns of numbers below each direction.
func directionHeads(names ...string) (out []Head) {
	for _, d := range directions {
		for _, n := range names {
			out = append(out, Head{d.name, n, true})
		}
	}
	return out
}

// measured is a group with the recalls of its runs.
type measured struct {
	*Group
	metrics []eval.Metrics
}

func measureAll(groups []*Group, of recallsOf) (out []measured) {
	for _, g := range groups {
		m := measured{Group: g}
		for _, r := range g.Runs {
			if v, ok := of(r); ok {
				m.metrics = append(m.metrics, v)
			}
		}
		if len(m.metrics) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// recalls returns R@1, R@5 and R@10 of one direction, each with a value for every run of the group.
func (g *measured) recalls(of func(eval.Metrics) eval.Recalls) [][]float64 {
	r := make([][]float64, 3)
	for _, m := range g.metrics {
		for k, v := range []float64{of(m).R1, of(m).R5, of(m).R10} {
			r[k] = append(r[k], v)
		}
	}
	return r
}

// mRecalls returns the M-Recalls of the runs.
func (g *measured) mRecalls() (m []float64) {
	for _, v := range g.metrics {
		m = append(m, v.MRecall)
	}
	return m
}

// meanRecalls returns the means over the runs of the three recalls of one direction.
func (g *measured) meanRecalls(of func(eval.Metrics) eval.Recalls) []float64 {
	r := g.recalls(of)
	return []float64{meanOf(r[0]), meanOf(r[1]), meanOf(r[2])}
}

// meanCell shows the mean of the three recalls of one direction, with its deviation over the seeds or with the paper's
// spread.
func (g *measured) meanCell(of func(eval.Metrics) eval.Recalls, paper bool) Cell {
	if paper {
		mean, spread := eval.MeanSpread(g.meanRecalls(of)...)
		return spreadCell(mean, spread, 1)
	}
	var means []float64
	for _, m := range g.metrics {
		means = append(means, of(m).Mean())
	}
	return statCell(means, 1)
}

// recallTable has a row for each network and loss, with both directions. Numbers are means over the seeds with the
// sample standard deviation. In the paper's form, the columns Mean show how far R@1, R@5 and R@10 differ from each
// other instead (eval.MeanSpread).
func recallTable(name, title string, groups []*Group, of recallsOf, paper bool) *Table {
	t := &Table{Name: name, Title: title, Heads: slices.Concat(heads("network", "loss"),
		directionHeads("R@1", "R@5", "R@10", "Mean"), heads(">M-Recall", ">seeds"))}
	seeds := 1
	all := measureAll(groups, of)
	for i, g := range all {
		var cells []Cell
		for _, d := range directions {
			cells = append(cells, statCells(g.recalls(d.of))...)
			cells = append(cells, g.meanCell(d.of, paper))
		}
		m := g.mRecalls()
		seeds = max(seeds, len(m))
		t.row(i > 0 && all[i-1].Network != g.Network, g.Network, g.Loss, cells, statCell(m, 1), fmt.Sprint(len(m)))
	}
	if seeds > 1 {
		what := "mean ± sample standard deviation over the seeds."
		if paper {
			what = "R@K and M-Recall: " + what
		}
		t.Notes = append(t.Notes, strings.ToUpper(what[:1])+what[1:])
	}
	if paper {
		t.Notes = append(t.Notes, "Mean: of R@1, R@5 and R@10, ± how far the three lie from each other "+
			"(their population standard deviation), as in the LSEH paper; not an uncertainty.")
	}
	return t
}

// summaryTable is the paper's summary over networks: for each loss the mean of all recalls of a direction, in the
// paper's form with their spread, over the networks that were trained with all of the losses. It leaves out GSMN, which
// the paper treats separately. It is nil with fewer than two networks or losses.
func summaryTable(name, title string, groups []*Group, of recallsOf, paper bool) *Table {
	all := measureAll(slices.DeleteFunc(slices.Clone(groups), func(g *Group) bool { return g.traits().Apart }), of)
	var losses, networks []string
	at := map[[2]string]*measured{}
	for i := range all {
		g := &all[i]
		at[[2]string{g.Network, g.Loss}] = g
		if !slices.Contains(losses, g.Loss) {
			losses = append(losses, g.Loss)
		}
	}
	// the losses that more than one network was trained with
	losses = slices.DeleteFunc(losses, func(l string) bool {
		n := 0
		for _, g := range all {
			n += b2i(g.Loss == l)
		}
		return n < 2
	})
	for _, g := range all {
		missing := slices.ContainsFunc(losses, func(l string) bool { return at[[2]string{g.Network, l}] == nil })
		if !missing && !slices.Contains(networks, g.Network) {
			networks = append(networks, g.Network)
		}
	}
	if len(losses) < 2 || len(networks) < 2 {
		return nil
	}
	t := &Table{Name: name, Title: title, Heads: heads("loss", ">"+directions[0].name, ">"+directions[1].name),
		Notes: []string{
			fmt.Sprintf("Mean of the %d recalls R@1, R@5 and R@10 of %s.", 3*len(networks),
				strings.Join(networks, ", "))}}
	if paper {
		t.Notes = append(t.Notes, "±: how far these recalls lie from each other (their population standard "+
			"deviation), as in the LSEH paper; not an uncertainty.")
	}
	for _, l := range losses {
		var cells []Cell
		for _, d := range directions {
			var values []float64
			for _, n := range networks {
				values = append(values, at[[2]string{n, l}].meanRecalls(d.of)...)
			}
			mean, spread := eval.MeanSpread(values...)
			if paper {
				cells = append(cells, spreadCell(mean, spread, 1))
			} else {
				cells = append(cells, numberCell(mean, 1))
			}
		}
		t.row(false, l, cells)
	}
	return t
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// kindsOf counts the kinds of semantic vectors of groups.
func kindsOf(groups []*Group) int {
	seen := map[int]bool{}
	for _, g := range groups {
		if g.kind() >= 0 {
			seen[g.kind()] = true
		}
	}
	return len(seen)
}

// recallTables returns the tables of a data set: all networks but GSMN with their summary, GSMN separately, and a
// comparison of the kinds of semantic vectors. what says in titles what was measured ("test split, 1k").
func (d *DataSet) recallTables(prefix, what string, of recallsOf, paper bool) (tables []*Table) {
	var main, apart, semantics []*Group
	var apartName, apartTitle string
	var kinds []string // titles of losses
	for _, groups := range d.networks() {
		several := kindsOf(groups) > 1
		for _, g := range groups {
			if t := g.traits(); t.Apart {
				apart, apartName, apartTitle = append(apart, g), g.Runs[0].Config.Model.Network, t.Title
			} else {
				main = append(main, g)
			}
			if several && g.kind() >= 0 {
				semantics, kinds = append(semantics, g), g.Runs[0].Config.Loss.MarginTitles()
			}
		}
	}
	for _, t := range []*Table{
		recallTable(prefix, "Recalls on "+d.Name+", "+what, main, of, paper),
		summaryTable(prefix+"-summary", "Summary over networks on "+d.Name+", "+what, main, of, paper),
		recallTable(prefix+"-"+apartName, apartTitle+" with different losses on "+d.Name+", "+what, apart, of, paper),
		recallTable(prefix+"-semantics", strings.Join(kinds, " and ")+" on "+d.Name+", "+what, semantics, of, paper),
	} {
		if t != nil && len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// TestTables returns the recall tables of the test split, for each protocol that runs were measured by.
func (d *DataSet) TestTables() (tables []*Table) {
	for _, p := range d.protocols() {
		tables = append(tables, d.recallTables("test-"+p, testTitle(p), testRecalls(p), false)...)
	}
	return tables
}

// testTitle says what recalls of the test split are measured on.
func testTitle(protocol string) string {
	return "test split, protocol " + protocol + ", weights of the best validation"
}
