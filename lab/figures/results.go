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

const (
	resultsPage = "docs/results.md"
)

// setting is what a study trained with some seeds: a name for people, and the folder of its runs, s7 for seed 7.
type setting struct {
	name, folder string
	first, last  int // seeds
}

// study is a comparison of settings. The page has its tables between comments with the name of the study and that of
// the table.
type study struct {
	name     string
	settings []setting // the first is the base of all tables but that of efficiency
	options  report.Options
	chart    string // of all runs, "" none
	tables   []string
	ranked   bool // the table of settings begins with the best on the test split, and tables may be missing
}

// Names of the tables of a report that the page shows.
const (
	primaryTable    = "test-1k-seeds"
	speedTable      = "speed"
	efficiencyTable = "efficiency"
)

// noRuns stands in place of a table for which too few runs are kept.
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

// results returns the page of results with its tables, and their charts, from the folder of the runs that are kept.
func results(root, kept string) (map[string][]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, resultsPage))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, s := range studies {
		tables, chart, err := s.draw(kept)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for name, text := range tables {
			if page, err = between(page, s.name+" "+name, text); err != nil {
				return nil, fmt.Errorf("%s: %w", resultsPage, err)
			}
		}
		if s.chart != "" {
			files[s.chart] = chart
		}
	}
	files[resultsPage] = page
	return files, nil
}

// open reads the runs of a study that are kept, with what was measured of them, and returns the seeds that are not by
// the name of their setting.
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

// draw returns the tables of a study by their names, and its chart.
func (s *study) draw(kept string) (tables map[string]string, chart []byte, err error) {
	runs, missing, err := s.open(kept)
	if err != nil {
		return nil, nil, err
	}
	if s.ranked && len(runs) == 0 {
		tables = map[string]string{"settings": noRuns}
		for _, name := range s.tables {
			tables[name] = noRuns
		}
		return tables, nil, nil
	}
	all, _, err := tablesOf(runs, runs[0].Dir, s.options)
	if err != nil {
		return nil, nil, err
	}
	paper, set, err := tablesOf(runs, "", s.options)
	if err != nil {
		return nil, nil, err
	}
	all[efficiencyTable] = paper[efficiencyTable]
	tables = map[string]string{"settings": s.settingsTable(missing, all)}
	for _, name := range s.tables {
		base, oneSeed := s.settings[0].name, name == primaryTable && all[name] == nil
		if s.ranked && (oneSeed || runs[0].Label != base || runs[len(runs)-1].Label == base) {
			tables[name] = noRuns
			continue
		}
		if all[name] == nil {
			return nil, nil, fmt.Errorf("its report has no table %s", name)
		}
		tables[name] = rowsOf(all[name])
		if name == queriesTable {
			tables[name] = recallRows(tables[name])
		}
	}
	if s.chart != "" {
		chart = set.Curves(nil)[0].Draw().SVG()
	}
	return tables, chart, err
}

// settingsTable shows the recalls of each setting, and how many seeds they are of.
func (s *study) settingsTable(missing map[string][]string, all map[string]*report.Table) string {
	type line struct {
		text string
		test float64
	}
	var lines []line
	for _, x := range s.settings {
		cell := func(table string, fromEnd int) report.Cell {
			rows := all[table].Rows
			i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Cells[1].Text == x.name })
			if i < 0 {
				return report.Cell{Text: "-", Value: -1}
			}
			return rows[i].Cells[len(rows[i].Cells)-fromEnd]
		}
		gone := "none"
		if len(missing[x.name]) > 0 {
			gone = strings.Join(missing[x.name], ", ")
		}
		test := cell("test-1k", 2)
		lines = append(lines, line{fmt.Sprintf("| %s | %s | %s | %s | %s |\n", x.name, cell("validation", 2).Text,
			test.Text, cell("test-1k", 1).Text, gone), test.Value})
	}
	if s.ranked {
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.test, a.test) })
	}
	var b strings.Builder
	b.WriteString("| setting | best M-Recall on dev | M-Recall on test | seeds | missing seeds |\n" +
		"|---|---:|---:|---:|---|\n")
	for _, l := range lines {
		b.WriteString(l.text)
	}
	return b.String()
}

var firstCell = regexp.MustCompile(`^\|[^|]*`)

// rowsOf returns a table in Markdown without its title, its notes and its first column, the network.
func rowsOf(t *report.Table) string {
	var b strings.Builder
	for line := range strings.Lines(t.Markdown()) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(firstCell.ReplaceAllString(line, ""))
		}
	}
	return b.String()
}
