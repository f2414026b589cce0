package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/stats"
)

// JudgedComparison compares two systems on the queries of one set of judgements.
type JudgedComparison struct {
	Name   string `json:"name"`
	Images int    `json:"images"` // that are judged, or have a judged caption
	CompareOptions
	Differences []Difference `json:"differences"` // of the measures of judgedMeasures, A - B
}

// judgedMeasures are the measures of each direction in a comparison.
var judgedMeasures = []string{"map_at_r", "r_precision", "r1"}

// judgedUnit scales a score between 0 and 1 to a whole number, which resampling sums exactly. The rounding error is far
// below the printed digits.
const judgedUnit = 1 << 20

// CompareJudged compares two systems by the outcomes of the same judged queries. As in Compare, images are the units of
// resampling: an image and its judged captions are drawn together. A resample of a direction is divided by its number
// of queries, which varies if images have different numbers of judged captions. A direction without queries is left
// out. pool may be nil.
func CompareJudged(pool *par.Pool, a, b JudgedOutcomes, own data.Groups, o CompareOptions) (JudgedComparison, error) {
	out := JudgedComparison{Name: a.Name, CompareOptions: o}
	same := func(x, y JudgedOutcome) bool { return x.Query == y.Query }
	if !slices.EqualFunc(a.I2T, b.I2T, same) || !slices.EqualFunc(a.T2I, b.T2I, same) {
		return out, fmt.Errorf("judgements %s and %s: only measures of the same queries can be compared", a.Name,
			b.Name)
	}
	if len(a.I2T)+len(a.T2I) == 0 {
		return out, fmt.Errorf("judgements %s: no judged query to compare", a.Name)
	}
	var images []int32
	for _, x := range a.I2T {
		images = append(images, x.Query)
	}
	for _, x := range a.T2I {
		images = append(images, int32(own.ImageOf(int(x.Query))))
	}
	slices.Sort(images)
	images = slices.Compact(images)
	out.Images = len(images)

	// Columns of a unit: the scores of A, the scores of B, and the number of queries in each direction.
	k := len(judgedMeasures)
	w := 2 * k
	both := stats.Units{Width: 2*w + 2, Values: make([]int32, (2*w+2)*len(images))}
	differences := stats.Units{Width: w, Values: make([]int32, w*len(images))}
	add := func(direction int, a, b []JudgedOutcome, imageOf func(query int32) int32) {
		for q := range a {
			unit, _ := slices.BinarySearch(images, imageOf(a[q].Query))
			row, difference := both.Values[unit*both.Width:], differences.Values[unit*w:]
			x, y := a[q].scores(), b[q].scores()
			for m := range k {
				c := direction*k + m
				row[c] += x[m]
				row[w+c] += y[m]
				difference[c] += x[m] - y[m]
			}
			row[2*w+direction]++
		}
	}
	add(0, a.I2T, b.I2T, func(q int32) int32 { return q })
	add(1, a.T2I, b.T2I, func(q int32) int32 { return int32(own.ImageOf(int(q))) })
	interval, p, err := o.resample(pool, both, differences)
	if err != nil {
		return out, err
	}
	for c := range w {
		direction := c / k
		if len([][]JudgedOutcome{a.I2T, a.T2I}[direction]) == 0 {
			continue
		}
		estimate := func(of func(s []int64) int64) Estimate {
			return interval(func(s []int64) float64 { // of few judged queries, a resample may have none
				return 100 * float64(of(s)) / judgedUnit / float64(cmp.Or(s[2*w+direction], 1))
			})
		}
		out.Differences = append(out.Differences, Difference{
			Measure:    []string{"i2t_", "t2i_"}[direction] + judgedMeasures[c%k],
			A:          estimate(func(s []int64) int64 { return s[c] }),
			B:          estimate(func(s []int64) int64 { return s[w+c] }),
			Difference: estimate(func(s []int64) int64 { return s[c] - s[w+c] }),
			P:          p[c]})
	}
	return out, nil
}

// scores returns the outcomes in the order of judgedMeasures, in units of 1/judgedUnit.
func (o JudgedOutcome) scores() [3]int32 {
	unit := func(v float64) int32 { return int32(math.Round(judgedUnit * v)) }
	return [3]int32{unit(o.MAPAtR), unit(o.RPrecision), unit(float64(b2i(o.R1)))}
}
