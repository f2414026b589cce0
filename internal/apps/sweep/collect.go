package sweep

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"vsetrain/eval"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/stats"
)

// Row is the result of one point.
type Row struct {
	Rank   int   `json:"rank"` // from 1; points with the same mean share it
	Number int   `json:"number"`
	Point  Point `json:"-"`
	// Settings are the settings of the point by key, with the types of the configuration; for a bundle, its name.
	Settings map[string]any `json:"settings"`
	Network  string         `json:"network"`
	Loss     string         `json:"loss"`
	Data     string         `json:"data"`   // folder, as the configuration names it
	Epochs   int            `json:"epochs"` // after which the results were measured
	Mean     float64        `json:"mean"`   // of the metric over the seeds
	Std      *float64       `json:"std"`    // sample standard deviation, null for one seed
	Seeds    []Seed         `json:"seeds"`
}

// Seed is the result of one seed.
type Seed struct {
	Seed      uint64  `json:"seed"`
	ID        string  `json:"id"`
	Dir       string  `json:"dir"`
	Score     float64 `json:"score"`
	BestEpoch float64 `json:"best_epoch"`
	Precision string  `json:"precision"`
	Device    string  `json:"device,omitempty"`  // of the last session, like the fields below
	Version   string  `json:"version,omitempty"` // of vsetrain
	Commit    string  `json:"commit,omitempty"`
	Dirty     bool    `json:"dirty,omitempty"` // the build had changes beyond the commit
}

// Collection is the result of a sweep.
type Collection struct {
	Sweep      string       `json:"sweep"` // file
	Dir        string       `json:"dir"`
	Method     string       `json:"method"`
	Metric     string       `json:"metric"`
	Split      string       `json:"split"`                         // on which the best validation was measured
	Rows       []Row        `json:"points"`                        // the best first
	NoEffect   []string     `json:"axes_without_effect,omitempty"` // see stats.WithoutEffect
	Importance []Importance `json:"importance"`
	Overlap    float64      `json:"importance_overlap,omitempty"` // sum of the shares where it is above 1, see overlap
	Failed     int          `json:"failed_trials"`
	Left       int          `json:"unfinished_trials"`
	best       Trial
}

// Collect collects the existing results, even of an unfinished sweep. It leaves out points without a result.
func Collect(p *Plan, s *Store) (*Collection, error) {
	states, err := p.States(s)
	if err != nil {
		return nil, err
	}
	c := &Collection{Sweep: p.Def.File, Split: "dev", Dir: s.Dir,
		Method: p.Def.Method, Metric: p.Def.Metric, Rows: []Row{}}
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
		r, ok, err := g.row()
		if err != nil {
			return nil, err
		}
		if ok {
			c.Rows = append(c.Rows, r)
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b Row) int { return cmp.Compare(b.Mean, a.Mean) })
	for i := range c.Rows {
		const rounding = 1e-9 // of a mean
		if c.Rows[i].Rank = i + 1; i > 0 && c.Rows[i-1].Mean-c.Rows[i].Mean <= rounding {
			c.Rows[i].Rank = c.Rows[i-1].Rank
		}
	}
	c.NoEffect = c.withoutEffect(p.Def)
	c.Importance = importances(p.Def, groups(states))
	c.Overlap = overlap(c.Importance)
	if len(c.Rows) > 0 {
		best := slices.MaxFunc(c.Rows[0].Seeds, func(a, b Seed) int { return cmp.Compare(a.Score, b.Score) })
		c.best = trials[best.ID]
	}
	return c, nil
}

// Best returns the points with the best mean; equal points are in the order of the plan.
func (c *Collection) Best() []Row {
	n := 0
	for n < len(c.Rows) && c.Rows[n].Rank == 1 {
		n++
	}
	return c.Rows[:n]
}

// withoutEffect lists the axes that did not change any score.
func (c *Collection) withoutEffect(d *Definition) (axes []string) {
	var levels [][]string
	var scores []float64
	keys := d.Keys()
	for _, r := range c.Rows {
		for _, s := range r.Seeds {
			l := []string{strconv.FormatUint(s.Seed, 10), strconv.Itoa(r.Epochs)}
			for _, k := range keys {
				l = append(l, r.Point.Text(k))
			}
			levels, scores = append(levels, l), append(scores, s.Score)
		}
	}
	for i, none := range stats.WithoutEffect(levels, scores) {
		if none && i >= 2 {
			axes = append(axes, keys[i-2])
		}
	}
	return axes
}

// row returns mean and deviation after the most epochs that any seed finished, over the seeds that finished them.
func (g group) row() (r Row, ok bool, err error) {
	c := &g.states[0].Trial.Config
	r.Number, r.Point, r.Settings = g.number, g.states[0].Point, map[string]any{}
	r.Network, r.Loss, r.Data = c.Model.Network, c.Loss.Name, c.Data.Dir
	for _, choice := range r.Point {
		if r.Settings[choice.Key] = c.Value(choice.Key); r.Settings[choice.Key] == nil { // a bundle
			r.Settings[choice.Key] = choice.Value.Text
		}
	}
	for _, s := range g.states {
		if last, any := s.Last(); any {
			r.Epochs, ok = max(r.Epochs, last.Epochs), true
		}
	}
	r.Loss += c.Loss.Unacted(float64(r.Epochs))
	for _, s := range g.states {
		if x, done := s.Results[r.Epochs]; done {
			seed, err := s.seed(x)
			if err != nil {
				return r, false, err
			}
			r.Seeds = append(r.Seeds, seed)
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
	return r, ok, nil
}

// seed describes a result and the session in env.json that measured it.
func (s *State) seed(x Result) (Seed, error) {
	out := Seed{Seed: s.Trial.Seed, ID: s.ID, Dir: s.Dir, Score: x.Score, BestEpoch: x.BestEpoch,
		Precision: s.Trial.Config.Device.Precision}
	sessions, err := runfs.ReadSessions(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	if len(sessions) > 0 {
		e := sessions[len(sessions)-1]
		out.Device, out.Version, out.Commit, out.Dirty = e.Device, e.Version, e.Commit, e.Dirty
	}
	return out, nil
}
