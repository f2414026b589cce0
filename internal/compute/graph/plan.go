package graph

import (
	"cmp"
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"

	"vsetrain/internal/compute/device"
)

// The planner gives every value of a graph its memory: it walks the sorted graph once, finds from where to where each
// buffer is alive, and lays the buffers of one type out in one slab so that buffers alive at the same time never
// overlap (largest first, lowest free offset).

// buffer is the memory of one result, saved tensor or scratch area.
type buffer struct {
	dtype      device.DType
	size       int  // elements
	start, end int  // first and last instruction that uses it
	off        int  // offset in the slab of its type
	added      bool // it is added to memory outside the slab as soon as it is computed
	fixed      bool
	view       device.View // where fixed: memory outside the slab
}

// plan is the outcome: an order of nodes and a buffer for every result.
type plan struct {
	order []*Node
	kids  map[*Node][]*Node
	outs  map[*Node][]*buffer // nil entries are results nobody reads
	keeps map[*Op][]*buffer
	temps map[*Op][]*buffer
	all   []*buffer
	node  map[*Op]*Node
	// What sums.go makes of sums.
	added   map[*Op][]int  // results that are added to what lies there
	skipped map[*Node]bool // sums that are there before they would be computed
	size    [2]int         // slab sizes by type
}

const bufferAlign = 16 // elements: 64 bytes in float32

func (p *plan) newBuffer(t device.DType, n, at int) *buffer {
	b := &buffer{dtype: t, size: (n + bufferAlign - 1) / bufferAlign * bufferAlign, start: at, end: at}
	p.all = append(p.all, b)
	return b
}

// children returns the arguments of a node in order.
func children(g *G.ExprGraph, n *Node) []*Node {
	it := g.From(n.ID())
	var out []*Node
	for it.Next() {
		out = append(out, it.Node().(*Node))
	}
	return out
}

// Ancestors returns the nodes that one is computed from, and this one.
func Ancestors(g *Graph, n *Node) map[*Node]bool {
	seen := map[*Node]bool{}
	var visit func(*Node)
	visit = func(n *Node) {
		if !seen[n] {
			seen[n] = true
			for _, c := range children(g.expr, n) {
				visit(c)
			}
		}
	}
	visit(n)
	return seen
}

// isSum reports whether n is an addition of equal shapes, which Gorgonia inserts where gradients meet.
func isSum(n *Node, kids []*Node) bool {
	return n.Op().String() == "+ false" && len(kids) == 2 &&
		kids[0].Shape().TotalSize() == kids[1].Shape().TotalSize()
}

func isConstant(n *Node) bool { return n.Op() != nil && n.Op().Arity() == 0 && n.Value() != nil }

// newPlan plans the part of the graph that the retained nodes need; targets fix the memory of some.
func newPlan(g *G.ExprGraph, retain []*Node, targets []Target) (*plan, error) {
	p := &plan{kids: map[*Node][]*Node{}, outs: map[*Node][]*buffer{}, keeps: map[*Op][]*buffer{},
		temps: map[*Op][]*buffer{}, node: map[*Op]*Node{}, added: map[*Op][]int{}, skipped: map[*Node]bool{}}
	sorted, err := G.Sort(g)
	if err != nil {
		return nil, fmt.Errorf("sort graph: %w", err)
	}
	forward := map[*Op]*Node{}
	for _, n := range sorted {
		if op, ok := n.Op().(*Op); ok {
			forward[op] = n
		}
	}
	before := func(n *Node) []*Node { // what is computed before a node: its arguments, and what saves tensors for it
		if op, ok := n.Op().(*Op); ok && op.Forward != nil && len(op.Forward.Saved) > 0 {
			return append(slices.Clone(p.kids[n]), forward[op.Forward])
		}
		return p.kids[n]
	}
	needed, placed := map[*Node]bool{}, map[*Node]bool{}
	var mark, place func(*Node)
	mark = func(n *Node) {
		if needed[n] {
			return
		}
		needed[n] = true
		p.kids[n] = children(g, n)
		for _, c := range before(n) {
			mark(c)
		}
	}
	for _, k := range retain {
		mark(k)
	}
	place = func(n *Node) {
		if placed[n] {
			return
		}
		placed[n] = true
		for _, c := range before(n) {
			place(c)
		}
		p.order = append(p.order, n)
	}
	for _, n := range slices.Backward(sorted) { // Sort puts the roots first
		if needed[n] {
			place(n)
		}
	}
	for _, n := range slices.Clone(p.order) {
		if op, ok := n.Op().(*Op); ok && op.Early {
			p.advance(n)
		}
	}
	read := p.resultsRead()
	for i, n := range p.order {
		if err := p.addBuffers(n, i, read); err != nil {
			return nil, err
		}
	}
	for _, k := range retain {
		for _, b := range p.outs[k] {
			if b != nil {
				b.end = len(p.order)
			}
		}
	}
	for _, t := range targets {
		outs := p.outs[t.Node]
		if len(outs) != 1 || outs[0] == nil || outs[0].fixed || outs[0].added {
			continue
		}
		if t.Add {
			op, result := p.producer(t.Node)
			if op == nil || !slices.Contains(op.adds, result) {
				outs[0].added, outs[0].end = true, max(outs[0].end, slices.Index(p.order, t.Node))
				continue
			}
			p.added[op] = append(p.added[op], result)
		}
		outs[0].fixed, outs[0].view = true, t.Into
	}
	p.addTerms()
	for t := range p.size {
		p.size[t] = p.layout(device.DType(t))
	}
	return p, nil
}

// advance moves a node to where all that it is computed from is there.
func (p *plan) advance(n *Node) {
	at, first := slices.Index(p.order, n), 0
	for i, other := range p.order[:at] {
		if slices.Contains(p.kids[n], other) {
			first = i + 1
		}
	}
	p.order = slices.Insert(slices.Delete(p.order, at, at+1), first, n)
}

// producer returns the op that computes a node, and which of its results it is; nil of a sum.
func (p *plan) producer(n *Node) (*Op, int) {
	if pk, ok := n.Op().(*pick); ok {
		op, _ := p.kids[n][0].Op().(*Op)
		return op, pk.index
	}
	op, _ := n.Op().(*Op)
	return op, 0
}

// result is one of the results of a node.
type result struct {
	node  *Node
	index int
}

// resultsRead finds the results of ops with several results that somebody picks.
func (p *plan) resultsRead() map[result]bool {
	read := map[result]bool{}
	for _, n := range p.order {
		if pk, ok := n.Op().(*pick); ok {
			read[result{p.kids[n][0], pk.index}] = true
		}
	}
	return read
}

// addBuffers creates the buffers of node n, instruction i, and extends the life of what it reads.
func (p *plan) addBuffers(n *Node, i int, read map[result]bool) error {
	kids := p.kids[n]
	switch op := n.Op().(type) {
	case nil:
		return nil
	case *pick:
		p.outs[n] = []*buffer{p.outs[kids[0]][op.index]}
		return nil
	case *Op:
		if len(kids) != op.Arity() {
			return fmt.Errorf("%s has %d arguments in the graph, want %d", op.Name, len(kids), op.Arity())
		}
		p.node[op] = n
		if op.Alias {
			b, ok := p.outs[kids[0]]
			if !ok { // a leaf: its memory is known only when the program runs
				p.outs[n] = nil
				return nil
			}
			p.outs[n] = b
			return nil
		}
		for k, s := range op.Outs {
			if len(op.Outs) > 1 && !read[result{n, k}] {
				p.outs[n] = append(p.outs[n], nil)
				continue
			}
			p.outs[n] = append(p.outs[n], p.newBuffer(device.Float, max(size(s), op.OutSize), i))
		}
		for _, s := range op.Saved {
			b := p.newBuffer(s.DType, s.N, i)
			if s.Read {
				b.end = len(p.order)
			}
			p.keeps[op] = append(p.keeps[op], b)
		}
		for _, n := range op.Temp {
			p.temps[op] = append(p.temps[op], p.newBuffer(device.Float, n, i))
		}
		if op.Forward != nil {
			for _, b := range p.keeps[op.Forward] {
				b.end = max(b.end, i)
			}
		}
	default:
		if isConstant(n) {
			return nil
		}
		if !isSum(n, kids) {
			return fmt.Errorf("the graph holds Gorgonia's own operation %v, which has no kernel", n.Op())
		}
		p.outs[n] = []*buffer{p.newBuffer(device.Float, max(1, n.Shape().TotalSize()), i)}
	}
	for _, c := range kids {
		for _, b := range p.outs[c] {
			if b != nil {
				b.end = max(b.end, i)
			}
		}
	}
	return nil
}

// layout assigns offsets to the buffers of one type and returns the size of the slab.
func (p *plan) layout(t device.DType) int {
	var todo []*buffer
	for _, b := range p.all {
		if b.dtype == t && !b.fixed {
			todo = append(todo, b)
		}
	}
	slices.SortStableFunc(todo, func(a, b *buffer) int { return cmp.Compare(b.size, a.size) })
	var assigned, clash []*buffer
	top := 0
	for _, b := range todo {
		clash = clash[:0]
		for _, q := range assigned {
			if q.start <= b.end && b.start <= q.end {
				clash = append(clash, q)
			}
		}
		slices.SortFunc(clash, func(a, b *buffer) int { return cmp.Compare(a.off, b.off) })
		b.off = 0
		for _, q := range clash {
			if b.off+b.size <= q.off {
				break
			}
			b.off = max(b.off, q.off+q.size)
		}
		top = max(top, b.off+b.size)
		assigned = append(assigned, b)
	}
	return top
}
