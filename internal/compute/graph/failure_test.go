package graph_test

import (
	"fmt"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// What fails on a GPU is named with the kernel, its grid, and the node with its arguments and their shapes.
func TestFailureNamesTheNode(t *testing.T) {
	for _, deferred := range []int{0, 1} {
		dev := try.Get(cuda.Open(cuda.Options{Driver: emulator.Library(t)}))(t)
		emulator.Set(t, "defer", deferred, 0)
		s := try.Get(graph.NewInstance(dev, []graph.ParamSpec{{Name: "fc.weight", Shape: []int{5, 3}},
			{Name: "fc.bias", Shape: []int{5}}}))(t)
		g := s.Graph()
		x := g.Input("x", 4, 3)
		y := g.Activate(device.Tanh, g.Linear(graph.LinearTerm{X: x, W: g.Param("fc.weight", 5, 3),
			B: g.Param("fc.bias", 5)}))
		p := try.Get(graph.Compile(s, g, []*graph.Node{y}, nil))(t)
		try.Do(t, s.FeedDoubles("x", random("x", 12)))
		emulator.Set(t, "lose", 2, 0) // the second kernel
		try.Do(t, p.RunAll())
		err := dev.Sync()
		for _, word := range []string{"kernel activate on a grid of [1 1 1] blocks of 256 threads",
			"node 2: activation 1 of (4, 5) → (4, 5)",
			"from kernel gemm in node 1: linear 3→5 of x (4, 3), fc.weight (5, 3), fc.bias (5) → (4, 5) to kernel " +
				"activate in node 2", "CUDA_LAUNCH_BLOCKING=1"} {
			try.Fails(t, err, word)
		}
		dev.Close()
		emulator.Mend(t)
	}
}

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
