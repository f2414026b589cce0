package graph_test

import (
	"testing"

	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/try"
)

// Kernels that are given the same lengths share one packing, which is computed again when other lengths are fed.
func TestOnePackingForAnInput(t *testing.T) {
	s := newSession(t, cpu.FP32, 1)
	g := s.Graph()
	lengths := g.InputInts("lengths", 2)
	var seen []*device.Packing
	look := func(x *graph.Node) *graph.Node {
		op := &graph.Op{Name: "look", Outs: []tensor.Shape{{1, 1}}}
		op.Make = func(c *graph.Call) {
			seen = append(seen, c.Ints(1).Packing())
			graph.Do(c, device.Fill{Dst: c.Out[0]})
		}
		return g.Apply(op, x, lengths)
	}
	p := try.Get(graph.Compile(s, g, []*graph.Node{look(look(g.Input("x", 1, 1)))}, nil))(t)
	try.Do(t, s.FeedDoubles("x", []float64{0}))
	for _, c := range []struct {
		lengths []int32
		rows    int
	}{{[]int32{3, 1}, 4}, {[]int32{2, 2}, 4}, {[]int32{5, 4}, 9}} {
		try.Do(t, s.FeedInts("lengths", c.lengths))
		seen = nil
		try.Do(t, p.RunAll())
		if len(seen) != 2 || seen[0] != seen[1] {
			t.Errorf("lengths %v: %d packings, expected one for both kernels", c.lengths, len(seen))
		}
		if l := seen[0]; l.Rows() != c.rows || l.Steps() != int(c.lengths[0]) {
			t.Errorf("lengths %v: %d rows in %d steps", c.lengths, l.Rows(), l.Steps())
		}
	}
}
