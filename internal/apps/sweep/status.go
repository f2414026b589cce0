package sweep

import "time"

// States of a trial.
const (
	Waiting = "waiting" // not started
	Running = "running"
	Stopped = "stopped" // interrupted; continues at the next start
	Paused  = "paused"  // asha: finished a rung and may continue to the next
	Pruned  = "pruned"  // asha: was not among the best of its rung
	Done    = "done"
)

// Line is the status of a trial.
type Line struct {
	Number int      `json:"number"` // of the point
	ID     string   `json:"id"`
	Seed   uint64   `json:"seed"`
	Point  Point    `json:"point"`
	State  string   `json:"state"`
	Epoch  float64  `json:"epoch"`  // done
	Target int      `json:"target"` // epochs to do; with asha, in the present rung
	Best   *float64 `json:"best"`   // metric so far, null before a validation
	ETA    *float64 `json:"eta_seconds"`
	Host   string   `json:"host,omitempty"`
	Job    string   `json:"job,omitempty"`
	Error  string   `json:"error,omitempty"`
	Dir    string   `json:"dir"`
}

// Status is the state of a sweep.
type Status struct {
	Dir    string         `json:"dir"`
	Method string         `json:"method"`
	Metric string         `json:"metric"`
	Points int            `json:"points"`
	Counts map[string]int `json:"counts"` // trials by state
	Done   bool           `json:"done"`   // nothing is left to do
	ETA    *float64       `json:"eta_seconds"`
	Trials []Line         `json:"trials"`
}

// ReadStatus reads the state of a sweep from its folder, even while workers change it.
func ReadStatus(p *Plan, s *Store, now time.Time) (*Status, error) {
	states, err := p.States(s)
	if err != nil {
		return nil, err
	}
	out := &Status{Dir: s.Dir, Method: p.Def.Method, Metric: p.Def.Metric, Points: p.Points, Counts: map[string]int{},
		Trials: []Line{}}
	out.Done = p.finished(states)
	left, speed := 0.0, 0.0 // epochs, epochs per second
	for _, st := range states {
		l, rate, err := lineOf(st, p.Def.Metric, now)
		if err != nil {
			return nil, err
		}
		if p.Def.Method == ASHA && l.State == Done && st.Target < st.Epochs {
			if l.State = Paused; out.Done {
				l.State = Pruned
			}
		}
		if l.State == Waiting || l.State == Running || l.State == Stopped {
			target := st.Target
			if target == 0 && p.Def.Method == ASHA {
				target = p.Def.Rungs[0]
			} else if target == 0 {
				target = st.Epochs
			}
			left += max(float64(target)-l.Epoch, 0)
		}
		speed += rate
		out.Counts[l.State]++
		out.Trials = append(out.Trials, l)
	}
	if missing := p.Points - len(groups(states)); missing > 0 && len(states) > 0 { // tpe
		out.Counts[Waiting] += missing * len(p.Def.Seeds)
		left += float64(missing * len(p.Def.Seeds) * states[0].Epochs)
	}
	if speed > 0 {
		eta := left / speed
		out.ETA = &eta
	}
	return out, nil
}

// lineOf describes a trial and returns its present epochs per second.
func lineOf(st *State, metric string, now time.Time) (l Line, rate float64, err error) {
	l = Line{Number: st.Number, ID: st.ID, Seed: st.Seed, Point: st.Point, Target: st.Target, Dir: st.Dir,
		State: Waiting}
	if st.Target == 0 {
		return l, 0, nil
	}
	if l.Epoch, err = position(st.Dir); err != nil {
		return l, 0, err
	}
	best, ok, err := bestValidation(st.Dir, metric, l.Epoch)
	if err != nil {
		return l, 0, err
	}
	if ok {
		x := score(best, metric)
		l.Best = &x
	}
	switch {
	case st.Failed != nil:
		l.State, l.Error = Failed, st.Failed.Error
	case st.done(st.Target):
		l.State = Done
	case st.Claim == nil:
		l.State = Stopped
	default:
		l.State, l.Host, l.Job = Running, st.Claim.Host, st.Claim.Job
		if seconds := now.Sub(st.Claim.Since).Seconds(); seconds > 0 && l.Epoch > st.Claim.Epoch {
			rate = (l.Epoch - st.Claim.Epoch) / seconds
			eta := max(float64(st.Target)-l.Epoch, 0) / rate
			l.ETA = &eta
		}
	}
	return l, rate, nil
}
