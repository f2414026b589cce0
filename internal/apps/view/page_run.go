package view

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"vsetrain/internal/apps/web"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/records"
)

type setting struct {
	config.Value
	Changed bool // is not the default
}

// settingGroup is a group of settings of a run: changed from the default, at the default, or unused by its network and
// loss.
type settingGroup struct {
	ID, Text string
	List     []setting
}

// settings lists the configuration of a run in groups, changed settings first.
func settings(c *config.Config) []settingGroup {
	if c == nil {
		return nil
	}
	standard := config.Default()
	base := config.Values(&standard)
	out := []settingGroup{{ID: "settings", Text: "changed from the default"},
		{ID: "settings-default", Text: "at their default"},
		{ID: "settings-other", Text: "of other networks and losses, not used by this run"}}
	for i, v := range config.Values(c) {
		changed, g := v.Text != base[i].Text, &out[0]
		switch {
		case !report.HasEffect(c, v.Key):
			g = &out[2]
		case !changed:
			g = &out[1]
		}
		g.List = append(g.List, setting{v, changed})
	}
	return slices.DeleteFunc(out, func(g settingGroup) bool { return len(g.List) == 0 })
}

// timing tells when a run began and when it will end.
type timing struct {
	Started, Session time.Time // of the first and the present session; zero if unknown
	Left             string    // estimated; "" if unknown
	Early            bool      // it may end earlier: train.early_stop
}

// timingOf extrapolates the pace of the present session, including validations.
func timingOf(r *Run, sessions []runfs.Env) (t timing) {
	if len(sessions) > 0 {
		t.Started = sessions[0].Started
	}
	if r.State != Running {
		return t
	}
	t.Session, t.Early = r.Owner.Since, r.Config.Train.EarlyStop > 0
	var steps []records.StepRecord
	for _, s := range r.Steps {
		if !s.Time.Before(r.Owner.Since) {
			steps = append(steps, s)
		}
	}
	if len(steps) < 2 {
		return t
	}
	first, last := steps[0], steps[len(steps)-1]
	share := func(s records.StepRecord) float64 {
		return progress(&r.Config.Train, &report.Log{Steps: []records.StepRecord{s}})
	}
	if done := share(last) - share(first); done > 0 {
		left := (1 - share(last)) / done * float64(last.Time.Sub(first.Time))
		t.Left = span(time.Duration(left).Round(time.Second))
	}
	return t
}

// span writes a duration with one unit or two.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

func (s *Server) runPage(r *request) error {
	run := s.store.find(r.q.Get("id"), r.now)
	if run == nil {
		return errNoRun
	}
	var d struct {
		*Run
		Row         runRow
		Plots       []*plot
		All         []records.ValidationRecord // newest first
		Step        *records.StepRecord
		LastLoss    float64 // as its curve shows it
		Speed       float64
		Settings    []settingGroup
		Sessions    []runfs.Env
		SessionsErr string
		Warnings    []string // of the last session, of settings that do not go together
		Timing      timing
		SearchURL   string
		Measured    *measured
	}
	d.Run, d.Row, d.Plots = run, newRow(run), runPlots(run, s.measures.guess(run))
	d.All = slices.Clone(run.Validations)
	slices.Reverse(d.All)
	if n := len(run.Steps); n > 0 {
		d.Step = &run.Steps[n-1]
		d.LastLoss = last(run.loss("", "").Y)
		if y := run.speed().Y; len(y) > 0 {
			d.Speed = last(y)
		}
	}
	d.Settings = settings(run.Config)
	var err error
	if d.Measured, err = s.measures.of([]*Run{run}); err != nil {
		return err
	}
	if d.Sessions, err = runfs.ReadSessions(run.Dir); err != nil {
		d.SessionsErr = err.Error()
	}
	if n := len(d.Sessions); n > 0 {
		d.Warnings = d.Sessions[n-1].Warnings
	}
	d.Timing = timingOf(run, d.Sessions)
	if len(run.Saved) > 0 {
		d.SearchURL = "/search?" + url.Values{"r": {run.ID}}.Encode()
	}
	return r.show("run", frame{Title: run.Name, Tab: "runs", Part: r.partURL(), Data: d})
}

// maxCompared bounds the runs of one comparison.
const maxCompared = 16

// compared is a run in a comparison with the base, the first run.
type compared struct {
	runRow
	Class      string
	Loss       string
	Base       bool
	Comparable bool // trained on the data of the base
	Collapsed  bool // the base collapsed, so nothing is compared with it
	Reached    bool
	At         float64
	Abs, Pct   float64
	BaseURL    string // the page with this run as the base
	DropURL    string // the page without this run
}

type difference struct {
	Key    string
	Values []string
}

func (s *Server) comparePage(r *request) error {
	var d struct {
		Runs        []compared
		Plots       []*plot
		Differences []difference
		OrEqual     bool
		Others      []*Run
		Data        []string // different data folders, where there are several
		Measured    *measured
	}
	var runs []*Run
	seen := map[string]bool{}
	for _, id := range r.q["r"] {
		if seen[id] || id == "" {
			continue
		}
		seen[id] = true
		run := s.store.find(id, r.now)
		if run == nil {
			return errNoRun
		}
		if runs = append(runs, run); len(runs) > maxCompared {
			return web.BadRequest("more than %d runs: their curves could not be told apart; choose fewer",
				maxCompared)
		}
	}
	all, _ := s.store.all(r.now)
	for _, run := range all {
		if !seen[run.ID] {
			d.Others = append(d.Others, run)
		}
	}
	d.OrEqual = r.q.Get("eq") != ""
	address := func(order []*Run) string {
		q := url.Values{}
		for _, run := range order {
			q.Add("r", run.ID)
		}
		if d.OrEqual {
			q.Set("eq", "1")
		}
		return "/compare?" + q.Encode()
	}
	var marks []mark
	folders := map[string]bool{}
	for i, run := range runs {
		c := compared{runRow: newRow(run), Class: look(i), Base: i == 0}
		first, rest := []*Run{run}, []*Run{}
		for k, other := range runs {
			if k != i {
				first, rest = append(first, other), append(rest, other)
			}
		}
		c.BaseURL, c.DropURL = address(first), address(rest)
		if run.Config != nil && !folders[run.Config.Data.Dir] {
			folders[run.Config.Data.Dir] = true
			d.Data = append(d.Data, run.Config.Data.Dir)
		}
		c.Comparable = run.Config != nil && runs[0].Config != nil && run.Config.Data.Dir == runs[0].Config.Data.Dir
		if i == 0 && run.HasBest {
			marks = append(marks, mark{Name: run.Name + ": best", Class: c.Class, X: run.Best.Epoch})
		}
		if i > 0 && c.Comparable && runs[0].HasBest {
			e := report.Compare(&runs[0].Log, &run.Log, d.OrEqual)
			if c.Collapsed = runs[0].Collapsed(runs[0].Config); c.Collapsed {
				e.Reached = false
			}
			c.Reached, c.At = e.Reached, e.Epochs
			c.Abs, c.Pct = e.Difference()
			if e.Reached {
				marks = append(marks, mark{Name: run.Name + ": passes the best of " + runs[0].Name, Class: c.Class,
					X: e.Epochs})
			}
		}
		d.Runs = append(d.Runs, c)
	}
	nameAlike(d.Runs)
	d.Plots = comparePlots(runs, marks)
	d.Differences = differencesOf(runs)
	var err error
	if d.Measured, err = s.measures.of(runs); err != nil {
		return err
	}
	return r.show("compare", frame{Title: "Compare", Tab: "compare", Part: r.partURL(), Data: d})
}

// nameAlike names the losses of runs as the tables of 'vsetrain report' do, which say what else differs.
func nameAlike(runs []compared) {
	var all []*report.Run
	at := map[*report.Run]int{}
	for i := range runs {
		if runs[i].Config != nil {
			r := runs[i].reported()
			all, at[r] = append(all, r), i
		}
	}
	for _, d := range report.Collect(all) {
		for _, g := range d.Groups {
			for _, r := range slices.Concat(g.Runs, g.Repeats) {
				runs[at[r]].Loss = g.Loss
			}
		}
	}
}

func differencesOf(runs []*Run) (out []difference) {
	keys, values := differing(runs)
	for i, k := range keys {
		out = append(out, difference{k, values[i]})
	}
	return out
}

// differing returns the keys in which runs differ, with the values of all runs; "" for an unreadable configuration.
func differing(runs []*Run) (keys []string, values [][]string) {
	var configs []*config.Config
	for _, run := range runs {
		if run.Config != nil {
			configs = append(configs, run.Config)
		}
	}
	keys, values = config.Differing(configs)
	for i := range keys {
		for at, run := range runs {
			if run.Config == nil {
				values[i] = slices.Insert(values[i], at, "")
			}
		}
	}
	return keys, values
}
