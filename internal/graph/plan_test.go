package graph

import (
	"testing"

	"vsetrain/internal/device"
)

// Buffers that are alive at the same time never overlap, and reuse makes the slab smaller than the sum of all buffers.
func TestPlanNeverOverlaps(t *testing.T) {
	g := New(false)
	x := g.Input("x", 16, 8)
	for range 12 {
		x = g.L2Norm(g.Linear(LinearTerm{X: x, W: g.Input("w", 8, 8), B: g.Input("b", 8)}), 1, 0)
		x = g.Activate(device.Tanh, x)
	}
	cost := g.WeightedSum(x, g.Input("weights", 16, 8))
	grads, err := g.Gradients(cost, g.Input("w", 8, 8), g.Input("b", 8))
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(g.expr, append(grads, cost), nil)
	if err != nil {
		t.Fatal(err)
	}
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
