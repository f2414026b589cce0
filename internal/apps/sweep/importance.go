package sweep

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Importance is how much of the differences between points one axis explains by itself.
type Importance struct {
	Axis   string  `json:"axis"`
	Share  float64 `json:"share"`  // in [0, 1]
	Points int     `json:"points"` // it was computed from
	Epochs int     `json:"epochs"` // after which they were compared
}

// importances computes the main effect of every axis, the first step of a functional analysis of variance: the points
// are grouped by their value on the axis (an interval is cut into three parts with equally many points; points without
// the axis are a group), and
//
//	share = 1 - (within/(n-k)) / (total/(n-1))      within: sum of squares around the group means, n scores, k groups
//
// is the variance between the groups corrected for their number (Kelley's epsilon squared), 0 if it would be negative.
// Shares leave out effects of two axes together, so they need not sum to one. Every seed of a point is a separate
// score. The points are compared after the epochs that most points have: with asha, the first rung.
func importances(d *Definition, all []group) []Importance {
	epochs, points := common(all)
	out := []Importance{}
	for _, key := range d.Keys() {
		var names []string
		var scores []float64
		for i, name := range groupBy(d, key, points) {
			for _, s := range points[i].states {
				names, scores = append(names, name), append(scores, s.Results[epochs].Score)
			}
		}
		if share, ok := epsilonSquared(names, scores); ok {
			out = append(out, Importance{key, share, len(points), epochs})
		}
	}
	slices.SortStableFunc(out, func(a, b Importance) int { return cmp.Compare(b.Share, a.Share) })
	return out
}

// overlap returns the sum of the shares if it is above 1: then the points do not vary the axes independently, and two
// axes seem to explain the same differences. Otherwise it returns 0.
func overlap(all []Importance) (sum float64) {
	for _, x := range all {
		sum += x.Share
	}
	if sum <= 1 {
		return 0
	}
	return sum
}

// common returns the epochs after which most points have a result of every seed, the most epochs of equals, and these
// points.
func common(all []group) (epochs int, points []group) {
	counts := map[int]int{}
	for _, g := range all {
		for e := range g.states[0].Results {
			if _, ok := g.mean(e); ok {
				counts[e]++
			}
		}
	}
	for e, n := range counts {
		if n > counts[epochs] || n == counts[epochs] && e > epochs {
			epochs = e
		}
	}
	for _, g := range all {
		if _, ok := g.mean(epochs); ok {
			points = append(points, g)
		}
	}
	return epochs, points
}

// groupBy returns the group of each point on an axis.
func groupBy(d *Definition, key string, points []group) []string {
	names := make([]string, len(points))
	var coordinates []float64
	at := make([]float64, len(points))
	for i, g := range points {
		at[i] = math.NaN()
		c := g.states[0].Point.choice(key)
		if c.Axis < 0 {
			continue
		}
		names[i] = "=" + c.Value.Text
		if a := &d.Axes[c.Axis]; a.Continuous() {
			at[i] = a.coordinate(c.Value)
			coordinates = append(coordinates, at[i])
		}
	}
	slices.Sort(coordinates)
	for i, x := range at {
		if !math.IsNaN(x) {
			rank, _ := slices.BinarySearch(coordinates, x)
			names[i] = strconv.Itoa(3 * rank / len(coordinates))
		}
	}
	return names
}

// epsilonSquared returns the corrected share of the variance of the scores between groups; ok is false if it is not
// defined: one group, as many groups as scores, or equal scores.
func epsilonSquared(names []string, scores []float64) (share float64, ok bool) {
	type sums struct{ n, sum float64 }
	parts := map[string]*sums{}
	mean := 0.0
	for i, x := range scores {
		p := parts[names[i]]
		if p == nil {
			p = &sums{}
			parts[names[i]] = p
		}
		p.n++
		p.sum += x
		mean += x / float64(len(scores))
	}
	n, k := float64(len(scores)), float64(len(parts))
	total, within := 0.0, 0.0
	for i, x := range scores {
		p := parts[names[i]]
		total += (x - mean) * (x - mean)
		within += (x - p.sum/p.n) * (x - p.sum/p.n)
	}
	if k < 2 || n <= k || total == 0 {
		return 0, false
	}
	return max(0, 1-(within/(n-k))/(total/(n-1))), true
}
