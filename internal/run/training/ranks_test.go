package training

import (
	"slices"
	"testing"
)

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
