package training

import (
	"math"
	"slices"
	"testing"
)

// By hand: a loss that falls fastest at one rate, is lowest at a later one, and does not fall at all.
func TestReadRange(t *testing.T) {
	rep := RangeReport{}
	for i, loss := range []float64{9, 9, 9, 9, 9, 9, 8.9, 8, 5, 4, 3.9, 4.5, 7} {
		rep.Points = append(rep.Points, RangePoint{Step: i + 1, LearningRate: math.Pow(10, float64(i)), Smooth: loss})
	}
	rep.read()
	if rep.Steepest != 1e8 || rep.Lowest != 1e10 {
		t.Errorf("steepest %g, lowest %g", rep.Steepest, rep.Lowest)
	}
	for i := range rep.Points {
		rep.Points[i].Smooth = float64(i)
	}
	rep.Steepest, rep.Lowest = 0, 0
	if rep.read(); rep.Steepest != 0 || rep.Lowest != 0 {
		t.Errorf("a loss that only grows: %g, %g", rep.Steepest, rep.Lowest)
	}
}

// By hand, of three pairs, the first two of one image.
func TestBatchRanks(t *testing.T) {
	scores := []float64{
		0.5, 0.9, 0.5,
		0.1, 0.6, 0.2,
		0.7, 0.1, 0.4}
	i2t, t2i := batchRanks(scores, 3, func(i, j int) bool { return i < 2 && j < 2 })
	if !slices.Equal(i2t, []int{1, 0, 1}) || !slices.Equal(t2i, []int{1, 0, 1}) {
		t.Errorf("ranks %v and %v", i2t, t2i)
	}
}
