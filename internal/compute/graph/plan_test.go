package graph

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/try"
)

// Buffers that are alive at the same time never overlap, and reuse makes the slab smaller than the sum of all buffers.
func TestPlanNeverOverlaps(t *testing.T) {
	g := newGraph(false)
	x := g.Input("x", 16, 8)
	for range 12 {
		x = g.L2Norm(g.Linear(LinearTerm{X: x, W: g.Input("w", 8, 8), B: g.Input("b", 8)}), 1, 0)
		x = g.Activate(device.Tanh, x)
	}
	cost := g.WeightedSum(x, g.Input("weights", 16, 8))
	grads := try.Get(g.Gradients(cost, g.Input("w", 8, 8), g.Input("b", 8)))(t)
	p := try.Get(newPlan(g.expr, append(grads, cost), nil))(t)
	sum := 0
	for i, a := range p.all {
		sum += a.size
		for _, b := range p.all[i+1:] {
			together := a.start <= b.end && b.start <= a.end && a.dtype == b.dtype
			if together && a.off < b.off+b.size && b.off < a.off+a.size {
				t.Fatalf("buffers [%d,%d) alive %d..%d and [%d,%d) alive %d..%d overlap",
					a.off, a.off+a.size, a.start, a.end, b.off, b.off+b.size, b.start, b.end)
			}
		}
	}
	if top := p.size[device.Float]; top >= sum*3/4 {
		t.Errorf("the slab has %d elements for buffers of %d: nothing is reused", top, sum)
	}
}

// Gradients that meet are added by the products that make them, unless something else reads one of them.
func TestSumsOfProducts(t *testing.T) {
	for _, read := range []bool{false, true} {
		g := newGraph(false)
		in := g.Input("x", 16, 8)
		x := g.Activate(device.Tanh, in)
		y, z := g.Linear(LinearTerm{X: x, W: g.Input("w", 8, 8)}), g.Input("z", 16, 8)
		for _, w := range []string{"u", "v"} {
			y = g.Add(y, g.Linear(LinearTerm{X: x, W: g.Input(w, 8, 8)}))
		}
		y = g.Add(g.Add(g.Activate(device.Tanh, y), x), z)
		grads := try.Get(g.Gradients(g.WeightedSum(y, g.Input("weights", 16, 8)), in, z))(t)
		retain := grads[:1]
		if read { // the gradient of z and of the residual connection, which takes the first product
			retain = grads
		}
		p := try.Get(newPlan(g.expr, retain, nil))(t)
		added := 0
		for op, results := range p.added {
			added += len(results)
			for _, k := range results {
				if read && p.outs[p.node[op]][k] == p.only(grads[1]) {
					t.Errorf("%s is added to a value that is read", op.Name)
				}
			}
		}
		if !read && added != 3 || len(p.skipped) != added {
			t.Errorf("of 3 sums %d are left out, and %d made by products, want 3", len(p.skipped), added)
		}
	}
}
