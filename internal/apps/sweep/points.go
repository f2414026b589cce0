package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
)

// trials returns the trials of the plan, or with tpe the trials of the points proposed so far.
func (p *Plan) trials(s *Store) ([]Trial, error) {
	if p.Def.Method != TPE {
		return p.Trials, nil
	}
	out := p.proposed // written points do not change
	for n := len(out) / len(p.Def.Seeds); n < p.Points; n++ {
		b, err := readSmall(s.pointFile(n))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		point, err := p.Def.parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; the axes were changed since: choose another dir for the changed sweep",
				s.pointFile(n), err)
		}
		for _, seed := range p.Def.Seeds {
			t, err := p.Def.trial(n, point, seed)
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		}
	}
	p.proposed = out
	return out, nil
}

func (s *Store) pointFile(n int) string {
	return filepath.Join(s.Dir, pointsName, fmt.Sprintf("%04d.json", n))
}

// propose writes the next point of tpe, unless another process has written it.
func (p *Plan) propose(s *Store, states []*State) error {
	d := p.Def
	all := groups(states)
	taken := map[string]bool{}
	var seen []observation
	for _, g := range all {
		taken[g.states[0].ID], taken[g.states[0].Point.String()] = true, true
		if mean, ok := g.mean(g.states[0].Epochs); ok {
			seen = append(seen, observation{g.states[0].Point, mean})
		}
	}
	n := len(all)
	for attempt := range 1000 {
		point := d.draw(n, attempt)
		if n >= d.Startup && len(seen) > 0 {
			point = d.propose(n, attempt, seen)
		}
		if taken[point.String()] {
			continue
		}
		t, err := d.trial(n, point, d.Seeds[0])
		if err != nil {
			return err
		}
		if !taken[t.ID] {
			return s.addPoint(n, point)
		}
	}
	return errExhausted
}

var errExhausted = errors.New("all points of the axes are taken")

// addPoint writes a point file as a whole and never replaces one.
func (s *Store) addPoint(n int, p Point) error {
	b, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(s.pointFile(n))); err != nil {
		return err
	}
	err = atomicfile.WriteNew(s.pointFile(n), atomicfile.Bytes(append(b, '\n')))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// States reads the state of every trial that exists now.
func (p *Plan) States(s *Store) ([]*State, error) {
	trials, err := p.trials(s)
	if err != nil {
		return nil, err
	}
	return s.Read(trials)
}
