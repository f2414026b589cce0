package elements

import (
	"math"
	"testing"
)

// A shape whose elements can be counted but whose bytes cannot is refused.
func TestCount(t *testing.T) {
	const most = math.MaxInt / 4
	for _, c := range []struct {
		shape []int
		size  int
		want  int // -1 is an error
	}{
		{nil, 4, 1}, {[]int{2, 3}, 4, 6}, {[]int{3, 0, 5}, 4, 0}, {[]int{most}, 4, most},
		{[]int{most + 1}, 4, -1}, {[]int{math.MaxInt, 2}, 0, -1}, {[]int{math.MaxInt, 1}, 0, math.MaxInt},
		{[]int{0, -1}, 4, -1},
	} {
		n, err := Count(c.shape, c.size)
		if err != nil {
			n = -1
		}
		if n != c.want {
			t.Errorf("Count(%v, %d) = %d, %v; want %d", c.shape, c.size, n, err, c.want)
		}
	}
}
