package sweep

import (
	"cmp"
	"math"
	"slices"
)

// Job is a trial and the epochs to train it to.
type Job struct {
	State  *State
	Epochs int
}

// next returns the next job, as a function of the files of the trials. Without a job, wait reports whether a trial of
// another worker may still lead to one.
func (d *Definition) next(states []*State) (job *Job, wait bool) {
	if d.Method == ASHA {
		job = d.nextRung(states)
	} else if i := slices.IndexFunc(states, func(s *State) bool {
		return s.Failed == nil && s.Claim == nil && !s.done(s.Epochs)
	}); i >= 0 {
		job = &Job{states[i], states[i].Epochs}
	}
	// The claim of a trial that has just finished counts too, because its result may lead to a job.
	return job, job == nil && slices.ContainsFunc(states, func(s *State) bool { return s.Claim != nil })
}

type group struct {
	number int
	states []*State
}

func groups(states []*State) (out []group) {
	for _, s := range states {
		if n := len(out); n > 0 && out[n-1].number == s.Number {
			out[n-1].states = append(out[n-1].states, s)
			continue
		}
		out = append(out, group{s.Number, []*State{s}})
	}
	return out
}

// mean returns the mean score of all seeds after some epochs; ok is false while one is missing.
func (g group) mean(epochs int) (mean float64, ok bool) {
	for _, s := range g.states {
		r, done := s.Results[epochs]
		if !done {
			return 0, false
		}
		mean += r.Score / float64(len(g.states))
	}
	return mean, true
}

// reached returns the largest target of the trials of the point.
func (g group) reached() (epochs int) {
	for _, s := range g.states {
		epochs = max(epochs, s.Target)
	}
	return epochs
}

func (g group) failed() bool {
	return slices.ContainsFunc(g.states, func(s *State) bool { return s.Failed != nil })
}

// open returns a trial of the point that nobody works on and that is not trained to the epochs. claimed reports whether
// another worker has such a trial.
func (g group) open(epochs int) (open *State, claimed bool) {
	for _, s := range g.states {
		switch {
		case s.done(epochs):
		case s.Claim != nil:
			claimed = true
		case open == nil:
			open = s
		}
	}
	return open, claimed
}

// nextRung is asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter Tuning",
// MLSys 2020, algorithm 2): a point among the best 1/factor of a finished rung continues to the next rung, the highest
// rung first; if there is none, a new point starts. Started trials are finished first, so that a killed sweep continues
// where it was. The score of a point is the mean over its seeds.
func (d *Definition) nextRung(states []*State) *Job {
	all := groups(states)
	for _, g := range all {
		if target := g.reached(); target > 0 && !g.failed() {
			if open, _ := g.open(target); open != nil {
				return &Job{open, target}
			}
		}
	}
	for k := len(d.Rungs) - 2; k >= 0; k-- {
		for _, g := range d.best(all, k) {
			if g.reached() > d.Rungs[k] || g.failed() {
				continue
			}
			if open, claimed := g.open(d.Rungs[k+1]); open != nil && !claimed {
				return &Job{open, d.Rungs[k+1]}
			}
		}
	}
	for _, g := range all {
		if g.reached() == 0 && !g.failed() {
			if open, _ := g.open(d.Rungs[0]); open != nil {
				return &Job{open, d.Rungs[0]}
			}
		}
	}
	return nil
}

// best returns the best 1/factor of the points that finished rung k, the best first; of equal points, the earlier
// first.
func (d *Definition) best(all []group, k int) []group {
	type scored struct {
		group
		score float64
	}
	var list []scored
	for _, g := range all {
		if mean, ok := g.mean(d.Rungs[k]); ok && !math.IsNaN(mean) {
			list = append(list, scored{g, mean})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := make([]group, len(list)/d.Factor)
	for i := range out {
		out[i] = list[i].group
	}
	return out
}
