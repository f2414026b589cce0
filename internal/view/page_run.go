package view

import (
	"fmt"
	"net/url"

	"vsetrain/internal/config"
	"vsetrain/internal/experiment"
	"vsetrain/internal/report"
	"vsetrain/internal/runfs"
)

// setting is a line of a configuration.
type setting struct {
	config.Value
	Changed bool // is not the default
}

// settings lists the configuration of a run.
func settings(c *config.Config) []setting {
	if c == nil {
		return nil
	}
	standard := config.Default()
	base := config.Values(&standard)
	var out []setting
	for i, v := range config.Values(c) {
		out = append(out, setting{v, v.Text != base[i].Text})
	}
	return out
}

// runPage shows one run.
func (s *Server) runPage(r *request) error {
	run := s.store.find(r.q.Get("id"), r.now)
	if run == nil {
		return errNoRun
	}
	var d struct {
		*Run
		Row         runRow
		Plots       []*plot
		BestRow     *experiment.ValidationRecord
		LastRow     *experiment.ValidationRecord
		All         []experiment.ValidationRecord // newest first
		Step        *experiment.StepRecord
		Settings    []setting
		Sessions    []runfs.Env
		SessionsErr string
		Remaining   string
		SearchURL   string
		Measured    *measured
	}
	d.Run, d.Row, d.Plots = run, newRow(run), runPlots(run)
	for i := range run.Validations {
		v := &run.Validations[i]
		if d.BestRow == nil || v.MRecall > d.BestRow.MRecall {
			d.BestRow = v
		}
		d.LastRow = v
	}
	for i := len(run.Validations) - 1; i >= 0; i-- {
		d.All = append(d.All, run.Validations[i])
	}
	if n := len(run.Steps); n > 0 {
		d.Step = &run.Steps[n-1]
	}
	d.Settings = settings(run.Config)
	var err error
	if d.Measured, err = s.measures.of([]*Run{run}); err != nil {
		return err
	}
	if d.Sessions, err = run.sessions(); err != nil {
		d.SessionsErr = err.Error()
	}
	if len(run.Saved) > 0 {
		d.SearchURL = "/search?" + url.Values{"r": {run.ID}}.Encode()
	}
	return r.show("run", frame{Title: run.Name, Tab: "runs", Part: r.partURL(), Data: d})
}

// maxCompared bounds the runs of one comparison.
const maxCompared = 16

// compared is a run beside the base, the first of the runs.
type compared struct {
	runRow
	Class      string
	Base       bool
	Comparable bool // trained on the data of the base
	Reached    bool
	At         float64
	Abs, Pct   float64
	BaseURL    string // the page with this run as the base
	DropURL    string // the page without this run
}

// difference is a setting in which the runs differ.
type difference struct {
	Key    string
	Values []string
}

// comparePage compares runs; the first named is the base.
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
			return &badRequest{fmt.Sprintf("more than %d runs: their curves could not be told apart; choose fewer",
				maxCompared)}
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
		c := compared{runRow: newRow(run), Class: class(i), Base: i == 0}
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
			marks = append(marks, mark{run.Name + ": best", c.Class, run.Best.Epoch})
		}
		if i > 0 && c.Comparable && runs[0].HasBest {
			e := report.Compare(runs[0].History(), run.History(), d.OrEqual)
			c.Reached, c.At = e.Reached, e.Epochs
			c.Abs, c.Pct = e.Difference()
			if e.Reached {
				marks = append(marks, mark{run.Name + ": passes the best of " + runs[0].Name, c.Class, e.Epochs})
			}
		}
		d.Runs = append(d.Runs, c)
	}
	d.Plots = comparePlots(runs, marks)
	d.Differences = differencesOf(runs)
	var err error
	if d.Measured, err = s.measures.of(runs); err != nil {
		return err
	}
	return r.show("compare", frame{Title: "Compare", Tab: "compare", Part: r.partURL(), Data: d})
}

// differencesOf lists the settings in which runs differ.
func differencesOf(runs []*Run) []difference {
	var configs []*config.Config
	for _, run := range runs {
		if run.Config == nil {
			return nil
		}
		configs = append(configs, run.Config)
	}
	keys, values := config.Differing(configs)
	var out []difference
	for i, k := range keys {
		out = append(out, difference{k, values[i]})
	}
	return out
}
