package models

import (
	"slices"
	"testing"
)

// The upper bound of lengths has their number, its longest first, and a sum that many batches share.
func TestBound(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for longest := 1; longest <= 12; longest++ {
			capacities := map[int]bool{}
			for k := range 200 {
				lengths := make([]int32, n)
				sum := 0
				for i := range lengths {
					lengths[i] = int32(1 + (k*7+i*i*3+k*i)%longest)
					sum += int(lengths[i])
				}
				capacity := capacity(lengths, longest, wordUnit(n))
				b := bound(nil, capacity, n, longest)
				total := 0
				for _, x := range b {
					total += int(x)
				}
				if len(b) != n || total != capacity || capacity < sum || capacity > n*longest ||
					b[0] != int32(longest) || b[n-1] < 1 ||
					!slices.IsSortedFunc(b, func(x, y int32) int { return int(y - x) }) {
					t.Fatalf("lengths %v of at most %d: bound %v, capacity %d", lengths, longest, b, capacity)
				}
				capacities[capacity] = true
			}
			if len(capacities) > n*longest/8+2 {
				t.Errorf("%d sequences of at most %d have %d different capacities", n, longest, len(capacities))
			}
		}
	}
}
