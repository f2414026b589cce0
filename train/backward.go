package train

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// backward is a compiled graph with the gradients of its parameters. Most gradients are written to the flat gradient
// memory. The gradient of a large linear weight, DYᵀ X with few rows, stays a product: norm and update read the factors
// and never store it, which saves three passes over memory as large as the weight.
//
// With several ranks, each computes the rows of such a gradient that it updates, for the whole batch.
type backward struct {
	vm      *graph.Program
	updates []update
	nodes   [][2]*graph.Node // DY and X of every factored gradient, the last of the updates
	divided []*part          // matrices of which each rank reads only its own rows
	first   []*part          // other parameters that are gathered before the program runs
}

// compileBackward adds the gradients of cost with respect to every optimised parameter that the graph uses, and
// compiles the graph. scale returns the factor of the learning rate of an optimiser group. The values of retain can be
// read after a run.
func compileBackward(s *graph.Instance, g *graph.Graph, cost *graph.Node, scale func(group string) float64,
	factorFrom int, own *shard, retain ...*graph.Node) (*backward, error) {
	var specs []graph.ParamSpec
	var wrt []*graph.Node
	for _, spec := range s.Params.Specs {
		if n := g.Lookup(spec.Name); n != nil && !spec.State {
			specs, wrt = append(specs, spec), append(wrt, n)
		}
	}
	grads, err := g.Gradients(cost, wrt...)
	if err != nil {
		return nil, err
	}
	b := &backward{}
	var stored spans
	var factored []update
	var targets []graph.Target
	for i, n := range grads {
		at := spanOf(s.Params, &specs[i], scale)
		if graph.OwnRows(g, n) {
			b.divided = append(b.divided, own.matrix(at.lo, at.hi))
		}
		dy, x, ok := g.Factors(n)
		if ok && !specs[i].Twice && !own.divided() && worthFactoring(dy, x, factorFrom) {
			rows, o, in := graph.Dim(dy, 0), graph.Dim(dy, 1), graph.Dim(x, 1)
			factored = append(factored, update{span: at, nth: 1, of: 1, factor: &device.Factored{N: rows, O: o, I: in}})
			b.nodes = append(b.nodes, [2]*graph.Node{dy, x})
			retain = append(retain, dy, x)
			continue
		}
		targets = append(targets, graph.Target{Node: n, Into: s.Params.Grad(specs[i].Name)})
		stored.add(&specs[i], at)
	}
	b.updates = append(stored.updates(), factored...)
	b.vm, err = graph.Compile(s, g, retain, targets)
	return b, err
}

// spans are ranges of parameters: index 0 of those that are updated once in a step, 1 of those that are updated twice.
type spans [2][]span

func (s *spans) add(spec *graph.ParamSpec, at span) {
	times := 0
	if spec.Twice {
		times = 1
	}
	s[times] = append(s[times], at)
}

func (s *spans) updates() []update {
	return append(updatesOf(1, join(s[0])...), updatesOf(2, join(s[1])...)...)
}

// spanOf returns the range of a parameter and how it is updated.
func spanOf(p *graph.Params, spec *graph.ParamSpec, scale func(group string) float64) span {
	lo, hi := p.Range(spec.Name)
	return span{lo, hi, scale(spec.Group), spec.Within != nil}
}

// worthFactoring reports whether a weight is large and the Gram matrices for its norm cost much less than its gradient.
func worthFactoring(dy, x *graph.Node, from int) bool {
	n, o, i := graph.Dim(dy, 0), graph.Dim(dy, 1), graph.Dim(x, 1)
	return o*i >= from && (from == 0 || 4*n <= min(o, i))
}

// await makes the program wait for each part of the parameters before it reads the part. Other ranks' pieces of a part
// are sent after everything before it, but not before the ranks last met, where they would wait for them.
func (b *backward) await(s *shard) {
	type read struct {
		*part
		place, met int
	}
	var all []read
	for i := range s.parts {
		if t := &s.parts[i]; !slices.Contains(b.divided, t) {
			place, met := b.vm.FirstReader(s.params.Values().Slice(t.lo, t.hi))
			all = append(all, read{t, place, met})
		}
	}
	slices.SortStableFunc(all, func(x, y read) int { return x.place - y.place })
	for _, r := range all {
		if r.met == 0 {
			b.first = append(b.first, r.part)
		} else {
			b.vm.BeforeOp(r.met, func() { s.gather(r.part, s.params.Values()) })
		}
		b.vm.BeforeOp(r.place, func() { device.Do(s.dev, device.Wait{X: s.params.Values().Slice(r.lo, r.hi)}) })
	}
}

// gather begins to gather the parameters that other ranks have updated and that the program reads first.
func (b *backward) gather(s *shard) {
	for _, t := range b.first {
		s.gather(t, s.params.Values())
	}
}

// scatter makes the program sum the gradients of each part over the ranks as soon as the part is complete.
func (b *backward) scatter(r *Ranks) {
	for i := range r.shard.parts {
		if t := &r.shard.parts[i]; !slices.Contains(b.divided, t) {
			b.vm.AfterWrites(r.params.Grads().Slice(t.lo, t.hi), func() { r.scatter(t) })
		}
	}
}

// factors finds the factors of the gradients that stay products. Inputs may have moved since the last step.
func (b *backward) factors() {
	first := len(b.updates) - len(b.nodes)
	for i, n := range b.nodes {
		f := b.updates[first+i].factor
		f.DY, f.X = b.vm.View(n[0]), b.vm.View(n[1])
	}
}

// join merges ranges that are updated alike and have only padding between them.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.lo - b.lo })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo-out[n-1].hi < graph.ParamAlign && s.scale == out[n-1].scale &&
			s.noDecay == out[n-1].noDecay {
			out[n-1].hi = s.hi
			continue
		}
		out = append(out, s)
	}
	return out
}
