package stats

import (
	"slices"
	"testing"
)

// Equal losses, one loss and none are clean; of two losses the smaller is.
func TestMixtureOfLittle(t *testing.T) {
	for _, losses := range [][]float64{nil, {3}, {2, 2, 2}} {
		if m := FitMixture(losses); slices.Contains(m.Clean, false) || len(m.Clean) != len(losses) {
			t.Errorf("%v: %v", losses, m.Clean)
		}
	}
	m := FitMixture([]float64{0, 1})
	if !m.Clean[0] || m.Clean[1] {
		t.Errorf("two losses: %+v", m)
	}
}
