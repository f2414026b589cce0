package search

import (
	"fmt"
	"slices"
)

// before is the order of evaluation: higher scores first; of equal scores, the larger index first.
func before(a, b Hit) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	return b.Index - a.Index
}

// top returns the k best candidates, the best first. of lists the candidates of the scores; nil is 0, 1, 2, …
func top(scores []float64, of []int32, k int) ([]Hit, error) {
	k = min(k, len(scores))
	best := make([]Hit, 0, 2*k+64) // sorted and cut to k when it is full
	worst := Hit{Index: -1}        // of the k best so far, once there are k
	cut := func() {
		slices.SortFunc(best, before)
		best = best[:min(k, len(best))]
		if len(best) == k {
			worst = best[k-1]
		}
	}
	for j, s := range scores {
		h := Hit{j, s}
		if of != nil {
			h.Index = int(of[j])
		}
		if s != s {
			return nil, fmt.Errorf("the score of candidate %d is NaN: the network has diverged, or the features of "+
				"an image are all zeros", h.Index)
		}
		if worst.Index >= 0 && before(worst, h) < 0 {
			continue
		}
		if best = append(best, h); len(best) == cap(best) {
			cut()
		}
	}
	cut()
	return slices.Clip(best), nil
}

// rankOf returns how many of the scored candidates come before the best match, or -1 if none matches.
func rankOf(scores []float64, of []int32, match func(index int) bool) int {
	hit := func(j int) Hit {
		if of != nil {
			return Hit{int(of[j]), scores[j]}
		}
		return Hit{j, scores[j]}
	}
	best, found := Hit{}, false
	for j := range scores {
		if h := hit(j); match(h.Index) && (!found || before(h, best) < 0) {
			best, found = h, true
		}
	}
	if !found {
		return -1
	}
	rank := 0
	for j := range scores {
		if before(hit(j), best) < 0 {
			rank++
		}
	}
	return rank
}
