package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/run/config"
)

const mostTrials = 20_000

// Plan lists the trials of a sweep. With tpe, Trials are the trials of the first random points, because the others
// depend on results.
type Plan struct {
	Def        *Definition
	Points     int
	Trials     []Trial // by point, then seed
	Duplicates int     // points left out because an earlier point has the same settings
	proposed   []Trial // with tpe, the trials of the points written so far
}

// NewPlan makes and checks the trials of a sweep. Settings that do not work together are a *config.Error.
func NewPlan(d *Definition) (*Plan, error) {
	p := &Plan{Def: d}
	if d.Method == ASHA {
		if i := slices.IndexFunc(d.Axes, func(a Axis) bool { return a.Param == "train.epochs" }); i >= 0 {
			return nil, &config.Error{Problems: []config.Problem{{Source: d.Axes[i].At, Key: "train.epochs",
				Text: "asha trains to the epochs of its rungs; leave this axis out"}}}
		}
	}
	b := &builder{d: d, plan: p, ids: map[string]bool{}}
	switch d.Method {
	case Grid:
		d.grid(b.add)
	case TPE:
		p.Points = d.Trials
		b.random(min(d.Startup, d.Trials))
		b.extremes()
	default:
		b.random(d.Trials)
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	if d.Method != TPE {
		p.Points = len(p.Trials) / len(d.Seeds)
	}
	return p, nil
}

// builder collects trials and every different mistake.
type builder struct {
	d        *Definition
	plan     *Plan
	ids      map[string]bool
	problems []config.Problem
	seen     map[string]bool
	other    error
}

func (b *builder) err() error {
	if b.other != nil {
		return b.other
	}
	if len(b.problems) > 0 {
		return &config.Error{Problems: b.problems}
	}
	return nil
}

// add resolves a point for every seed; it returns false to end the enumeration.
func (b *builder) add(p Point) bool {
	trials, ok := b.resolve(p)
	if !ok {
		return b.other == nil && len(b.problems) < 20
	}
	if b.ids[trials[0].ID] {
		b.plan.Duplicates++
		return true
	}
	if len(b.plan.Trials)+len(trials) > mostTrials {
		b.other = fmt.Errorf("%s: more than %d trials; leave out values, or choose method random, tpe or asha",
			b.d.File, mostTrials)
		return false
	}
	for _, t := range trials {
		b.ids[t.ID] = true
	}
	b.plan.Trials = append(b.plan.Trials, trials...)
	return true
}

func (b *builder) resolve(p Point) (trials []Trial, ok bool) {
	number := len(b.plan.Trials) / len(b.d.Seeds)
	for _, seed := range b.d.Seeds {
		t, err := b.d.trial(number, p, seed)
		var bad *config.Error
		switch {
		case errors.As(err, &bad):
			b.note(bad, p)
			return nil, false
		case err != nil:
			b.other = err
			return nil, false
		}
		trials = append(trials, t)
	}
	return trials, true
}

// note keeps the mistakes of a point that no earlier point had.
func (b *builder) note(e *config.Error, p Point) {
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	for _, pr := range e.Problems {
		if !b.seen[pr.String()] {
			b.seen[pr.String()] = true
			pr.Text += "; in the trial " + strings.TrimSuffix(p.String(), "\n")
			b.problems = append(b.problems, pr)
		}
	}
}

// random adds n different random points, or all if the axes have fewer.
func (b *builder) random(n int) {
	drawn := map[string]bool{}
	for i := range n {
		for attempt := range 1000 {
			p := b.d.draw(i, attempt)
			if drawn[p.String()] {
				continue
			}
			drawn[p.String()] = true
			duplicates := b.plan.Duplicates
			if !b.add(p) || b.plan.Duplicates == duplicates {
				break
			}
			b.plan.Duplicates = duplicates
		}
	}
}

// extremes checks every value of every axis once, with the first values of the other axes.
func (b *builder) extremes() {
	for i := range b.d.Axes {
		values := b.d.Axes[i].Values
		if b.d.Axes[i].Continuous() {
			values = []Value{b.d.Axes[i].at(0), b.d.Axes[i].at(1)}
		}
		for _, v := range values {
			b.resolve(b.d.build(func(j int, a *Axis) Value {
				if j == i {
					return v
				}
				return a.at(0)
			}))
		}
	}
}
