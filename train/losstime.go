package train

import (
	"fmt"
	"math"
	"slices"
	"time"

	"vsetrain/internal/compute/graph"
)

const inputScores = "in.scores" // [B, B]

// lossShape identifies a graph of the loss alone.
type lossShape struct{ n, semantic int }

// LossTimer measures the time of the loss of a step without its network: margins, hard negatives and the gradient of
// the scores.
type LossTimer struct {
	step     *Step
	programs map[lossShape]*graph.Program
	scores   []float32
}

// NewLossTimer returns a LossTimer for the loss of a step.
func NewLossTimer(s *Step) *LossTimer {
	return &LossTimer{step: s, programs: map[lossShape]*graph.Program{}}
}

// Time runs the loss again on the scores of the last step and returns how long it took. The batch of the step must not
// have been released.
func (t *LossTimer) Time(semantic int, now func() time.Time) (time.Duration, error) {
	s := t.step
	if s.last == nil {
		return 0, fmt.Errorf("time the loss: no step was run before")
	}
	v := s.last.vm.View(s.last.scores)
	sh := lossShape{n: int(math.Sqrt(float64(v.N)))}
	if s.loss.NeedsSemantics() {
		sh.semantic = semantic
	}
	t.scores = slices.Grow(t.scores[:0], v.N)[:v.N]
	s.model.Instance.Dev.DownloadFloats(t.scores, v)
	if err := s.model.Instance.Feed(inputScores, t.scores); err != nil {
		return 0, err
	}
	p, err := t.program(sh)
	if err != nil {
		return 0, err
	}
	start := now()
	if err := p.RunAll(); err != nil {
		return 0, fmt.Errorf("time the loss: %w", err)
	}
	if err := s.model.Instance.Dev.Sync(); err != nil {
		return 0, err
	}
	return now().Sub(start), nil
}

func (t *LossTimer) program(sh lossShape) (*graph.Program, error) {
	if p := t.programs[sh]; p != nil {
		return p, nil
	}
	g := t.step.model.Instance.Graph()
	var p *graph.Program
	err := graph.Build(func() (err error) {
		c := contextOf(&t.step.loss, g, sh.n, sh.semantic)
		l := t.step.loss.Build(g, g.Input(inputScores, sh.n, sh.n), c, false)
		p, err = graph.Compile(t.step.model.Instance, g, []*graph.Node{l}, nil)
		return err
	})
	if err == nil {
		t.programs[sh] = p
	}
	return p, err
}
