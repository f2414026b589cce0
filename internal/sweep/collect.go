package sweep

import (
	"cmp"
	"slices"

	"vsetrain/eval"
)

// Row is what a sweep found at one point.
type Row struct {
	Number int      `json:"number"`
	Point  Point    `json:"point"`
	Epochs int      `json:"epochs"` // the results are after so many epochs
	Mean   float64  `json:"mean"`   // of the metric over the seeds
	Std    *float64 `json:"std"`    // sample standard deviation, null for one seed
	Seeds  []Seed   `json:"seeds"`
}

// Seed is the result of one seed.
type Seed struct {
	Seed      uint64  `json:"seed"`
	ID        string  `json:"id"`
	Dir       string  `json:"dir"`
	Score     float64 `json:"score"`
	BestEpoch float64 `json:"best_epoch"`
}

// Collection is the result of a sweep.
type Collection struct {
	Dir        string       `json:"dir"`
	Method     string       `json:"method"`
	Metric     string       `json:"metric"`
	Rows       []Row        `json:"points"` // the best first
	Importance []Importance `json:"importance"`
	Failed     int          `json:"failed_trials"`
	Left       int          `json:"unfinished_trials"`
	best       Trial
}

// Collect gathers the results that exist; a sweep need not be done. Points without a result are left out.
func Collect(p *Plan, s *Store) (*Collection, error) {
	states, err := p.States(s)
	if err != nil {
		return nil, err
	}
	c := &Collection{Dir: s.Dir, Method: p.Def.Method, Metric: p.Def.Metric, Rows: []Row{}}
	trials := map[string]Trial{}
	for _, st := range states {
		trials[st.ID] = st.Trial
		_, any := st.Last()
		switch {
		case st.Failed != nil:
			c.Failed++
		case !any || !st.done(max(st.Target, 1)):
			c.Left++
		}
	}
	c.Left += (p.Points - len(groups(states))) * len(p.Def.Seeds) // points that tpe has not proposed yet
	for _, g := range groups(states) {
		if r, ok := g.row(); ok {
			c.Rows = append(c.Rows, r)
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b Row) int { return cmp.Compare(b.Mean, a.Mean) })
	c.Importance = importances(p.Def, groups(states))
	if len(c.Rows) > 0 {
		best := slices.MaxFunc(c.Rows[0].Seeds, func(a, b Seed) int { return cmp.Compare(a.Score, b.Score) })
		c.best = trials[best.ID]
	}
	return c, nil
}

// row returns mean and deviation after the most epochs that any seed finished, over the seeds that did.
func (g group) row() (r Row, ok bool) {
	r.Number, r.Point = g.number, g.states[0].Point
	for _, s := range g.states {
		if last, any := s.Last(); any {
			r.Epochs, ok = max(r.Epochs, last.Epochs), true
		}
	}
	for _, s := range g.states {
		if x, done := s.Results[r.Epochs]; done {
			r.Seeds = append(r.Seeds, Seed{s.Trial.Seed, s.ID, s.Dir, x.Score, x.BestEpoch})
		}
	}
	var scores []float64
	for _, x := range r.Seeds {
		scores = append(scores, x.Score)
	}
	if mean, std := eval.MeanStd(scores...); ok {
		if r.Mean = mean; len(scores) > 1 {
			r.Std = &std
		}
	}
	return r, ok
}
