package train

import (
	"errors"
	"math"
	"testing"

	"vsetrain/internal/system/options"
)

// By hand, of 10 steps an epoch: a warm-up of 4 steps rises in a line, and a cosine of 2 epochs falls over the other
// 16.
func TestLearningRate(t *testing.T) {
	repeat := OptimOptions{LR: 0.8, Decay: 0.1, Schedule: Repeat, LRUpdate: 1, WarmupSteps: 4}
	cosine := OptimOptions{LR: 0.8, Decay: 0.1, Schedule: Cosine, CosineEpochs: 2, WarmupSteps: 4}
	floor := cosine
	floor.CosineEnd = 0.25
	plain := OptimOptions{LR: 0.8, Decay: 0.1, Schedule: Cosine, CosineEpochs: 2, LRUpdate: 1}
	for _, c := range []struct {
		name string
		o    OptimOptions
		want map[int64]float64
	}{
		{"repeat", repeat, map[int64]float64{0: 0.2, 1: 0.4, 3: 0.8, 4: 0.8, 9: 0.8, 10: 0.08, 20: 0.008}},
		{"cosine", cosine,
			map[int64]float64{0: 0.2, 3: 0.8, 4: 0.8, 8: 0.8 * (1 + math.Sqrt2/2) / 2, 12: 0.4, 20: 0, 99: 0}},
		{"cosine with an end", floor, map[int64]float64{4: 0.8, 12: 0.5, 20: 0.2, 99: 0.2}},
		{"without warm-up", plain, map[int64]float64{0: 0.8, 5: 0.8 * (1 + math.Sqrt2/2) / 2, 10: 0.4, 20: 0}},
	} {
		for step, want := range c.want {
			if got := c.o.LearningRate(step, 10); math.Abs(got-want) > 1e-15 {
				t.Errorf("%s, step %d: %v, want %v", c.name, step, got, want)
			}
		}
	}
	short := OptimOptions{LR: 1, Schedule: Cosine, CosineEpochs: 1, WarmupSteps: 30}
	if got := short.LearningRate(12, 10); math.IsNaN(got) || got < 0 || got > 1 {
		t.Errorf("a warm-up longer than the cosine: %v", got)
	}
}

// The end of the cosine is the end of the plan; settings of a schedule that is not chosen are mistakes.
func TestCosineOptions(t *testing.T) {
	o := DefaultOptimOptions()
	o.Settle(30)
	if o != DefaultOptimOptions() {
		t.Errorf("the papers' schedule was changed: %+v", o)
	}
	o.Schedule = Cosine
	o.Settle(30)
	o.Settle(40)
	if o.CosineEpochs != 30 || o.Validate() != nil {
		t.Errorf("%+v, %v", o, o.Validate())
	}
	o.Schedule = Repeat
	var e *options.Error
	if err := o.Validate(); !errors.As(err, &e) || e.Key != "cosine_epochs" {
		t.Errorf("cosine_epochs of schedule repeat: %v", err)
	}
}
