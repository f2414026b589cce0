package graph_test

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/try"
)

// products is a device that notes which products are even.
type products struct {
	device.Device
	even []bool
}

func (p *products) Do(k device.Kernel) bool {
	if a, ok := k.(*device.Gemm); ok {
		p.even = append(p.even, a.Even)
	}
	return p.Device.Do(k)
}

// A product is even where its own layer says so: forward and gradients of one layer of a graph, and of no other.
func TestEvenBelongsToAProduct(t *testing.T) {
	dev := try.Get(cpu.New(cpu.Options{Threads: 1}))(t)
	defer dev.Close()
	p := &products{Device: dev}
	s, err := graph.NewInstance(p, []graph.ParamSpec{{Name: "a", Shape: []int{3, 3}}, {Name: "b", Shape: []int{3, 3}}})
	try.Do(t, err)
	try.Do(t, s.Params.AllocGrads())
	g := s.Graph()
	y := g.Linear(graph.LinearTerm{X: g.Input("x", 2, 3), W: g.Param("a", 3, 3), Even: true})
	y = g.LinearRows(g.InputInts("rows", 1), graph.LinearTerm{X: y, W: g.Param("b", 3, 3)})
	cost := g.WeightedSum(y, g.Input("w", 2, 3))
	grads := try.Get(g.Gradients(cost, g.Param("a", 3, 3), g.Param("b", 3, 3)))(t)
	prog := try.Get(graph.Compile(s, g, append([]*graph.Node{cost}, grads...), nil))(t)
	try.Do(t, s.FeedDoubles("x", random("x", 6)))
	try.Do(t, s.FeedDoubles("w", random("w", 6)))
	try.Do(t, s.FeedInts("rows", []int32{2}))
	try.Do(t, prog.RunAll())
	if want := []bool{true, false, false, false, false, true}; !slices.Equal(p.even, want) {
		t.Errorf("even products %v, want %v: two layers, the cost, the gradients of the second layer, of the first",
			p.even, want)
	}
}
