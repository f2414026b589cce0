package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"vsetrain/data"
	"vsetrain/lab/try"
)

// The average recalls of random scores are equal to Chance: with one caption per image, with several, with different
// numbers of captions, with fewer than ten images, and in folds.
func TestChance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	measures := func(m Metrics) []float64 { v := m.Values(); return append(v[:], m.RSum, m.MRecall) }
	for _, own := range []data.Groups{data.EqualGroups(40, 1), data.EqualGroups(30, 5), data.EqualGroups(7, 2),
		data.EqualGroups(3, 3), data.GroupsOf([]int{1, 4, 2, 9, 1, 3, 3, 1, 2, 5, 6, 1, 1})} {
		const draws = 800
		sum, squares := make([]float64, 8), make([]float64, 8)
		for range draws {
			s := try.Get(newDense[float64](own.Images(), own.Items()))(t)
			for i := range s.Data {
				s.Data[i] = r.Float64()
			}
			for k, v := range measures(try.Get(Evaluate(nil, s, own, Whole))(t)[0].Metrics) {
				sum[k], squares[k] = sum[k]+v, squares[k]+v*v
			}
		}
		for k, want := range measures(Chance(own)) {
			mean := sum[k] / draws
			off := 4 * math.Sqrt(max(0, squares[k]/draws-mean*mean)/draws)
			if !(math.Abs(mean-want) <= off+1e-9) {
				t.Errorf("%d images of %v captions, measure %d: %.2f ± %.2f on average, want %.2f", own.Images(), own,
					k, mean, off, want)
			}
		}
	}
	for images, want := range map[int]string{100: "5.26", 200: "2.65", 500: "1.06", 1000: "0.53"} {
		if got := fmt.Sprintf("%.2f", Chance(data.EqualGroups(images, 5)).MRecall); got != want {
			t.Errorf("%d images: %v, want %v", images, got, want)
		}
	}
	folds := Result{Folds: make([]Metrics, 5), Own: data.EqualGroups(5000, 5)}
	if got, want := folds.Chance(), Chance(data.EqualGroups(1000, 5)).MRecall; math.Abs(got-want) > 1e-12 {
		t.Errorf("five folds: %v, want %v", got, want)
	}
}
