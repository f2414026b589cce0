package graph_test

import (
	"math"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/try"
)

// Queries, keys and values are one product where their parameters lie side by side in memory, and the results are the
// same as of three products.
func TestQueriesKeysAndValuesAreOneProduct(t *testing.T) {
	const d = 16
	shape := map[string][]int{"x": {12, d}, "qw": {d, d}, "kw": {d, d}, "vw": {d, d}, "ow": {d, d}, "qb": {d},
		"kb": {d}, "vb": {d}, "ob": {d}, "lw": {d}, "lb": {d}}
	type outcome struct {
		forward, backward int
		values            map[string][]float64
	}
	run := func(order []string) outcome {
		dev := try.Get(cpu.New(cpu.Options{Threads: 2, Precision: cpu.FP64}))(t)
		t.Cleanup(func() { dev.Close() })
		c := &products{Device: dev}
		var specs []graph.ParamSpec
		for _, n := range order {
			specs = append(specs, graph.ParamSpec{Name: n, Shape: shape[n]})
		}
		s := try.Get(graph.NewInstance(c, specs))(t)
		try.Do(t, s.Params.AllocGrads())
		g := s.Graph()
		node := map[string]*graph.Node{}
		for _, n := range order {
			dev.UploadDoubles(s.Params.Value(n), random(n, s.Params.Value(n).N))
			node[n] = g.Param(n, shape[n]...)
		}
		try.Do(t, s.FeedInts("words", words))
		try.Do(t, s.FeedInts("lengths", lengths))
		weights := random("w", 12*d)
		clear(weights[total*d:])
		try.Do(t, s.FeedDoubles("w", weights))
		w, l := wordsOf(g), lengthsOf(g)
		part := func(p string) graph.LinearWeights { return graph.LinearWeights{W: node[p+"w"], B: node[p+"b"]} }
		out := g.AttentionLayer(node["x"], w, l, graph.AttentionWeights{Query: part("q"), Key: part("k"),
			Value: part("v"), Output: part("o"),
			Norm: graph.LayerNormWeights{Weight: node["lw"], Bias: node["lb"], Eps: 1e-2}, Heads: 2}, 0, "layer")
		forward := try.Get(graph.Compile(s, g, []*graph.Node{out}, nil))(t)
		try.Do(t, forward.RunAll())
		r := outcome{forward: len(c.even), values: map[string][]float64{"out": forward.Doubles(out)[:total*d]}}
		var wrt []*graph.Node
		for _, n := range order {
			wrt = append(wrt, node[n])
		}
		cost := g.WeightedSum(out, g.Input("w", 12, d))
		grads := try.Get(g.Gradients(cost, wrt...))(t)
		var targets []graph.Target
		for i, n := range order {
			targets = append(targets, graph.Target{Node: grads[i], Into: s.Params.Grad(n)})
		}
		both := try.Get(graph.Compile(s, g, []*graph.Node{cost}, targets))(t)
		c.even = nil
		try.Do(t, both.RunAll())
		r.backward = len(c.even) - r.forward
		for _, n := range order {
			v := make([]float64, s.Params.Grad(n).N)
			dev.DownloadDoubles(v, s.Params.Grad(n))
			if n == "x" {
				v = v[:total*d]
			}
			r.values[n] = v
		}
		return r
	}
	side := run([]string{"qw", "kw", "vw", "qb", "kb", "vb", "ow", "ob", "lw", "lb", "x"})
	apart := run([]string{"qw", "qb", "kw", "kb", "vw", "vb", "ow", "ob", "lw", "lb", "x"})
	// The way back has two products for each one of the way there, and the weighted sum is one more.
	if side.forward != 2 || side.backward != 5 {
		t.Errorf("side by side: %d and %d products, want 2 and 5", side.forward, side.backward)
	}
	if apart.forward != 4 || apart.backward != 9 {
		t.Errorf("apart: %d and %d products, want 4 and 9", apart.forward, apart.backward)
	}
	for n, want := range apart.values {
		for i, v := range side.values[n] {
			if !(math.Abs(v-want[i]) <= 1e-12*(1+math.Abs(want[i]))) {
				t.Fatalf("%s: element %d is %v side by side, %v apart", n, i, v, want[i])
			}
		}
	}
}
