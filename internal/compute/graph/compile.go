package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Target writes the value of a node directly to given memory, such as a gradient to the flat gradient buffer. With Add,
// it is added to the value there.
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
	if err := readOnce(g, pl); err != nil {
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

// readOnce returns an error if a weight that ranks multiply by rows (linearByRows) has a second reader.
func readOnce(g *Graph, p *plan) error {
	readers := map[*Node]int{}
	for _, n := range p.order {
		for _, c := range p.kids[n] {
			if l := g.leaves[c.Name()]; l == nil || l.node != c || !l.byRows {
				continue
			}
			if readers[c]++; readers[c] > 1 {
				return fmt.Errorf("%v reads %s, of which each rank multiplies its own rows in another op: the "+
					"gradient would be wrong; give the op a parameter of its own", n.Op(), c.Name())
			}
		}
	}
	return nil
}

// add adds the value of a node to its targets with Add, unless the op of the node adds it itself.
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
		in.name, in.make, in.meets = op.Name, op.Make, op.Collective
		if op.Nested != nil {
			read := make([]bool, len(op.Outs))
			for k, b := range p.plan.outs[n] {
				read[k] = b != nil
			}
			var err error
			if in.nested, err = op.Nested(p.s, read); err != nil {
				return fmt.Errorf("%s: %w", op.Name, err)
			}
			if in.nested != nil {
				in.make = nil
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
