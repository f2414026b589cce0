package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vsetrain/internal/apps/report"
)

// setting is one setting of a study, trained with some seeds: a name for people, and the folder of its runs, s7 for
// seed 7.
type setting struct {
	name, folder string
	first, last  int // seeds
}

// study is a comparison of settings. The page has its tables between comments with the name of the study and the name
// of the table.
type study struct {
	name     string
	settings []setting // the first is the base of all tables but the table of efficiency
	options  report.Options
	chart    string // of all runs, "" none
	tables   []string
	ranked   bool // the table of settings starts with the best on the test split; tables may be missing
}

// Names of the tables of a report that pages show.
const (
	testTable       = "test-1k"
	primaryTable    = "test-1k-seeds"
	queriesTable    = "test-1k-differences"
	speedTable      = "speed"
	efficiencyTable = "efficiency"
)

// noRuns replaces a table if too few runs exist.
const noRuns = "Not trained yet.\n"

var studies = []study{
	{name: "claim-vsepp", settings: []setting{{"LSEH", "claim-vsepp/lseh", 7, 12},
		{"λ 0", "claim-vsepp/lambda-0", 7, 12}, {"LMH1", "claim-vsepp/lmh1", 7, 12},
		{"LMH1, early", "claim-vsepp/lmh1-early", 7, 12}, {"LMH2", "claim-vsepp/lmh2", 7, 12}},
		options: report.Options{After: []int{2, 3, 4}, Pass: 44, Equivalence: 1}, chart: "docs/claim-vsepp.svg",
		tables: []string{primaryTable, speedTable, efficiencyTable}},
	{name: "high-rate", settings: []setting{{"LSEH", "high-rate/lseh-x10", 7, 9},
		{"λ 0", "high-rate/lambda-0-x10", 7, 9}, {"LMH2", "high-rate/lmh2-x10", 7, 9}},
		tables: []string{primaryTable}},
	{name: "claim-vseinf", settings: []setting{{"LSEH", "claim-vseinf/lseh", 7, 10},
		{"LMH1, early", "ablate-vseinf/lmh1-early", 7, 8},
		{"LMH1, rate of LSEH", "rate-vseinf/lmh1-rate", 7, 10}, {"LMH2", "claim-vseinf/lmh2", 7, 10}},
		options: report.Options{After: []int{2, 3, 4}, Pass: 47, Equivalence: 1}, chart: "docs/claim-vseinf.svg",
		tables: []string{primaryTable, speedTable, efficiencyTable}},
	{name: "rate-vseinf", settings: []setting{{"LMH1, rate of LSEH", "rate-vseinf/lmh1-rate", 7, 10},
		{"LMH1, early", "ablate-vseinf/lmh1-early", 7, 8}, {"LMH2", "claim-vseinf/lmh2", 7, 10}},
		options: report.Options{After: []int{2, 4}, Equivalence: 1}, tables: []string{primaryTable, speedTable}},
	{name: "ablate-vseinf", settings: []setting{{"LSEH", "claim-vseinf/lseh", 7, 10},
		{"λ 0", "ablate-vseinf/lambda-0", 7, 8}, {"λ 0.05", "ablate-vseinf/lambda-0.05", 7, 8},
		{"cosine", "ablate-vseinf/cosine", 7, 8}, {"k 100", "ablate-vseinf/k-100", 7, 8}},
		options: report.Options{After: []int{3}, Equivalence: 1}, tables: []string{primaryTable, speedTable}},
}

// results writes the tables of docs/log/lseh.md, and their charts.
func (b *book) results() error {
	for _, s := range studies {
		if _, _, err := b.study("docs/log/lseh.md", s.name, &s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// study writes the tables of a study, named with a prefix, into a page, and its chart. It returns the runs and all
// tables of their report.
func (b *book) study(page, prefix string, s *study) (runs []*report.Run, all map[string]*report.Table, err error) {
	runs, missing, err := s.open(b.runs)
	if err != nil {
		return nil, nil, err
	}
	settings := noRuns
	if len(runs) > 0 {
		if all, _, err = tablesOf(runs, runs[0].Dir, s.options); err != nil {
			return nil, nil, err
		}
		settings = s.settingsTable(missing, all)
	}
	if s.chart != "" {
		paper, set, err := tablesOf(runs, "", s.options)
		if err != nil {
			return nil, nil, err
		}
		all[efficiencyTable] = paper[efficiencyTable]
		b.files[s.chart] = set.Curves(nil)[0].Draw().SVG()
	}
	if err := b.put(page, prefix+" settings", settings); err != nil {
		return nil, nil, err
	}
	for _, name := range s.tables {
		text := noRuns
		base, t := s.settings[0].name, all[name]
		switch {
		case t == nil && !s.ranked:
			return nil, nil, fmt.Errorf("its report has no table %s", name)
		case t != nil && (!s.ranked || runs[0].Label == base && runs[len(runs)-1].Label != base):
			text = rowsOf(t)
		}
		if err := b.put(page, prefix+" "+name, text); err != nil {
			return nil, nil, err
		}
	}
	return runs, all, nil
}

// open reads the runs of a study that exist, with their measures, and returns the missing seeds by the name of their
// setting.
func (s *study) open(kept string) (runs []*report.Run, missing map[string][]string, err error) {
	missing = map[string][]string{}
	for _, x := range s.settings {
		for seed := x.first; seed <= x.last; seed++ {
			dir := filepath.Join(kept, x.folder, fmt.Sprint("s", seed))
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				missing[x.name] = append(missing[x.name], fmt.Sprint(seed))
				continue
			}
			r, err := report.Open(dir)
			if err != nil {
				return nil, nil, err
			}
			m, ok := report.ReadMeasurement(dir)
			if !ok {
				return nil, nil, fmt.Errorf("%s: no measures of the test split in %s", dir, report.TestName)
			}
			r.Label, r.Test, r.Hits = x.name, m.Results, m.Hits
			runs = append(runs, r)
		}
	}
	return runs, missing, nil
}

// tablesOf returns the tables of a report on runs by their names, and the data set of the runs.
func tablesOf(runs []*report.Run, base string, o report.Options) (map[string]*report.Table, *report.DataSet, error) {
	sets := report.Collect(runs)
	if len(sets) != 1 {
		return nil, nil, fmt.Errorf("its runs are of %d data sets, expected 1", len(sets))
	}
	if base != "" {
		if err := report.SetBase(sets, base); err != nil {
			return nil, nil, err
		}
	}
	r, err := report.Build(sets, o)
	if err != nil {
		return nil, nil, err
	}
	tables := map[string]*report.Table{}
	for _, section := range r.Sections {
		for _, item := range section.Items {
			if item.Table != nil {
				tables[item.Table.Name] = item.Table
			}
		}
	}
	return tables, sets[0], nil
}

// cellOf is a cell in the row of a setting, counted from its end, or a dash that sorts below every value if there is no
// row.
func cellOf(t *report.Table, name string, fromEnd int) report.Cell {
	if t != nil {
		for _, r := range t.Rows {
			if r.Cells[1].Text == name {
				return r.Cells[len(r.Cells)-fromEnd]
			}
		}
	}
	return report.Cell{Text: "-", Value: -1}
}

// settingsTable shows the recalls of each setting and its number of seeds.
func (s *study) settingsTable(missing map[string][]string, all map[string]*report.Table) string {
	settings := slices.Clone(s.settings)
	if s.ranked {
		slices.SortStableFunc(settings, func(a, b setting) int {
			return cmp.Compare(cellOf(all[testTable], b.name, 2).Value, cellOf(all[testTable], a.name, 2).Value)
		})
	}
	t := newTable("setting", ">best M-Recall on dev", ">M-Recall on test", ">seeds", "missing seeds")
	for _, x := range settings {
		t.row(x.name, cellOf(all["validation"], x.name, 2).Text, cellOf(all[testTable], x.name, 2).Text,
			cellOf(all[testTable], x.name, 1).Text, cmp.Or(strings.Join(missing[x.name], ", "), "none"))
	}
	return t.String()
}

// What pages leave out of a table of a report: its first column (the network), and all measures but M-Recall.
var (
	firstCell     = regexp.MustCompile(`(?m)^\|[^|]*`)
	otherMeasures = regexp.MustCompile(`(?m)^\|.*\| (image to text|text to image) R@.*\n`)
)

// rowsOf returns the rows of a table as pages show them, in Markdown.
func rowsOf(t *report.Table) string {
	var b strings.Builder
	for line := range strings.Lines(t.Markdown()) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(line)
		}
	}
	text := firstCell.ReplaceAllString(b.String(), "")
	if t.Name == queriesTable {
		text = otherMeasures.ReplaceAllString(text, "")
	}
	return text
}
