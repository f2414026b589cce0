package train

import (
	"math"
	"slices"
	"testing"
)

// By hand: three vectors with the inner products 4, 2, 1 / 2, 9, 0 / 1, 0, 1.0625.
func TestSimilarities(t *testing.T) {
	vectors := []float32{2, 0, 0, 1, 2, 2, 0.5, 0.5, -0.75}
	for i, want := range [][]float64{
		{1, 0.5, 0.25, 2.0 / 9, 1, 0, 1 / 1.0625, 0, 1},
		{1, 1.0 / 3, 0.5 / math.Sqrt(1.0625), 1.0 / 3, 1, 0, 0.5 / math.Sqrt(1.0625), 0, 1},
	} {
		got := similarities(vectors, 3, 3, i == 1)
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-12 {
				t.Errorf("cosine %v: [%d] is %v, want %v", i == 1, k, got[k], want[k])
			}
		}
	}
	if got := similarities(make([]float32, 4), 2, 2, true); slices.ContainsFunc(got, math.IsNaN) {
		t.Errorf("zero vectors: %v", got)
	}
}

// By hand: three captions, the last two of one image. Caption 0 has the hard images 1 and 2, images the hard caption
// ... of the six negatives (0,1), (0,2), (1,0), (2,0) count, since 1 and 2 belong together.
//
//	row 0: (0,1) has hinge 0.1 + 0.5 - 1, (0,2) 0.1 + 0.8 - 1: (0,2) is hard, similarity 0.2
//	rows 1 and 2: only (1,0) and (2,0): similarities 0.7 and 0.4
//	column 0: (1,0) 0.6, (2,0) 0.3: (1,0) is hard, 0.7;  columns 1 and 2: (0,1) 0.9 and (0,2) 0.2
func TestFalseNegativesByHand(t *testing.T) {
	scores := []float64{1, 0.5, 0.8, 0.6, 1, 0.9, 0.3, 0.9, 1}
	margins := []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}
	similar := []float64{1, 0.9, 0.2, 0.7, 1, 1, 0.4, 1, 1}
	var f FalseNegatives
	f.Add(scores, margins, similar, []int32{0, 1, 1})
	f.Finish()
	for what, v := range map[string][2]float64{"all": {float64(f.all), 4}, "hard": {float64(f.Hard), 6},
		"mean of hard": {f.HardSimilar, (0.2 + 0.7 + 0.4 + 0.7 + 0.9 + 0.2) / 6}, "mean of all": {f.AllSimilar,
			2.2 / 4},
		"false hard": {f.HardFalse, 50}, "false": {f.AllFalse, 50}} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
}
