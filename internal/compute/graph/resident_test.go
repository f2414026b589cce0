package graph_test

import (
	"fmt"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// A list that the device does not hold is refused before anything is read there.
func TestListsThatDoNotExist(t *testing.T) {
	var s graph.Instance
	for _, k := range []int32{-1, 2} {
		err := s.FeedLists("x", device.View{}, device.View{N: 3}, []int32{k}, 1, make([]int32, 1))
		if want := fmt.Sprintf("input x: list %d of 2", k); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
