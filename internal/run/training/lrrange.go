package training

import (
	"context"
	"errors"
	"fmt"
	"math"

	"vsetrain/internal/run/placement"
	"vsetrain/train"
)

// RangeRequest asks for a learning-rate range test: a run in which the rate rises from step to step by a constant
// factor.
type RangeRequest struct {
	Request  // the run directory is not used
	From, To float64
	Steps    int
	Progress func(done, total int) // nil reports nothing
}

// RangePoint is a step of a range test.
type RangePoint struct {
	Step         int     `json:"step"` // from 1
	LearningRate float64 `json:"lr"`
	Loss         float64 `json:"loss"`   // per pair of the batch
	Smooth       float64 `json:"smooth"` // exponential mean of the losses, free of bias
}

// RangeReport is the curve of a range test.
type RangeReport struct {
	Points   []RangePoint `json:"points"`
	Diverged bool         `json:"diverged"` // it ended before the last step
	// Steepest is the rate at which the smoothed loss falls fastest over the logarithm of the rate, and Lowest the rate
	// at its minimum; both are 0 if the loss did not fall.
	Steepest float64 `json:"steepest"`
	Lowest   float64 `json:"lowest"`
}

const (
	rangeMemory  = 0.9 // of the smoothed loss
	rangeDiverge = 4   // times its minimum, where a range test ends
	rangeEdge    = 5   // steps at the start that are too few for a mean
)

// LRRange trains a network from its start while the learning rate rises, and writes nothing. It ends where the smoothed
// loss is four times its minimum, or not finite.
//
// Source: L. N. Smith, Cyclical Learning Rates for Training Neural Networks, WACV 2017 (LR range test).
func LRRange(ctx context.Context, r RangeRequest) (rep RangeReport, err error) {
	if !(r.From > 0 && r.From < r.To) || math.IsInf(r.To, 0) || r.Steps < 2*rangeEdge {
		return rep, fmt.Errorf("range test from %g to %g in %d steps: expected 0 < from < to and at least %d steps",
			r.From, r.To, r.Steps, 2*rangeEdge)
	}
	r.RunDir, r.FreeDisk = "", nil
	t := newTraining(r.Request)
	t.Cfg.Train.DropLast = true // a smaller batch has another loss of a pair
	defer t.close()
	if err := t.openDry(ctx); err != nil {
		return rep, placement.Explain(err, t.Cfg.Device, "no step had been done")
	}
	defer func() { err = placement.Explain(err, t.Cfg.Device, "a range test keeps nothing") }()
	mean, lowest := 0.0, math.Inf(1)
	for i := range r.Steps {
		lr := r.From * math.Pow(r.To/r.From, float64(i)/float64(r.Steps-1))
		loss, pairs, err := t.dryStep(ctx, lr)
		if _, ok := errors.AsType[*train.NotFiniteError](err); ok {
			rep.Diverged = true
			break
		}
		if err != nil {
			return rep, fmt.Errorf("step %d: %w", i+1, err)
		}
		loss /= float64(pairs)
		mean = rangeMemory*mean + (1-rangeMemory)*loss
		smooth := mean / (1 - math.Pow(rangeMemory, float64(i+1)))
		rep.Points = append(rep.Points, RangePoint{i + 1, lr, loss, smooth})
		if r.Progress != nil {
			r.Progress(i+1, r.Steps)
		}
		if i >= rangeEdge && smooth > rangeDiverge*lowest {
			rep.Diverged = true
			break
		}
		if i >= rangeEdge {
			lowest = min(lowest, smooth)
		}
	}
	rep.read()
	return rep, nil
}

// read finds the steepest fall and the minimum of the smoothed loss.
func (r *RangeReport) read() {
	slope, lowest := 0.0, math.Inf(1)
	for i := rangeEdge; i+1 < len(r.Points); i++ {
		a, b := r.Points[i-1], r.Points[i+1]
		if s := (b.Smooth - a.Smooth) / math.Log(b.LearningRate/a.LearningRate); s < slope {
			slope, r.Steepest = s, r.Points[i].LearningRate
		}
		if p := r.Points[i]; p.Smooth < lowest {
			lowest, r.Lowest = p.Smooth, p.LearningRate
		}
	}
	if slope == 0 {
		r.Lowest = 0
	}
}
