package view

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// runRow is a run in a table.
type runRow struct {
	*Run
	Spark   string
	Data    string // last element of the data folder
	Updated string
	Values  []string // of the settings that differ, in a sweep
	Class   string   // style of its curve there; "" where it has no colour of its own
	Trial   trialNote
	Top     int // epochs of the last rung that a trial of its sweep reached; 0 without rungs
}

func newRow(r *Run) runRow {
	row := runRow{Run: r, Spark: sparkline(r)}
	if r.Config != nil && r.Config.Data.Dir != "" {
		row.Data = path.Base(strings.ReplaceAll(r.Config.Data.Dir, `\`, "/"))
	}
	if !r.Updated.IsZero() {
		row.Updated = r.Updated.Local().Format("2006-01-02 15:04")
	}
	return row
}

type column struct {
	Key, Text, Class, URL, Sorted string // Sorted: ascending, descending or ""
}

// orders are the ways to sort runs; a key that is unknown leaves the order of names.
var orders = map[string]func(a, b *runRow) int{
	"name":    func(a, b *runRow) int { return strings.Compare(a.ID, b.ID) },
	"network": func(a, b *runRow) int { return strings.Compare(a.Network, b.Network) },
	"loss":    func(a, b *runRow) int { return strings.Compare(a.Loss, b.Loss) },
	"seed":    func(a, b *runRow) int { return cmp.Compare(seedOf(a), seedOf(b)) },
	"data":    func(a, b *runRow) int { return strings.Compare(a.Data, b.Data) },
	"epochs":  func(a, b *runRow) int { return cmp.Compare(a.Epochs(), b.Epochs()) },
	"best":    func(a, b *runRow) int { return cmp.Compare(a.Best.MRecall, b.Best.MRecall) },
	"state":   func(a, b *runRow) int { return strings.Compare(string(a.State), string(b.State)) },
	"updated": func(a, b *runRow) int { return a.Run.Updated.Compare(b.Run.Updated) },
}

func seedOf(r *runRow) uint64 {
	if r.Config == nil {
		return 0
	}
	return r.Config.Seed
}

// columns returns the headings with the addresses that sort by them. The address of the present key reverses the order.
func (r *request) columns(list ...column) []column {
	key, down := r.q.Get("sort"), r.q.Get("desc") != ""
	for i := range list {
		c := &list[i]
		q := url.Values{}
		for k, v := range r.q {
			if k != "sort" && k != "desc" && k != "part" {
				q[k] = v
			}
		}
		q.Set("sort", c.Key)
		again := c.Key == key
		if again {
			c.Sorted = map[bool]string{false: "ascending", true: "descending"}[down]
		}
		if again && !down || !again && strings.Contains(c.Class, "num") {
			q.Set("desc", "1")
		}
		c.URL = r.URL.Path + "?" + q.Encode()
	}
	return list
}

func (r *request) sorted(rows []runRow) {
	by, ok := orders[r.q.Get("sort")]
	if !ok {
		return
	}
	down := r.q.Get("desc") != ""
	slices.SortStableFunc(rows, func(a, b runRow) int {
		if down {
			return by(&b, &a)
		}
		return by(&a, &b)
	})
}

// matches reports whether a run has every word of a filter in its name, network, loss, data or state.
func (row *runRow) matches(filter string) bool {
	words := []string{row.ID, row.Network, row.Loss, row.Data, string(row.State)}
	if row.Config != nil {
		words = append(words, row.Config.Model.Network, row.Config.Loss.Name)
	}
	text := strings.ToLower(strings.Join(words, " "))
	for _, word := range strings.Fields(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (s *Server) runsPage(r *request) error {
	runs, full := s.store.all(r.now)
	var d struct {
		Rows    []runRow
		Columns []column
		Filter  string
		Hidden  int
		Folded  int // trials, which are on the pages of their sweeps
		Full    bool
		Counts  map[string]int
		Total   int
		Listed  int // without those that are folded
		Sweeps  []sweepRow
	}
	d.Filter, d.Full, d.Counts, d.Total = r.q.Get("q"), full, map[string]int{}, len(runs)
	d.Sweeps = sweepsOf(runs)
	standing := map[*Run]string{} // of trials
	for _, w := range d.Sweeps {
		maps.Copy(standing, w.standing)
	}
	folded := d.Filter == "" && !r.q.Has("trials") && len(standing) < len(runs)
	for _, run := range runs {
		d.Counts[cmp.Or(standing[run], string(run.State))]++
		if folded && standing[run] != "" {
			d.Folded++
			continue
		}
		if row := newRow(run); row.matches(d.Filter) {
			d.Rows = append(d.Rows, row)
		}
	}
	d.Listed = d.Total - d.Folded
	d.Hidden = len(runs) - len(d.Rows) - d.Folded
	r.sorted(d.Rows)
	d.Columns = r.columns(column{Key: "name", Text: "Run"}, column{Key: "network", Text: "Network", Class: "wide"},
		column{Key: "loss", Text: "Loss"}, column{Key: "seed", Text: "Seed", Class: "num wide"},
		column{Key: "data", Text: "Data", Class: "wide"}, column{Key: "epochs", Text: "Epochs", Class: "num wide"},
		column{Key: "best", Text: "Best M-Recall", Class: "num"},
		column{Key: "state", Text: "State"}, column{Key: "updated", Text: "Updated", Class: "num wide"})
	return r.show("runs", frame{Title: "Runs", Tab: "runs", Part: r.partURL(), Data: d})
}
