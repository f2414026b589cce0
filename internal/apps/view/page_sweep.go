package view

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/stats"
)

// sweepRow is a sweep: the runs in a folder named trials.
type sweepRow struct {
	ID, Name string
	Trials   []*Run
	Counts   map[string]int  // of trials, by Standing
	standing map[*Run]string // runRow.Standing
	Best     *Run            // the first of the best
	Equal    []*Run          // as good as Best
}

// sweepsOf finds the sweeps among runs, which are in the order of their ids.
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
			out = append(out, sweepRow{ID: id, Name: name, Counts: map[string]int{}, standing: map[*Run]string{}})
		}
		w := &out[at[id]]
		w.Trials = append(w.Trials, run)
		switch {
		case !run.HasBest || w.Best != nil && run.Best.MRecall < w.Best.Best.MRecall:
		case w.Best != nil && run.Best.MRecall == w.Best.Best.MRecall:
			w.Equal = append(w.Equal, run)
		default:
			w.Best, w.Equal = run, nil
		}
	}
	for i := range out {
		rows, _ := trialRows(out[i].Trials)
		for k := range rows {
			standing := rows[k].Standing()
			out[i].Counts[standing]++
			out[i].standing[rows[k].Run] = standing
		}
	}
	return out
}

// TrialName is the name of a run in its sweep.
func (r *Run) TrialName() string { return path.Base(r.ID) }

// sweepPage lists the sweeps, or the trials of one with the settings they vary.
func (s *Server) sweepPage(r *request) error {
	runs, _ := s.store.all(r.now)
	sweeps := sweepsOf(runs)
	var d struct {
		Sweeps  []sweepRow
		Sweep   *sweepRow
		Keys    []string
		Without []string // keys that had no effect
		Rows    []runRow
		Columns []column
		Plot    *plot
		Counts  map[string]int
		Rungs   bool     // trials were measured after different numbers of epochs
		Waiting int      // trials without a run
		Failed  []string // trials that failed before they had a run
		Drawn   []drawing
		Stale   bool // results are newer than the drawings
	}
	d.Sweeps = sweeps
	at, err := sweepOf(sweeps, r.q.Get("id"))
	if err != nil {
		return err
	}
	if at < 0 {
		return r.show("sweep", frame{Title: "Sweeps", Tab: "sweep", Part: r.partURL(), Data: d})
	}
	d.Sweep = &sweeps[at]
	if !r.q.Has("sort") {
		r.q.Set("sort", "best")
		r.q.Set("desc", "1")
	}
	d.Rows, d.Keys = trialRows(d.Sweep.Trials)
	d.Without = withoutEffect(d.Rows, d.Keys)
	d.Plot = sweepPlot(d.Rows, d.Keys)
	d.Rungs = len(rungsOf(d.Rows)) > 1
	d.Counts = d.Sweep.Counts
	folder := d.Sweep.folder(s.opt.Dir)
	d.Waiting, d.Failed = waiting(folder, d.Sweep.Trials)
	d.Drawn, d.Stale = drawings(folder, d.Sweep)
	r.sorted(d.Rows)
	columns := []column{{Key: "name", Text: "Trial"}, {Key: "state", Text: "State"},
		{Key: "epochs", Text: "Epochs", Class: "num wide"}, {Key: "best", Text: "Best M-Recall", Class: "num"}}
	d.Columns = r.columns(columns...)
	return r.show("sweep", frame{Title: "Sweep " + d.Sweep.Name, Tab: "sweep", Part: r.partURL(), Data: d})
}

// sweepOf returns the index of the sweep with an id. Without an id, it returns 0 for a single sweep, and otherwise -1
// for the list of sweeps.
func sweepOf(sweeps []sweepRow, id string) (int, error) {
	if id == "" && len(sweeps) == 1 {
		return 0, nil
	}
	if id == "" {
		return -1, nil
	}
	i := slices.IndexFunc(sweeps, func(w sweepRow) bool { return w.ID == id })
	if i < 0 {
		return 0, errNoRun
	}
	return i, nil
}

// folder is the folder of the sweep in the folder that is served.
func (w *sweepRow) folder(served string) string {
	return filepath.Join(served, filepath.FromSlash(w.ID))
}

// trialRows returns the trials with the settings in which they differ. With rungs, the epochs of a trial are not a
// setting.
func trialRows(trials []*Run) (rows []runRow, keys []string) {
	keys, values := differing(trials)
	for i, t := range trials {
		row := newRow(t)
		row.Trial = readTrial(t.Dir)
		for j := range keys {
			row.Values = append(row.Values, values[j][i])
		}
		rows = append(rows, row)
	}
	rungs := rungsOf(rows)
	if len(rungs) < 2 {
		return rows, keys
	}
	epochs := slices.Index(keys, "train.epochs")
	for i := range rows {
		rows[i].Top = rungs[len(rungs)-1]
		if epochs >= 0 {
			rows[i].Values = slices.Delete(rows[i].Values, epochs, epochs+1)
		}
	}
	if epochs >= 0 {
		keys = slices.Delete(keys, epochs, epochs+1)
	}
	return rows, keys
}

// withoutEffect lists the settings that did not change the best M-Recall of any trial.
func withoutEffect(rows []runRow, keys []string) (without []string) {
	var levels [][]string
	var best []float64
	for i := range rows {
		if row := &rows[i]; row.HasBest && row.Config != nil {
			levels = append(levels, append(slices.Clone(row.Values), fmt.Sprint(row.Epochs())))
			best = append(best, row.Best.MRecall)
		}
	}
	for i, none := range stats.WithoutEffect(levels, best) {
		if none && i < len(keys) {
			without = append(without, keys[i])
		}
	}
	return without
}

// label names a trial by its settings: loss=lseh, margin=0.1, lr=0.001.
func (row *runRow) label(keys []string) string {
	var parts []string
	for i, key := range keys {
		key = strings.TrimSuffix(key, ".name")
		parts = append(parts, key[strings.LastIndexByte(key, '.')+1:]+"="+row.Values[i])
	}
	if len(parts) == 0 {
		return row.TrialName()
	}
	return strings.Join(parts, ", ")
}

// rungsOf returns the numbers of epochs after which trials were measured.
func rungsOf(rows []runRow) (all []int) {
	for i := range rows {
		all = append(all, rows[i].Trial.Rungs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sweepPlot draws the trials. Each of the best has a colour, which its row of the table shows too; the others are grey.
// Trials with equal curves share one curve. The rungs of successive halving are vertical lines.
func sweepPlot(rows []runRow, keys []string) *plot {
	p := plot{ID: "trials", Title: "M-Recall of the trials", X: "epoch", Y: "%"}
	order := make([]*runRow, len(rows))
	for i := range rows {
		order[i] = &rows[i]
	}
	slices.SortStableFunc(order, func(a, b *runRow) int { return orders["best"](b, a) })
	at, equal := map[string]int{}, map[int]int{} // curves by their points, and how many more trials they show
	var coloured []string                        // class of each curve; "" is grey
	for _, row := range order {
		c := row.validations(row.label(keys), "trial", mRecall)
		line := fmt.Sprint(c.X, c.Y)
		if i, seen := at[line]; seen && row.HasBest {
			row.Class = coloured[i]
			equal[i]++
			continue
		}
		if n := len(p.Curves); n < chart.Colours && row.HasBest {
			row.Class = look(n)
			c.Class = row.Class
		}
		at[line] = len(p.Curves)
		p.Curves, coloured = append(p.Curves, c), append(coloured, row.Class)
	}
	for i, n := range equal {
		p.Curves[i].Name += fmt.Sprintf(" and %d equal", n)
	}
	slices.Reverse(p.Curves) // the best is drawn over the others
	if rungs := rungsOf(rows); len(rungs) > 1 {
		for _, n := range rungs {
			p.Marks = append(p.Marks, mark{Name: "rung", Class: "rung", X: float64(n)})
		}
	}
	return newPlot(p)
}

// Standing returns the state of a trial in its sweep. A trial that has reached its present target is paused if its
// configuration plans more epochs or other trials have trained longer.
func (r *runRow) Standing() string {
	switch {
	case r.State == Running:
	case r.Trial.Failed != "":
		return "failed"
	case r.State == Interrupted && r.Trial.Target > 0 && r.Epochs() >= float64(r.Trial.Target),
		r.State == Finished && r.Trial.Rung() < r.Top:
		return "paused"
	}
	return string(r.State)
}

// drawing is a figure that 'vsetrain sweep collect' wrote into the folder of a sweep, with its own title, and what it
// shows, for those who do not see it.
type drawing struct{ Name, Text string }

// figures are the drawings that collect writes.
var figures = []drawing{{"parallel", "Results and settings of all points (parallel coordinates)"},
	{"importance", "How much of the differences each setting explains alone"}}

// maxFigure bounds the file of a figure.
const maxFigure = 8 << 20

func figurePath(folder, name string) string { return filepath.Join(folder, "collect", name+".svg") }

// drawings returns the existing figures; stale reports that a trial has trained after they were drawn.
func drawings(folder string, w *sweepRow) (out []drawing, stale bool) {
	for _, f := range figures {
		st, err := os.Stat(figurePath(folder, f.Name))
		if err != nil {
			continue
		}
		out = append(out, f)
		for _, t := range w.Trials {
			stale = stale || t.Updated.After(st.ModTime())
		}
	}
	return out, stale
}

func (s *Server) sweepFigure(r *request) error {
	runs, _ := s.store.all(r.now)
	sweeps := sweepsOf(runs)
	at, err := sweepOf(sweeps, r.q.Get("id"))
	if err != nil || at < 0 {
		return errNotFound
	}
	i := slices.IndexFunc(figures, func(f drawing) bool { return f.Name == r.q.Get("figure") })
	if i < 0 {
		return errNotFound
	}
	b, err := regular.ReadFile(figurePath(sweeps[at].folder(s.opt.Dir), figures[i].Name), maxFigure, "figures")
	if errors.Is(err, fs.ErrNotExist) {
		return errNotFound
	}
	if err != nil {
		return fmt.Errorf("the figure cannot be read: %w", err)
	}
	h := r.w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	_, err = r.w.Write(b)
	return err
}
