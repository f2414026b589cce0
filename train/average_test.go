package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// The average of three updates by its formula, for a decay that is reached and one that is not; the weights come back
// bit for bit after their exchange, also after an error.
func TestAverage(t *testing.T) {
	for _, decay := range []float64{0.05, 0.9} {
		s := tinyStep(t, newDevice(t, cpu.FP64), "lmh", 0)
		average := try.Get(newAverage(s.model.Instance.Dev, s.model.Instance.Params, decay))(t)
		s.opt.average = average
		weights := func() []float64 {
			v := s.model.Instance.Params.Values()
			x := make([]float64, v.N)
			s.model.Instance.Dev.DownloadDoubles(x, v)
			return x
		}
		var want []float64
		for n := range 3 {
			run(t, s, tinyBatch(uint64(n), 6, 12))
			d := min(decay, float64(n)/float64(n+9))
			w := weights()
			if want == nil {
				want = make([]float64, len(w))
			}
			for i := range want {
				want[i] = d*want[i] + (1-d)*w[i]
			}
		}
		before := weights()
		boom := errors.New("boom")
		var stored, exchanged bytes.Buffer
		try.Do(t, try.Get(s.Snapshot(nil))(t).WriteWeights(&stored, models.Info{}, true))
		err := s.WithAverage(func() error {
			try.Do(t, models.WriteCheckpoint(&exchanged, s.model, s.model.Instance.Dev, models.Info{}, nil))
			for i, v := range weights() {
				if math.Abs(v-want[i]) > 1e-15 {
					t.Fatalf("decay %v: value %d is %v, want %v", decay, i, v, want[i])
				}
			}
			return boom
		})
		if !errors.Is(err, boom) || !slices.Equal(weights(), before) || slices.Equal(before, want) {
			t.Errorf("decay %v: the weights did not come back, or are the average: %v", decay, err)
		}
		if !bytes.Equal(stored.Bytes(), exchanged.Bytes()) {
			t.Errorf("decay %v: a checkpoint of the average is another one", decay)
		}
	}
}

// The average goes on rising to its decay for as long as the formula says.
func TestAverageRises(t *testing.T) {
	s := tinyStep(t, newDevice(t, cpu.FP64), "lmh", 0)
	dev := s.model.Instance.Dev
	a := try.Get(newAverage(dev, s.model.Instance.Params, 0.9999))(t)
	for n, want := range map[int64]float64{1: 0, 1001: 1000.0 / 1009, 5000: 4999.0 / 5008, 1_000_000: 0.9999} {
		a.count(n)
		if got := doubles(dev, a.factor); got[0] != want || got[1] != 1-want {
			t.Errorf("update %d: factors %v, want %v", n, got, want)
		}
	}
}

// Averaged weights have a best validation of their own, and a better one is not stale.
func TestLoopValidatesTheAverage(t *testing.T) {
	s := &script{scores: []float64{50, 40, 30, 20, 10, 5}}
	l := s.loop()
	l.Options.EarlyStop = 2
	averages, k := []float64{10, 20, 30, 30, 25, 25}, 0
	l.ValidateAverage = func(ctx context.Context) (eval.Metrics, error) {
		k++
		return eval.Metrics{MRecall: averages[k-1]}, nil
	}
	var saved []bool
	l.Hooks.Save = func(_ Position, v *ValidationInfo) error {
		saved = append(saved, v.Average.Better)
		return nil
	}
	try.Do(t, l.Run(t.Context()))
	if p := l.Position; p.BestAverage != 30 || p.BestAverageStep != 5 || p.Best != 50 || p.Stale != 2 {
		t.Errorf("%+v", p)
	}
	if want := []bool{true, true, true, false, false}; !slices.Equal(saved, want) {
		t.Errorf("better averages %v, want %v", saved, want)
	}
}
