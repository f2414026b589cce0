package graph

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"

	"vsetrain/internal/compute/device"
)

// Program is a compiled graph: a flat list of kernels. It implements gorgonia.VM.
type Program struct {
	s      *Instance
	plan   *plan
	instrs []*instr
	inputs []inputArg
	rows   []*leaf // numbers of rows
	leaves map[string]*leaf
	viewed map[*Node]ref // what View looked up before
	floats int           // generations of the slabs the views were made for
	ints   int
	bound  bool
	namer  device.Namer // nil if the device names nothing
}

var _ G.VM = (*Program)(nil)

// instr is the kernels of one op; the refs are the places that its views come from.
type instr struct {
	name   string
	at     string // the node, for a device.Namer
	make   func(c *Call)
	run    func(d device.Device, c *Call) // in place of kernels, of an op that is Nested
	inputs bool                           // it has arguments that change with every run
	meets  bool                           // Op.Meets
	call   Call
	refs   [4][]ref // of In, Out, Saved, Temp
	before []func() // see Before
	then   []func() // see Then
}

// kernels makes the kernels of the call anew.
func (in *instr) kernels() {
	if in.make != nil {
		in.call.made = 0
		in.make(&in.call)
	}
}

// ref names memory: a buffer of the plan, fixed memory, or an input.
type ref struct {
	buf   *buffer
	n     int
	view  device.View // where buf is nil
	input *input
	name  string // of the input
}

// inputArg is an argument that is looked up anew at every run, because inputs may grow and hosts slices change.
type inputArg struct {
	call *Call
	arg  int
	in   *input
	name string
	n    int
}

// Target sends the value of a node straight to given memory, such as a gradient to the flat gradient buffer. With Add
// it is added to what lies there.
type Target struct {
	Node *Node
	Into device.View
	Add  bool
}

// Compile plans the part of the graph that retain and targets need. The values of retain can be read after a run.
func Compile(s *Instance, g *Graph, retain []*Node, targets []Target) (*Program, error) {
	all := append([]*Node(nil), retain...)
	for _, t := range targets {
		all = append(all, t.Node)
	}
	pl, err := newPlan(g.expr, all, targets)
	if err != nil {
		return nil, err
	}
	p := &Program{s: s, plan: pl, leaves: g.leaves, viewed: map[*Node]ref{}}
	p.namer, _ = device.As[device.Namer](s.Dev)
	for _, n := range pl.order {
		if err := p.emit(n); err != nil {
			return nil, err
		}
		if err := p.add(n, targets); err != nil {
			return nil, err
		}
	}
	for _, t := range targets { // a value with two targets is computed once and copied
		if t.Add {
			continue
		}
		r, err := p.arg(t.Node)
		if err != nil {
			return nil, err
		}
		if r.buf == nil || !r.buf.fixed || r.buf.view != t.Into {
			p.instrs = append(p.instrs, &instr{name: "copy", make: makeCopy, refs: [4][]ref{{r}, {{view: t.Into}}}})
		}
	}
	if err := s.floats.reserve(s.Dev, pl.size[device.Float]); err != nil {
		return nil, err
	}
	if err := s.ints.reserve(s.Dev, pl.size[device.Int32]); err != nil {
		return nil, err
	}
	p.bind()
	return p, nil
}

// add adds the value of a node to those targets that ask for it, where the op of the node does not do it by itself.
func (p *Program) add(n *Node, targets []Target) error {
	for _, t := range targets {
		if !t.Add || t.Node != n {
			continue
		}
		r, err := p.arg(n)
		if err != nil {
			return err
		}
		if r.buf == nil || !r.buf.fixed {
			to := ref{view: t.Into}
			p.instrs = append(p.instrs, &instr{name: "sum", make: makeSum, refs: [4][]ref{{to, r}, {to}}})
		}
	}
	return nil
}

func makeCopy(c *Call) { Do(c, device.Copy{Dst: c.Out[0], Src: c.In[0]}) }
func makeSum(c *Call)  { Do(c, device.Add{Dst: c.Out[0], A: c.In[0], B: c.In[1]}) }

// emit adds the instruction of a node.
func (p *Program) emit(n *Node) error {
	in := &instr{}
	switch op := n.Op().(type) {
	case nil, *pick:
		return nil
	case *Op:
		if op.Alias {
			return nil
		}
		in.name, in.make, in.meets = op.Name, op.Make, op.Meets
		if op.Nested != nil {
			var err error
			if in.run, err = op.Nested(p.s); err != nil {
				return fmt.Errorf("%s: %w", op.Name, err)
			}
		}
		in.call.Add = make([]bool, len(op.Outs))
		for _, k := range p.plan.added[op] {
			in.call.Add[k] = true
		}
		for k, b := range p.plan.outs[n] {
			in.refs[1] = append(in.refs[1], ref{buf: b, n: max(size(op.Outs[k]), op.OutSize)})
		}
		from := op
		if op.Forward != nil {
			from = op.Forward
		}
		for k, b := range p.plan.keeps[from] {
			in.refs[2] = append(in.refs[2], ref{buf: b, n: from.Saved[k].N})
		}
		for k, b := range p.plan.temps[op] {
			in.refs[3] = append(in.refs[3], ref{buf: b, n: op.Temp[k]})
		}
	default:
		if isConstant(n) || p.plan.skipped[n] {
			return nil
		}
		in.name, in.make = "sum", makeSum
		in.refs[1] = []ref{{buf: p.plan.outs[n][0], n: max(1, n.Shape().TotalSize())}}
	}
	for _, c := range p.plan.kids[n] {
		r, err := p.arg(c)
		if err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		in.refs[0] = append(in.refs[0], r)
	}
	if p.namer != nil {
		in.at = p.describe(in.name, n)
	}
	p.instrs = append(p.instrs, in)
	return nil
}

// describe names a node with its arguments and their shapes: node 7: linear 2048→1024 of in.regions (128, 2048),
// img.fc.weight (1024, 2048) → (128, 1024).
func (p *Program) describe(name string, n *Node) string {
	s := fmt.Sprintf("node %d: %s of", len(p.instrs)+1, name)
	for i, c := range p.plan.kids[n] {
		if i > 0 {
			s += ","
		}
		if c.Op() == nil {
			s += " " + c.Name()
		}
		s += fmt.Sprintf(" %v", c.Shape())
	}
	s += " →"
	if op, ok := n.Op().(*Op); ok {
		for i, o := range op.Outs {
			if i > 0 {
				s += ","
			}
			s += fmt.Sprintf(" %v", o)
		}
		return s
	}
	return s + fmt.Sprintf(" %v", n.Shape())
}

// arg returns where the value of a node lies.
func (p *Program) arg(n *Node) (ref, error) {
	elems := max(1, n.Shape().TotalSize())
	for { // an alias of a leaf has the leaf's memory
		op, ok := n.Op().(*Op)
		if !ok || !op.Alias || p.plan.outs[n] != nil {
			break
		}
		n = p.plan.kids[n][0]
	}
	if n.Op() == nil {
		l := p.leaves[n.Name()]
		if l == nil || l.node != n {
			return ref{}, fmt.Errorf("node %q was not made by Param or Input", n.Name())
		}
		if l.param {
			v := p.s.Params.Value(n.Name())
			if v.N != elems {
				return ref{}, fmt.Errorf("parameter %s has %d elements, the graph wants %d", n.Name(), v.N, elems)
			}
			return ref{view: v}, nil
		}
		if l.rows != nil && !slices.Contains(p.rows, l) {
			p.rows = append(p.rows, l)
		}
		in := p.s.feed[n.Name()]
		if in == nil {
			in = &input{}
			p.s.feed[n.Name()] = in
			if err := p.s.feedConst(n.Name(), l); err != nil {
				return ref{}, err
			}
		}
		return ref{input: in, n: elems, name: n.Name()}, nil
	}
	if isConstant(n) {
		b, err := p.s.Dev.Alloc(device.Float, 1)
		if err != nil {
			return ref{}, err
		}
		v := device.Of(b)
		switch x := n.Value().Data().(type) {
		case float32:
			device.Do(p.s.Dev, device.Fill{Dst: v, Value: float64(x)})
		case float64:
			device.Do(p.s.Dev, device.Fill{Dst: v, Value: x})
		default:
			return ref{}, fmt.Errorf("constant of type %T", x)
		}
		return ref{view: v}, nil
	}
	outs := p.plan.outs[n]
	if len(outs) > 1 {
		return ref{}, fmt.Errorf("%v has several results", n.Op())
	}
	return ref{buf: outs[0], n: elems}, nil
}

// bind resolves every ref to a view of the current slabs.
func (p *Program) bind() {
	p.inputs = p.inputs[:0]
	for _, in := range p.instrs {
		for k, dst := range []*[]device.View{&in.call.In, &in.call.Out, &in.call.Saved, &in.call.Temp} {
			if *dst == nil {
				*dst = make([]device.View, len(in.refs[k]))
			}
			for i, r := range in.refs[k] {
				(*dst)[i] = p.view(r)
				if r.input != nil {
					p.inputs, in.inputs = append(p.inputs, inputArg{&in.call, i, r.input, r.name, r.n}), true
				}
			}
		}
		if in.call.Host == nil {
			n := len(in.call.In)
			in.call.Host, in.call.Bounded, in.call.Layout = make([][]int32, n), make([]bool, n), make([]*device.Layout,
				n)
		}
		if !in.inputs {
			in.kernels()
		}
	}
	p.floats, p.ints, p.bound = p.s.floats.generation, p.s.ints.generation, true
}

func (p *Program) view(r ref) device.View {
	switch {
	case r.input != nil:
		return device.View{}
	case r.view.Present():
		return r.view
	case r.buf == nil:
		return device.View{}
	case r.buf.fixed:
		return r.buf.view
	case r.buf.dtype == device.Int32:
		return p.s.ints.view.Slice(r.buf.off, r.buf.off+r.n)
	default:
		return p.s.floats.view.Slice(r.buf.off, r.buf.off+r.n)
	}
}

// RunAll implements gorgonia.VM: it runs the program with the inputs fed to the instance.
func (p *Program) RunAll() error {
	if err := p.Prepare(); err != nil {
		return err
	}
	p.Run()
	return nil
}

// Prepare binds the views of the slabs, where they have moved, and those of the inputs fed to the instance, and makes
// the kernels that have them. Run may follow.
func (p *Program) Prepare() error {
	if err := p.number(); err != nil {
		return err
	}
	p.s.gather()
	if !p.bound || p.floats != p.s.floats.generation || p.ints != p.s.ints.generation {
		p.bind()
	}
	for i := range p.inputs {
		a := &p.inputs[i]
		if a.in.n != a.n {
			return fmt.Errorf("input %s holds %d values, the graph wants %d", a.name, a.in.n, a.n)
		}
		a.call.In[a.arg] = a.in.view.Slice(0, a.n)
		a.call.Host[a.arg], a.call.Bounded[a.arg], a.call.Layout[a.arg] = a.in.host, a.in.bounded, a.in.layout
	}
	for _, in := range p.instrs {
		if in.inputs {
			in.kernels()
		}
	}
	return nil
}

// number feeds the numbers of rows that a program reads.
func (p *Program) number() error {
	for _, l := range p.rows {
		r := l.rows
		if err := r.make(p.s.lengths(p.leaves[r.of]), p.s.lengths(p.leaves[r.there]), p.s.items); err != nil {
			return fmt.Errorf("number the rows of dropout: %w", err)
		}
		if slices.Equal(r.next, p.s.feed[l.node.Name()].values) { // whichever program fed them
			continue
		}
		r.fed, r.next = r.next, r.fed
		if err := p.s.FeedInts(l.node.Name(), r.fed); err != nil {
			return err
		}
	}
	return nil
}

// Run computes the kernels of a program that is prepared. A device.Recorder can record it.
func (p *Program) Run() {
	for _, in := range p.instrs {
		for _, f := range in.before {
			f()
		}
		if p.namer != nil {
			p.namer.At(in.at)
		}
		if in.run != nil {
			in.run(p.s.Dev, &in.call)
		} else {
			for _, k := range in.call.kernels[:in.call.made] {
				device.Must(p.s.Dev, k)
			}
		}
		for _, f := range in.then {
			f()
		}
	}
	if p.namer != nil {
		p.namer.At("")
	}
}

// Then has Run call f behind the last kernels that write to a range of the memory of targets, where values are final
// then, and behind all kernels where none does.
func (p *Program) Then(written device.View, f func()) {
	last := p.instrs[len(p.instrs)-1]
	for _, in := range p.instrs {
		for _, r := range in.refs[1] {
			v := r.view
			if r.buf != nil {
				v = r.buf.view // absent where it is not fixed
			}
			if v.Overlaps(written) {
				last = in
			}
		}
	}
	last.then = append(last.then, f)
}

// Reader is the place of the first op that reads a range of the parameters, and the one behind the last op before it in
// which the ranks meet, 0 without one. Where none reads it that is the end and 0.
func (p *Program) Reader(read device.View) (place, met int) {
	for i, in := range p.instrs {
		if slices.ContainsFunc(in.refs[0], func(r ref) bool { return r.view.Overlaps(read) }) {
			return i, met
		}
		if in.meets {
			met = i + 1
		}
	}
	return len(p.instrs), 0
}

// Before has Run call f before the kernels of a place, at the end not at all.
func (p *Program) Before(place int, f func()) {
	if place < len(p.instrs) {
		p.instrs[place].before = append(p.instrs[place].before, f)
	}
}

// Flops is the work of the products of the program, as it was prepared last (device.Flops).
func (p *Program) Flops() (n float64) {
	for _, in := range p.instrs {
		for _, k := range in.call.kernels[:in.call.made] {
			n += device.Flops(k)
		}
	}
	return n
}

// Reset implements gorgonia.VM; programs have no state between runs.
func (p *Program) Reset() {}

// Close implements gorgonia.VM; the memory belongs to the instance.
func (p *Program) Close() error {
	p.instrs, p.inputs, p.bound = nil, nil, false
	return nil
}

// View returns the memory of a retained node after a run.
func (p *Program) View(n *Node) device.View {
	r, ok := p.viewed[n]
	if !ok {
		var err error
		if r, err = p.arg(n); err != nil {
			fail("%v", err)
		}
		if op, ok := n.Op().(*Op); ok && !op.Alias && r.input == nil {
			r.n = max(r.n, op.OutSize)
		}
		p.viewed[n] = r
	}
	if r.input != nil {
		return r.input.view.Slice(0, r.n)
	}
	return p.view(r)
}

// Saved returns buffer i that the op of a node saves for the host (Slot.Read).
func (p *Program) Saved(n *Node, i int) device.View {
	op := n.Op().(*Op)
	return p.view(ref{buf: p.plan.keeps[op][i], n: op.Saved[i].N})
}

// Doubles copies the value of a retained node to the host.
func (p *Program) Doubles(n *Node) []float64 {
	v := p.View(n)
	out := make([]float64, v.N)
	p.s.Dev.DownloadDoubles(out, v)
	return out
}
