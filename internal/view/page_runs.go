package view

import (
	"cmp"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/config"
)

// runRow is a run in a table.
type runRow struct {
	*Run
	Spark   string
	Data    string // last element of the data folder
	Updated string
	Values  []string // of the settings that differ, in a sweep
	Trial   trialNote
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

// column is a heading that sorts a table.
type column struct {
	Key, Text, Class, URL, Sorted string // Sorted: ascending, descending or ""
}

// orders are the ways to sort runs; a key that is unknown leaves the order of names.
var orders = map[string]func(a, b *runRow) int{
	"name":    func(a, b *runRow) int { return strings.Compare(a.ID, b.ID) },
	"network": func(a, b *runRow) int { return strings.Compare(networkOf(a), networkOf(b)) },
	"loss":    func(a, b *runRow) int { return strings.Compare(lossName(a), lossName(b)) },
	"data":    func(a, b *runRow) int { return strings.Compare(a.Data, b.Data) },
	"epochs":  func(a, b *runRow) int { return cmp.Compare(a.Epochs(), b.Epochs()) },
	"best":    func(a, b *runRow) int { return cmp.Compare(a.Best.MRecall, b.Best.MRecall) },
	"state":   func(a, b *runRow) int { return strings.Compare(string(a.State), string(b.State)) },
	"updated": func(a, b *runRow) int { return a.Run.Updated.Compare(b.Run.Updated) },
}

func networkOf(r *runRow) string {
	if r.Config == nil {
		return ""
	}
	return r.Config.Model.Network
}

func lossName(r *runRow) string {
	if r.Config == nil {
		return ""
	}
	return r.Config.Loss.Name
}

// columns returns the headings with the addresses that sort by them: again in the other direction where it is sorted by
// them now.
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

// sorted orders rows as the request asks.
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
	text := strings.ToLower(strings.Join([]string{row.ID, networkOf(row), lossName(row), row.Data, string(row.State)},
		" "))
	for _, word := range strings.Fields(strings.ToLower(filter)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// runsPage lists the runs.
func (s *Server) runsPage(r *request) error {
	runs, full := s.store.all(r.now)
	var d struct {
		Rows    []runRow
		Columns []column
		Filter  string
		Hidden  int
		Full    bool
		Counts  map[State]int
		Total   int
		Sweeps  []sweepRow
	}
	d.Filter, d.Full, d.Counts, d.Total = r.q.Get("q"), full, map[State]int{}, len(runs)
	for _, run := range runs {
		d.Counts[run.State]++
		if row := newRow(run); row.matches(d.Filter) {
			d.Rows = append(d.Rows, row)
		}
	}
	d.Hidden = len(runs) - len(d.Rows)
	r.sorted(d.Rows)
	d.Columns = r.columns(column{Key: "name", Text: "Run"}, column{Key: "network", Text: "Network", Class: "wide"},
		column{Key: "loss", Text: "Loss"},
		column{Key: "data", Text: "Data", Class: "wide"}, column{Key: "epochs", Text: "Epochs", Class: "num"},
		column{Key: "best", Text: "Best M-Recall", Class: "num"},
		column{Key: "state", Text: "State"}, column{Key: "updated", Text: "Updated", Class: "num wide"})
	d.Sweeps = sweepsOf(runs)
	return r.show("runs", frame{Title: "Runs", Tab: "runs", Part: r.partURL(), Data: d})
}

// sweepRow is a sweep: the runs in a folder named trials.
type sweepRow struct {
	ID, Name string
	Trials   []*Run
	Counts   map[State]int
	Best     *Run
}

// sweepsOf finds the sweeps among runs that are in the order of their ids.
func sweepsOf(runs []*Run) []sweepRow {
	var out []sweepRow
	at := map[string]int{}
	for _, run := range runs {
		folder, _ := path.Split(run.ID)
		id, ok := strings.CutSuffix(strings.TrimSuffix(folder, "/"), "trials")
		if !ok || id != "" && !strings.HasSuffix(id, "/") {
			continue
		}
		id = path.Clean("./" + id)
		if _, seen := at[id]; !seen {
			at[id] = len(out)
			name := id
			if id == "." {
				name = filepath.Base(filepath.Dir(filepath.Dir(run.Dir)))
			}
			out = append(out, sweepRow{ID: id, Name: name, Counts: map[State]int{}})
		}
		w := &out[at[id]]
		w.Trials = append(w.Trials, run)
		w.Counts[run.State]++
		if run.HasBest && (w.Best == nil || run.Best.MRecall > w.Best.Best.MRecall) {
			w.Best = run
		}
	}
	return out
}

// sweepPage lists the sweeps, or the trials of one with the settings they vary.
func (s *Server) sweepPage(r *request) error {
	runs, _ := s.store.all(r.now)
	sweeps := sweepsOf(runs)
	id := r.q.Get("id")
	var d struct {
		Sweeps  []sweepRow
		Sweep   *sweepRow
		Keys    []string
		Rows    []runRow
		Columns []column
		Plot    *plot
		Waiting int      // trials without a run
		Failed  []string // trials that failed before they had a run
	}
	if id == "" && len(sweeps) == 1 {
		id = sweeps[0].ID
	}
	d.Sweeps = sweeps
	if id == "" {
		return r.show("sweep", frame{Title: "Sweeps", Tab: "sweep", Part: r.partURL(), Data: d})
	}
	i := slices.IndexFunc(sweeps, func(w sweepRow) bool { return w.ID == id })
	if i < 0 {
		return errNoRun
	}
	d.Sweep = &sweeps[i]
	if !r.q.Has("sort") {
		r.q.Set("sort", "best")
		r.q.Set("desc", "1")
	}
	var configs []*config.Config
	p := plot{ID: "trials", Title: "M-Recall of the trials", X: "epoch", Y: "%"}
	var best []curve
	for _, t := range d.Sweep.Trials {
		row := newRow(t)
		row.Trial = readTrial(t.Dir)
		d.Rows = append(d.Rows, row)
		c := t.validations(path.Base(t.ID), "trial", mRecall)
		if t == d.Sweep.Best { // drawn over the others
			c.Class, best = class(0), []curve{c}
		} else {
			p.Curves = append(p.Curves, c)
		}
		if t.Config != nil {
			configs = append(configs, t.Config)
		}
	}
	p.Curves = append(p.Curves, best...)
	d.Plot = newPlot(p)
	d.Waiting, d.Failed = waiting(filepath.Join(s.opt.Dir, filepath.FromSlash(d.Sweep.ID)), d.Sweep.Trials)
	keys, values := config.Differing(configs)
	d.Keys = keys
	for i, k := 0, 0; i < len(d.Rows); i++ {
		row := &d.Rows[i]
		row.Values = make([]string, len(keys))
		if row.Config == nil {
			continue
		}
		for j := range keys {
			row.Values[j] = values[j][k]
		}
		k++
	}
	r.sorted(d.Rows)
	d.Columns = r.columns(column{Key: "name", Text: "Trial"}, column{Key: "state", Text: "State"},
		column{Key: "epochs", Text: "Epochs", Class: "num"},
		column{Key: "best", Text: "Best M-Recall", Class: "num"})
	return r.show("sweep", frame{Title: "Sweep " + d.Sweep.Name, Tab: "sweep", Part: r.partURL(), Data: d})
}

// Standing is how a trial stands in its sweep: one that has reached its present target rests, though its configuration
// plans more.
func (r *runRow) Standing() string {
	switch {
	case r.State == Running:
	case r.Trial.Failed != "":
		return "failed"
	case r.State == Interrupted && r.Trial.Target > 0 && r.Epochs() >= float64(r.Trial.Target):
		return "rests"
	}
	return string(r.State)
}

// TrialName is the name of a run in its sweep.
func (r *Run) TrialName() string { return path.Base(r.ID) }
