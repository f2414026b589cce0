package report

import (
	"context"
	"testing"
	"time"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/run/records"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// steps is a training without a network.
type steps struct{ step, batches int }

func (s *steps) Next() (*data.Batch, error) {
	b := &data.Batch{Epoch: s.step / s.batches, Iter: s.step % s.batches, Images: batch.Images{N: 4}}
	s.step++
	return b, nil
}
func (*steps) Release(*data.Batch)                     {}
func (*steps) Start(*data.Batch, float64, bool) error  { return nil }
func (*steps) Finish() (r train.StepResult, err error) { return r, nil }
func (*steps) Depth() int                              { return 1 }

// What a report takes for the end of a run is where the training loop ends, for every way to end and every score.
func TestFinishedWhereTheLoopEnds(t *testing.T) {
	up := func(r1, r10 float64) eval.Metrics {
		m := eval.Metrics{I2T: eval.Recalls{R1: r1, R5: r1, R10: r10}, T2I: eval.Recalls{R1: r1, R5: r1, R10: r10}}
		m.MRecall = (4*r1 + 2*r10) / 6
		return m
	}
	scores := []eval.Metrics{{}, {}, up(10, 20), up(9, 40), up(8, 50), up(7, 60), up(7, 60), up(11, 10), up(1, 1),
		up(1, 1)}
	for name, o := range map[string]train.Options{
		"epochs":                      {Epochs: 3},
		"steps":                       {Epochs: 100, MaxSteps: 14},
		"early stop":                  {Epochs: 100, EarlyStop: 3},
		"early stop by four recalls":  {Epochs: 100, EarlyStop: 3, Best: "4recalls"},
		"early stop at zero":          {Epochs: 100, EarlyStop: 2},
		"early stop with the average": {Epochs: 100, EarlyStop: 3},
	} {
		t.Run(name, func(t *testing.T) {
			var l Log
			var finished []bool
			s := &steps{batches: 5}
			loop := train.Loop{Options: o, Step: s, Source: s, Batches: s.batches, Now: time.Now,
				Optim: train.OptimOptions{LR: 1, Decay: 1}}
			loop.Validate = func(context.Context) (eval.Metrics, error) {
				return scores[min(len(finished), len(scores)-1)], nil
			}
			if name == "early stop with the average" {
				loop.ValidateAverage = func(context.Context) (eval.Metrics, error) {
					return up(float64(5+min(len(finished), 8)), 10), nil
				}
			}
			loop.Hooks.Validation = func(v train.ValidationInfo) error {
				measured := func(m eval.Metrics) records.Measured {
					return records.Measured{I2T: m.I2T, T2I: m.T2I, MRecall: m.MRecall}
				}
				r := records.ValidationRecord{Step: v.Position.Step, Epoch: v.EpochPosition,
					Measured: measured(v.Metrics)}
				if a := v.Average; a != nil {
					r.Average = new(measured(a.Metrics))
				}
				l.Validations = append(l.Validations, r)
				finished = append(finished, l.Finished(&o))
				return nil
			}
			try.Do(t, loop.Run(t.Context()))
			for i, f := range finished {
				if last := i == len(finished)-1; f != last {
					t.Errorf("after validation %d of %d: finished %v", i+1, len(finished), f)
				}
			}
			p, ok := l.position(&o)
			if !ok || p.BestStep != loop.Position.BestStep || p.Stale != loop.Position.Stale {
				t.Errorf("position %+v, of the loop %+v", p, loop.Position)
			}
			l.Steps = append(l.Steps, records.StepRecord{Step: p.Step + 1})
			if l.Finished(&o) {
				t.Error("a step without a validation after it is the end")
			}
		})
	}
}
