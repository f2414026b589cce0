// Package report turns finished and running runs into the tables, figures and pictures of the LSEH paper: training
// efficiency, recalls, learning curves, unique and hardest negatives, attention maps, computation time.
//
// Runs (run.go) are grouped by data set, network and loss (group.go). Build makes a Report from them: sections of
// tables (table.go), figures (package chart) and pictures (gallery.go). A Report can be written as text, Markdown,
// LaTeX, CSV, image files or a page of HTML.
package report

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/run/analysis"
	"vsetrain/internal/run/bench"
	"vsetrain/models"
)

// Options control what a report contains besides the contents of the run directories.
type Options struct {
	// count the epochs to reach the best of the base instead of the epochs to exceed it
	OrEqual   bool
	Paper     bool                             // show the paper's spread of the recalls, see recallTable
	Hardest   map[*DataSet][]*analysis.Hardest // hard negatives of a caption
	Attention map[*DataSet][]analysis.Attention
	Words     map[*DataSet][]*analysis.WordAttention // for networks whose words attend to regions
	Timing    []*bench.SamplesReport
	Pictures  *Pictures // nil shows ids instead of pictures

	Primary     Primary // the measure across seeds; the default is M-Recall, on dev if test was not measured
	Equivalence float64 // margin in points of recall; 0 for no equivalence tests
	After       []int   // epochs after which M-Recalls on dev are compared across seeds
	Pass        float64 // M-Recall on dev; the epochs to pass it are compared across seeds; 0 for none
}

// Report consists of tables, figures and pictures in sections.
type Report struct {
	Title    string
	Sections []*Section
}

// Section is a part of a report.
type Section struct {
	ID, Title  string
	Paragraphs []string
	Items      []Item
}

// Item is a table, a figure or a gallery; the other fields are nil.
type Item struct {
	Table   *Table
	Figure  *chart.Figure
	Gallery *Gallery
	// Aside leaves the item out of terminals, and collapses it in pages.
	Aside bool
}

// Build makes a report about data sets.
func Build(sets []*DataSet, o Options) (*Report, error) {
	r := &Report{Title: "vsetrain report"}
	for _, d := range sets {
		if err := r.addDataSet(d, o, len(sets) > 1); err != nil {
			return nil, err
		}
	}
	for i, t := range o.Timing {
		s := r.section(fmt.Sprintf("timing-%d", i+1), "Computation time and number of samples")
		figures, table := Timing(t)
		s.tables(false, table)
		s.figures(figures)
	}
	r.unique()
	return r, nil
}

func (r *Report) section(id, title string) *Section {
	s := &Section{ID: id, Title: title}
	r.Sections = append(r.Sections, s)
	return s
}

// tables adds the tables that are not nil.
func (s *Section) tables(aside bool, tables ...*Table) {
	for _, t := range tables {
		if t != nil {
			s.Items = append(s.Items, Item{Table: t, Aside: aside})
		}
	}
}

// gallery adds pictures, if there are any.
func (s *Section) gallery(g *Gallery, err error) error {
	if err == nil && len(g.Rows) > 0 {
		s.Items = append(s.Items, Item{Gallery: g})
	}
	return err
}

func (s *Section) figures(figures []*chart.Figure) {
	for _, f := range figures {
		s.Items = append(s.Items, Item{Figure: f})
	}
}

func (r *Report) addDataSet(d *DataSet, o Options, several bool) error {
	prefix, on := "", ""
	if several {
		prefix, on = slug(d.Name)+"-", ", "+d.Name
	}
	section := func(id, title string) *Section { return r.section(prefix+id, title+on) }

	s := section("runs", "Runs")
	s.tables(false, d.runTable())

	comparisons := d.Comparisons(o.OrEqual)
	s = section("efficiency", "Training efficiency")
	if len(comparisons) > 0 {
		s.tables(false, d.efficiencyTable(comparisons),
			d.seedTable("speed", "Speed across seeds on "+d.Name+", validation split", comparisons, 0,
				speedScores(o.After, o.Pass, o.OrEqual)...),
			d.differenceTable(comparisons))
	}
	s.figures(d.Curves(comparisons))

	s = section("recalls", "Recalls")
	protocols := d.protocols()
	primary := o.Primary
	if primary.Measure == "" {
		primary = Primary{recallMeasures[0].key, "dev"}
		if len(protocols) > 0 {
			primary.Split = "test"
		}
	}
	seedTable := func(name, split, what string, of recallsOf) *Table {
		rank := map[bool]string{true: "primary", false: "secondary"}[split == primary.Split]
		scored := recallScore(primary.Measure, of)
		return d.seedTable(name, scored.name+" across seeds on "+d.Name+", "+what+": "+rank+" measure", comparisons,
			o.Equivalence, scored)
	}
	for _, p := range protocols {
		what := testTitle(p)
		s.tables(false, d.recallTables("test-"+p, what, testRecalls(p), o.Paper)...)
		t, err := d.pairedTable("test-"+p+"-differences", p, comparisons)
		if err != nil {
			return err
		}
		s.tables(false, t, seedTable("test-"+p+"-seeds", "test", what, testRecalls(p)))
	}
	s.tables(false, d.JudgedTables()...)
	if len(protocols) == 0 {
		s.Paragraphs = append(s.Paragraphs, "These are recalls on the validation split, at the validation with the "+
			"highest M-Recall, so they are slightly optimistic; --test measures the test split.")
	}
	what := "validation split, best validation"
	s.tables(len(protocols) > 0, d.recallTables("validation", what, validationRecalls, o.Paper)...)
	s.tables(len(protocols) > 0 && primary.Split != "dev",
		seedTable("validation-seeds", "dev", what, validationRecalls))
	if len(comparisons) > 0 && !slices.ContainsFunc(d.Groups, func(g *Group) bool { return len(g.Runs) > 1 }) {
		s.Paragraphs = append(s.Paragraphs, "Every setting has one seed, so nothing says how far seeds spread: train "+
			"each with two seeds or more for intervals and tests.")
	}

	if tables := d.DiagnosisTables(); len(tables) > 0 {
		s = section("diagnosis", "Where recalls come from")
		for _, t := range tables {
			s.tables(t.Name == leadTableName, t)
		}
	}

	figures, peaks := d.negativeFigures()
	if len(figures) > 0 {
		s = section("negatives", "Unique hard negatives of a batch")
		s.figures(figures)
		s.tables(true, peaks)
	}
	for i, h := range o.Hardest[d] {
		s = section(fmt.Sprintf("hardest-%d", i+1), "Hardest negatives of a caption")
		g, t, err := hardestItems(h, o.Pictures)
		if err != nil {
			return err
		}
		s.Items = append(s.Items, Item{Gallery: g}, Item{Table: t})
	}
	s = section("attention", "Attention of VSRN")
	if err := s.gallery(attentionGallery(o.Attention[d], o.Pictures)); err != nil {
		return err
	}
	s = section("words", "Attention of words")
	if err := s.gallery(wordGallery(o.Words[d], o.Pictures)); err != nil {
		return err
	}
	r.Sections = slices.DeleteFunc(r.Sections, func(s *Section) bool { return len(s.Items) == 0 })
	return nil
}

// unique makes the names of files unique.
func (r *Report) unique() {
	seen := map[string]int{}
	name := func(n *string) {
		seen[*n]++
		if k := seen[*n]; k > 1 {
			*n = fmt.Sprintf("%s-%d", *n, k)
		}
	}
	for _, s := range r.Sections {
		for _, i := range s.Items {
			if i.Table != nil {
				name(&i.Table.Name)
			}
			if i.Figure != nil {
				name(&i.Figure.Name)
			}
		}
	}
}

// runTable lists the runs of a data set.
func (d *DataSet) runTable() *Table {
	t := &Table{Name: "runs", Title: "Runs on " + d.Name, Heads: heads("run", "network", "loss", ">margin", ">lr",
		">batch", ">seed", ">epochs", ">best M-Recall", ">at epoch", "finished")}
	for _, g := range d.Groups {
		for _, r := range g.Runs {
			c := r.Config
			best, at := textCell("no validation"), textCell("")
			if b, ok := r.Best(); ok {
				best, at = numberCell(b.MRecall, 2), numberCell(b.Epoch, 1)
			}
			margin := fmt.Sprint(c.Loss.Margin)
			if c.Loss.HasMargins() {
				margin += " + " + fmt.Sprint(c.Loss.LSEH.Lambda) + " Sim"
			}
			t.row(false, r.Name, g.Network, g.Loss, margin, fmt.Sprint(c.Optim.LR), fmt.Sprint(c.Train.Batch),
				fmt.Sprint(c.Seed), numberCell(r.Epochs(), 1), best, at,
				map[bool]string{true: "yes", false: "no"}[r.Finished()])
		}
	}
	if collapsed := d.names((*Run).Collapsed); len(collapsed) > 0 {
		t.Notes = append(t.Notes, "Collapsed, all scores alike before the best validation: "+
			strings.Join(collapsed, ", ")+".")
	}
	for _, r := range d.Runs() {
		if r.Noise != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s was trained on %s.", r.Name, r.Noise))
		}
		for _, w := range r.Warnings {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s.", r.Name, w))
		}
	}
	t.Notes = append(t.Notes, d.Repeated()...)
	return t
}

// Runs returns the runs of all groups, one for each seed.
func (d *DataSet) Runs() (all []*Run) {
	for _, g := range d.Groups {
		all = append(all, g.Runs...)
	}
	return all
}

// names returns the names of the runs for which so is true.
func (d *DataSet) names(so func(*Run) bool) (names []string) {
	for _, r := range d.Runs() {
		if so(r) {
			names = append(names, r.Name)
		}
	}
	return names
}

// protocols lists the protocols by which runs were measured on the test split.
func (d *DataSet) protocols() (names []string) {
	for _, r := range d.Runs() {
		for _, m := range r.Test {
			if !slices.Contains(names, m.Protocol) {
				names = append(names, m.Protocol)
			}
		}
	}
	return names
}

// Pairs returns, for each network with several losses, two runs whose hard negatives are worth comparing: of the first
// base and the first LSEH, with the same seed if they share one.
func (d *DataSet) Pairs() (pairs [][]*Run) {
	seen := map[string]bool{}
	for _, c := range d.Comparisons(false) {
		if seen[c.Base.Network] {
			continue
		}
		seen[c.Base.Network] = true
		base, target, _ := c.sides(func(*Run) bool { return true })
		pairs = append(pairs, []*Run{base[0], target[0]})
	}
	return pairs
}

// Having returns one run of each setting whose network has a trait.
func (d *DataSet) Having(trait func(models.Traits) bool) (runs []*Run) {
	for _, g := range d.Groups {
		if trait(g.traits()) {
			runs = append(runs, g.Runs[0])
		}
	}
	return runs
}
