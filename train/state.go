package train

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// State is the state of a training besides the weights and the optimiser's moments. A caller may embed it in a larger
// state (Stored).
type State struct {
	Position Position `json:"position"`
	Seed     uint64   `json:"seed"`
	Updates  int64    `json:"updates"` // of the optimiser; Snapshot.WriteState fills it in
}

func (s *State) state() *State { return s }

// Stored is a State, or a struct that embeds one.
type Stored interface{ state() *State }

// Check returns an error if p cannot be the position of a run with that many batches per epoch.
func (p Position) Check(batches int) error {
	if p.Epoch < 0 || p.Iter < 0 || p.Iter >= batches || p.Step != int64(p.Epoch)*int64(batches)+int64(p.Iter) {
		return fmt.Errorf("step %d, epoch %d and iteration %d do not belong together: an epoch has %d batches",
			p.Step, p.Epoch, p.Iter, batches)
	}
	if !(p.Best >= 0 && p.Best <= 100) || p.BestStep < 0 || p.BestStep > p.Step || (p.Best == 0) != (p.BestStep == 0) {
		return fmt.Errorf("after step %d a best score of %v at step %d is impossible", p.Step, p.Best, p.BestStep)
	}
	if !(p.BestAverage >= 0 && p.BestAverage <= 100) || p.BestAverageStep < 0 || p.BestAverageStep > p.Step {
		return fmt.Errorf("after step %d a best score of %v of the averaged weights at step %d is impossible",
			p.Step, p.BestAverage, p.BestAverageStep)
	}
	if p.Validated < 0 || p.Validated > p.Step {
		return fmt.Errorf("after step %d a validation at step %d is impossible", p.Step, p.Validated)
	}
	if p.Stale < 0 || p.Collapsed < 0 {
		return fmt.Errorf("%d stale validations and %d collapsed steps are impossible", p.Stale, p.Collapsed)
	}
	return nil
}

func (s *Step) extras() []models.Extra {
	var out []models.Extra
	m, v := s.opt.moments()
	for _, p := range s.model.Instance.Params.Specs {
		if p.State {
			continue
		}
		lo, hi := s.model.Instance.Params.Range(p.Name)
		out = append(out, models.Extra{Name: "optim/m/" + p.Name, Shape: p.Shape, View: m.Slice(lo, hi)},
			models.Extra{Name: "optim/v/" + p.Name, Shape: p.Shape, View: v.Slice(lo, hi)})
		if a := s.opt.average; a != nil {
			out = append(out, models.Extra{Name: "optim/ema/" + p.Name, Shape: p.Shape, View: a.values.Slice(lo, hi)})
		}
	}
	state := s.memory.state()
	for _, name := range slices.Sorted(maps.Keys(state)) {
		out = append(out, models.Extra{Name: memoryPrefix + name, Shape: []int{len(*state[name])}, Host: state[name]})
	}
	return out
}

// memoryPrefix begins the names of the memory of a loss.
const memoryPrefix = "optim/loss/"

// Remember sets the memory of the loss to its memory at the end of another run.
func Remember(s *Step, c *models.Checkpoint) (err error) {
	for name, values := range s.memory.state() {
		if *values, err = c.Doubles(memoryPrefix + name); err != nil {
			return err
		}
	}
	return nil
}

// BroadcastState sets the parameters and the state of the steps of all ranks, and st, to rank 0's. With one rank it
// does nothing.
func BroadcastState(s *Step, st Stored) error {
	r := s.ranks
	if r == nil {
		return nil
	}
	r.complete()
	params := s.model.Instance.Params
	if !s.opt.whole[0].Present() { // nothing was restored
		if err := s.opt.open(); err != nil {
			return err
		}
	}
	defer s.opt.close()
	shared := []device.View{params.Values(), params.State(), s.opt.whole[0], s.opt.whole[1]}
	if a := s.opt.average; a != nil {
		shared = append(shared, a.values)
	}
	for _, v := range shared {
		if v.N > 0 {
			device.Do(r.dev, device.Broadcast{X: v})
		}
	}
	s.opt.take()
	st.state().Updates = s.opt.steps
	memory := map[string][]float64{}
	for name, values := range s.memory.state() {
		memory[name] = *values
	}
	if err := r.Agree(st, &memory); err != nil {
		return err
	}
	s.opt.steps = st.state().Updates
	for name, values := range s.memory.state() {
		*values = memory[name]
	}
	return nil
}

// Snapshot is the state of a step for checkpoints: the values of the device between two steps, or a copy of them.
type Snapshot struct {
	model   *models.Model
	values  models.Values
	average *average // nil if none is kept
	extras  []models.Extra
	updates int64
}

// Snapshot returns the state of the step. It copies the state to c (NewCopy), so that another goroutine may use the
// snapshot while steps continue. If c is nil, the snapshot must be used before the next step. With several ranks, one
// takes the snapshot in a hook of Loop, and uses it there unless it has a copy.
func (s *Step) Snapshot(c *models.Copy) (*Snapshot, error) {
	n := &Snapshot{s.model, s.model.Instance.Dev, s.opt.average, s.extras(), s.opt.steps}
	if c == nil {
		return n, nil
	}
	n.values = c
	for i, e := range n.extras {
		if e.Host != nil {
			own := slices.Clone(*e.Host)
			n.extras[i].Host = &own
		}
	}
	m, v := s.opt.moments()
	views := []device.View{s.model.Instance.Params.Values(), s.model.Instance.Params.State(), m, v}
	if n.average != nil {
		views = append(views, n.average.values)
	}
	return n, c.Take(s.model.Instance.Dev, views...)
}

// NewCopy allocates the memory for a copy of a Snapshot.
func NewCopy(s *Step) (*models.Copy, error) {
	p := s.model.Instance.Params
	n := p.Values().N + p.State().N + 2*p.OptimisedSize()
	if s.Averages() {
		n += p.OptimisedSize()
	}
	return models.NewCopy(s.model.Instance.Dev, n)
}

// WriteWeights writes a checkpoint of the weights, or of their average.
func (n *Snapshot) WriteWeights(w io.Writer, info models.Info, average bool) error {
	from := n.values
	if average {
		from = averaged{from, n.average}
	}
	return models.WriteCheckpoint(w, n.model, from, info, nil)
}

// WriteState writes a checkpoint from which training resumes exactly.
func (n *Snapshot) WriteState(w io.Writer, info models.Info, st Stored) error {
	st.state().Updates = n.updates
	state, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("describe training state: %w", err)
	}
	info.Train = state
	return models.WriteCheckpoint(w, n.model, n.values, info, n.extras)
}

// RestoreState reads the weights, the optimiser and the state of a checkpoint written by WriteState. With several
// ranks, one reads it, and BroadcastState must follow.
func (s *Step) RestoreState(c *models.Checkpoint, st Stored) error {
	if len(c.Info.Train) == 0 {
		return fmt.Errorf("%s holds weights only; training cannot resume from it, but train.init_from can start from "+
			"it", c.Path)
	}
	if err := json.Unmarshal(c.Info.Train, st); err != nil {
		return fmt.Errorf("%s: broken training state: %w", c.Path, err)
	}
	if err := c.Restore(s.model); err != nil {
		return err
	}
	if err := s.opt.open(); err != nil {
		return err
	}
	for _, e := range s.extras() {
		var err error
		if e.Host != nil {
			*e.Host, err = c.Doubles(e.Name)
		} else {
			err = c.RestoreTensor(s.model.Instance.Dev, e.Name, e.Shape, e.View)
		}
		if err != nil {
			return err
		}
	}
	s.opt.steps = st.state().Updates
	return nil
}
