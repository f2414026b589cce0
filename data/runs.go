package data

import (
	"fmt"
	"slices"

	"vsetrain/internal/files/npy"
)

// runsOfIDs returns the number of consecutive lines of each id. An id that occurs again later is an error: the captions
// of an image are consecutive.
func runsOfIDs(ids *lineFile) ([]int, error) {
	var counts []int
	seen := map[string]int{}
	for i := 0; i < ids.len(); i += counts[len(counts)-1] {
		id := ids.line(i)
		if first, again := seen[id]; again {
			return nil, fmt.Errorf("%s: image id %q again, which line %d has; expected the lines of an image one "+
				"after the other, and each image once", at(ids, i), id, first+1)
		}
		seen[id] = i
		n := 1
		for i+n < ids.len() && ids.line(i+n) == id {
			n++
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// rowRuns says which neighbouring rows are equal.
type rowRuns struct {
	length        int // the greatest length that all runs may have: a common divisor of where they begin
	equal, differ int // compared neighbours; neighbours that are all zeros count as neither
	twins         int // equal neighbours between two runs of that length
	first         int // of the equal neighbours
}

// clear reports whether all runs have the same length, apart from a few images that look alike. It is false if all rows
// are equal.
func (r rowRuns) clear() bool { return alike*r.twins <= r.differ && (r.differ > 0 || r.equal == 0) }

// alike is the share of images, one in alike, that may have the features of their neighbour.
const alike = 20

// How many neighbouring rows are compared, in bytes of float32: all of a small file, windows of 32 of a large one.
const (
	few  = 4 << 20
	many = 64 << 20
)

// runsOf compares neighbouring rows of features, about the given number of bytes.
func runsOf(images RowSource, bytes int) (rowRuns, error) {
	last := images.Rows() - 1
	r := rowRuns{length: images.Rows()}
	var same []int // first of neighbours that are equal
	windows, size := 1, last
	if n := max(bytes/(4*max(images.RowLen(), 1)), 16); n < last {
		size = min(32, n/2)
		windows = n / size
	}
	for w := range windows {
		from := 0
		if w > 0 {
			from = w * (last - size) / (windows - 1)
		}
		for i := from; i < from+size; i++ {
			equal, zero, err := equalRows(images, i, i+1)
			switch {
			case err != nil:
				return r, err
			case zero:
			case equal:
				same = append(same, i)
			default:
				r.differ++
				r.length = gcd(r.length, i+1)
			}
		}
	}
	for _, i := range same {
		if (i+1)%r.length == 0 {
			r.twins++
		}
	}
	if r.equal = len(same); r.equal > 0 {
		r.first = same[0]
	}
	return r, nil
}

// countRuns returns the lengths of all runs of equal rows.
func countRuns(images RowSource) (counts []int, err error) {
	for i := range images.Rows() {
		equal := false
		if i > 0 {
			if equal, _, err = equalRows(images, i-1, i); err != nil {
				return nil, err
			}
		}
		if equal {
			counts[len(counts)-1]++
		} else {
			counts = append(counts, 1)
		}
	}
	return counts, nil
}

// equalRows reports whether two rows are equal, and whether both are all zeros.
func equalRows(images RowSource, i, j int) (equal, zero bool, err error) {
	if f, ok := images.(*npy.File); ok {
		return f.EqualRows(i, j)
	}
	a, b := make([]float32, images.RowLen()), make([]float32, images.RowLen())
	if err := images.ReadRow(a, i); err != nil {
		return false, false, err
	}
	if err := images.ReadRow(b, j); err != nil || !slices.Equal(a, b) {
		return false, false, err
	}
	return true, !slices.ContainsFunc(a, func(v float32) bool { return v != 0 }), nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
