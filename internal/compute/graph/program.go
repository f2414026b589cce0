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
	nested *nested // in place of kernels
	inputs bool    // it has arguments that change with every run
	meets  bool    // Op.Collective
	call   Call
	refs   [4][]ref // of In, Out, Saved, Temp
	before []func() // see BeforeOp
	then   []func() // see AfterWrites
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
		v := device.ViewOf(b)
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
		if in.call.ints == nil {
			in.call.ints = make([]device.Ints, len(in.call.In))
		}
		if !in.inputs {
			in.kernels()
		}
	}
	p.floats, p.ints, p.bound = p.s.floats.generation, p.s.ints.generation, true
}

func (p *Program) view(r ref) device.View {
	switch {
	case r.buf == nil:
		return r.view // absent of an input
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

// Prepare binds the views of the slabs, if they have moved, and of the inputs fed to the instance, and makes their
// kernels again. Run may follow.
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
		a.call.In[a.arg], a.call.ints[a.arg] = a.in.Slice(0, a.n), a.in.Ints
	}
	for _, in := range p.instrs {
		if in.inputs {
			in.kernels()
		}
		if in.nested != nil && in.nested.ready != nil {
			if err := in.nested.ready(&in.call); err != nil {
				return fmt.Errorf("%s: %w", in.name, err)
			}
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

// Run computes the kernels of a prepared program. A device.Recorder can record it.
func (p *Program) Run() {
	for _, in := range p.instrs {
		for _, f := range in.before {
			f()
		}
		if p.namer != nil {
			p.namer.At(in.at)
		}
		if in.nested != nil {
			in.nested.run(p.s.Dev, &in.call)
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

// AfterWrites makes Run call f after the last op that writes to a range of the memory of targets, when its values are
// final, or after all ops if none does.
func (p *Program) AfterWrites(written device.View, f func()) {
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

// FirstReader returns the place of the first op that reads a range of the parameters, and the place after the last
// collective op before it, 0 without one. If no op reads the range, it returns the number of ops and 0.
func (p *Program) FirstReader(read device.View) (place, met int) {
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

// BeforeOp makes Run call f before the op at a place. At the end, f is not called.
func (p *Program) BeforeOp(place int, f func()) {
	if place < len(p.instrs) {
		p.instrs[place].before = append(p.instrs[place].before, f)
	}
}

// Flops returns the operations of the products of the program as it was last prepared (device.Flops); for a Nested op,
// as it last ran.
func (p *Program) Flops() (n float64) {
	for _, in := range p.instrs {
		for _, k := range in.call.kernels[:in.call.made] {
			n += device.Flops(k)
		}
		if in.nested != nil {
			n += in.nested.flops()
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
		return r.input.View.Slice(0, r.n)
	}
	return p.view(r)
}

// Saved returns buffer i that the op of a node saves for the host (SavedTensor.Read).
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
