package eval

import (
	"math"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/semantic"
)

// nearDuplicate is the Jaccard similarity from which two captions are near-duplicates.
const nearDuplicate = 0.6

// NearDuplicates counts, for every caption, the captions of other images that say nearly the same. Two captions do if
// their sets of terms (semantic.Terms: stems without stop words) share at least 60 percent of their union. pool may be
// nil.
func NearDuplicates(pool *par.Pool, captions []string, own data.Groups) []int {
	number := map[string]int32{}
	terms := make([][]int32, len(captions)) // distinct, ascending
	var holders [][]int32                   // captions that contain each term
	for c, text := range captions {
		for _, t := range semantic.Terms(text) {
			id, ok := number[t]
			if !ok {
				id = int32(len(number))
				number[t] = id
				holders = append(holders, nil)
			}
			terms[c] = append(terms[c], id)
		}
		slices.Sort(terms[c])
		terms[c] = slices.Compact(terms[c])
		for _, id := range terms[c] {
			holders[id] = append(holders[id], int32(c))
		}
	}
	counts := make([]int, len(captions))
	pool.For(len(captions), par.Func(func(_, c int) {
		// A near-duplicate shares at least 60 percent of the n terms, so at least one of any n - ceil(0.6 n) + 1 terms.
		// The rarest of them have the fewest captions to look at.
		rare := slices.Clone(terms[c])
		slices.SortFunc(rare, func(a, b int32) int { return len(holders[a]) - len(holders[b]) })
		keep := len(rare) - int(math.Ceil(nearDuplicate*float64(len(rare))-1e-9)) + 1
		var candidates []int32
		for _, id := range rare[:min(len(rare), keep)] {
			candidates = append(candidates, holders[id]...)
		}
		slices.Sort(candidates)
		for _, other := range slices.Compact(candidates) {
			if own.ImageOf(int(other)) != own.ImageOf(c) && jaccard(terms[c], terms[other]) >= nearDuplicate {
				counts[c]++
			}
		}
	}))
	return counts
}

// jaccard returns the size of the intersection over the size of the union of two ascending sets.
func jaccard(a, b []int32) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			both, i, j = both+1, i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
