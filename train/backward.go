package train

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// backward is a compiled graph with the gradients of its parameters. Most gradients are written to the flat gradient
// memory. The gradient of a large linear weight, DYᵀ X with few rows, stays a product: norm and update take the factors
// and never store it, which saves three passes over memory as large as the weight.
//
// Of several ranks each makes the rows of such a gradient that it updates, of all ranks together, from the factors of
// all: the ranks gather these in place of summing gradients.
type backward struct {
	vm      *graph.Program
	updates []update
	nodes   [][2]*graph.Node // DY and X of every factored gradient, the last of the updates
	divided []rowsOf
	order   []*part // of the parameters, as the program reads them
}

// rowsOf are the rows of a gradient that a rank makes.
type rowsOf struct {
	*part
	pairs int         // whose products each rank makes with the matrix, at least
	dy, x *graph.Node // of all ranks
}

// compileBackward adds the gradients of cost with respect to every optimised parameter that the graph uses, and
// compiles it. scale gives the factor of the learning rate of each optimiser group; the values of retain can be read
// after a run.
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
	var once, twice []span
	var factored []update
	var targets []graph.Target
	for i, n := range grads {
		at := spanOf(s.Params, &specs[i], scale)
		dy, x, ok := g.Factors(n)
		ok = ok && !specs[i].Twice
		if t := own.matrix(at.lo, at.hi); t != nil && ok && worthDividing(g, dy, x) {
			rows := (t.hi - t.lo) / t.columns / g.Share.Ranks // that each rank makes of the gradient, at least
			r := rowsOf{t, g.Share.Items / g.Share.Ranks, graph.GatherBehind(g, dy, cost, 0),
				graph.GatherBehind(g, x, cost, rows)}
			b.divided = append(b.divided, r)
			retain = append(retain, dy, x, r.dy, r.x)
			once = append(once, at)
			continue
		}
		if ok && !own.divided() && worthFactoring(dy, x, factorFrom) {
			rows, o, in := graph.Dim(dy, 0), graph.Dim(dy, 1), graph.Dim(x, 1)
			factored = append(factored, update{span: at, nth: 1, of: 1, factor: &device.Factored{N: rows, O: o, I: in}})
			b.nodes = append(b.nodes, [2]*graph.Node{dy, x})
			retain = append(retain, dy, x)
			continue
		}
		targets = append(targets, graph.Target{Node: n, Into: s.Params.Grad(specs[i].Name)})
		if specs[i].Twice {
			twice = append(twice, at)
		} else {
			once = append(once, at)
		}
	}
	b.updates = append(append(updatesOf(1, join(once)...), updatesOf(2, join(twice)...)...), factored...)
	b.vm, err = graph.Compile(s, g, retain, targets)
	return b, err
}

// spanOf is where a parameter lies, and how it is updated.
func spanOf(p *graph.Params, spec *graph.ParamSpec, scale func(group string) float64) span {
	lo, hi := p.Range(spec.Name)
	return span{lo, hi, scale(spec.Group), spec.Within != nil}
}

// worthFactoring: the weight is large, and the Gram matrices that give its norm cost much less than its gradient.
func worthFactoring(dy, x *graph.Node, from int) bool {
	n, o, i := graph.Dim(dy, 0), graph.Dim(dy, 1), graph.Dim(x, 1)
	return o*i >= from && (from == 0 || 4*n <= min(o, i))
}

// worthDividing: every pair has one row, and gathering X moves no more values than the sum of the gradients would.
func worthDividing(g *graph.Graph, dy, x *graph.Node) bool {
	return graph.Dim(dy, 0) == g.Share.Own() && g.Share.Items <= min(graph.Dim(dy, 1), graph.Dim(x, 1))
}

// multiply makes the rows of gradients that this rank updates.
func (b *backward) multiply(dev device.Device, grads device.View) {
	for _, r := range b.divided {
		dy, x := b.vm.View(r.dy), b.vm.View(r.x)
		n, o, first := graph.Dim(r.dy, 0), graph.Dim(r.dy, 1), (r.from-r.lo)/r.columns
		device.Do(dev, device.Gemm{TransA: true, M: (r.to - r.from) / r.columns, N: r.columns, K: n, Alpha: 1,
			A: dy.Slice(first, dy.N), LDA: o, B: x, C: grads.Slice(r.from, r.to)})
	}
}

// await has the program wait for each part of the parameters before it reads it.
func (b *backward) await(s *shard) {
	at := map[*part]int{}
	for i := range s.parts {
		t := &s.parts[i]
		at[t] = b.vm.Before(s.params.Values().Slice(t.lo, t.hi), func() {
			device.Do(s.dev, device.Join{X: s.params.Values().Slice(t.lo, t.hi)})
		})
		b.order = append(b.order, t)
	}
	slices.SortStableFunc(b.order, func(x, y *part) int { return at[x] - at[y] })
}

// gather brings the parameters that other ranks have updated, behind what follows.
func (b *backward) gather(s *shard) {
	for _, t := range b.order {
		operand := 0
		if i := slices.IndexFunc(b.divided, func(r rowsOf) bool { return r.part == t }); i >= 0 {
			operand = b.divided[i].pairs
		}
		s.gather(t, s.params.Values(), operand)
	}
}

// scatter has the program sum the gradients of each part over the ranks as soon as the part has all of them.
func (b *backward) scatter(r *Ranks) {
	for i := range r.shard.parts {
		if t := &r.shard.parts[i]; b.sums(t) {
			b.vm.Then(r.params.Grads().Slice(t.lo, t.hi), func() { r.scatter(t) })
		}
	}
}

// sums reports whether the gradients of a part are summed over the ranks.
func (b *backward) sums(t *part) bool {
	return !slices.ContainsFunc(b.divided, func(r rowsOf) bool { return r.part == t })
}

// factors finds the factors of the gradients that stay products: inputs may have moved.
func (b *backward) factors() {
	first := len(b.updates) - len(b.nodes)
	for i, n := range b.nodes {
		f := b.updates[first+i].factor
		f.DY, f.X = b.vm.View(n[0]), b.vm.View(n[1])
	}
}

// join merges ranges that touch, give or take the padding between parameters, and are updated alike.
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
