package training

import (
	"math"
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
