package graph

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"vsetrain/internal/compute/device"
)

// Call is what an op makes its kernels from: views of its inputs, outputs and buffers.
type Call struct {
	In    []device.View
	Out   []device.View // absent for an output that nobody reads
	Add   []bool        // whether an output is added to the value in its memory (Op.adding)
	Saved []device.View // saved tensors of the forward op, shared with its backward op
	Temp  []device.View // scratch memory of this call

	ints    []device.Ints   // of arguments that are graph inputs of int32
	kernels []device.Kernel // the kernels of Do; the first made of them are in use
	made    int
}

// Do adds a kernel to a call. It reuses the memory of an earlier kernel of the same type in the same place.
func Do[K any, P interface {
	*K
	device.Kernel
}](c *Call, k K) {
	var own P
	if c.made == len(c.kernels) {
		own = new(K)
		c.kernels = append(c.kernels, own)
	} else if same, ok := c.kernels[c.made].(P); ok {
		own = same
	} else {
		own = new(K)
		c.kernels[c.made] = own
	}
	*own = k
	c.made++
}

// DoGrad is Do of the gradient.
func DoGrad[K any, P interface {
	*K
	device.Kernel
	SetGrad(bool)
}](c *Call, k K) {
	Do[K, P](c, k)
	c.kernels[c.made-1].(P).SetGrad(true)
}

// Ints returns argument i, an int32 graph input, with its host values.
func (c *Call) Ints(i int) device.Ints {
	x := c.ints[i]
	x.View = c.In[i]
	return x
}

// rows returns the number of rows of the items whose lengths are argument i.
func (c *Call) rows(i int) int { return device.Total(c.ints[i].Host) }

// SavedTensor is a tensor that a forward op saves for its backward op or for the host.
type SavedTensor struct {
	DType device.DType
	N     int
	Read  bool // the host reads it after the run, so its memory is not reused
}

// traits are what Gorgonia asks of all ops.
type traits struct{}

func (traits) ReturnsPtr() bool     { return true }
func (traits) CallsExtern() bool    { return false }
func (traits) OverwritesInput() int { return -1 }

// Op is one operation of a graph; it implements gorgonia.SDOp. The functions of this package and the losses create ops.
// An op does not change once it is applied.
type Op struct {
	Name  string         // operation and static parameters, for messages
	Outs  []tensor.Shape // shape of each result, nil for a scalar
	Saved []SavedTensor
	Temp  []int // floats of scratch memory
	// OutSize is the number of floats that result 0 occupies, if more than its shape has.
	OutSize int
	// Outer, if not nil, says which result is a product of two arguments.
	Outer *Outer
	// Alias means that result 0 is the memory of argument 0. Make is nil.
	Alias bool
	// Early means that the op runs as soon as its arguments are computed, not when its results are needed.
	Early bool
	// Collective means that the ranks exchange values in the op, and wait for all earlier async collectives.
	Collective bool
	// Make adds the kernels of the op to a call, by Do. It is called when the memory of the op is known, and again
	// before every run if an argument is an input of the graph.
	Make func(c *Call)
	// Nested compiles programs that execute the op in place of Make, in the same instance. It returns nil to use Make.
	// read says which results somebody reads; the others are absent.
	Nested func(s *Instance, read []bool) (*nested, error)
	// Forward is the op whose saved tensors a backward op reads.
	Forward *Op
	// Grad builds the backward nodes: one per argument, nil if there is no gradient. NeedsGrad says which arguments
	// have one.
	Grad      func(in []*Node, out, dout *Node) []*Node
	NeedsGrad []bool

	traits
	in      []*Node // declared arguments
	adds    []int   // results, see adding
	ownRows bool    // result 0 is a gradient of the rows that this rank updates
	of      []int   // of a backward op: for each result, the argument of the forward op
	dtype   tensor.Dtype
	args    []hm.Type
	id      int
	hash    uint32
}

// nested executes an op by programs of its own.
type nested struct {
	ready func(c *Call) error // called before every run, after the inputs are bound; may be nil
	run   func(d device.Device, c *Call)
	flops func() float64 // of the last run
}

// The operands of an op are declared once. The methods below return the index of an operand in Call.In, Call.Out,
// Call.Saved or Call.Temp, by which Make finds its view.

// arg declares an argument, and whether it has a gradient.
func (o *Op) arg(n *Node, grad bool) int {
	o.in, o.NeedsGrad = append(o.in, n), append(o.NeedsGrad, grad)
	return len(o.in) - 1
}

// optional is arg for an argument that may be nil: then it is -1.
func (o *Op) optional(n *Node, grad bool) int {
	if n == nil {
		return -1
	}
	return o.arg(n, grad)
}

// result declares a result of a shape, a scalar without one.
func (o *Op) result(shape ...int) int {
	o.Outs = append(o.Outs, tensor.Shape(shape))
	return len(o.Outs) - 1
}

// save declares a tensor of n floats for the backward op.
func (o *Op) save(n int) int {
	o.Saved = append(o.Saved, SavedTensor{DType: device.Float, N: n})
	return len(o.Saved) - 1
}

// saveInts is save for n int32.
func (o *Op) saveInts(n int) int {
	o.Saved = append(o.Saved, SavedTensor{DType: device.Int32, N: n})
	return len(o.Saved) - 1
}

// scratch declares n floats of memory for a call.
func (o *Op) scratch(n int) int {
	o.Temp = append(o.Temp, n)
	return len(o.Temp) - 1
}

// backward begins the backward op of o, which reads the saved tensors of o. If it gets all arguments of o, they have
// the same indices as in o.
func (o *Op) backward(in ...*Node) *Op {
	b := &Op{Name: o.Name + " gradient", Forward: o}
	for _, n := range in {
		b.arg(n, false)
	}
	return b
}

// gradient declares the result of a backward op that is the gradient of an argument of the forward op, -1 for -1.
func (o *Op) gradient(arg int) int {
	if arg < 0 {
		return -1
	}
	shape := o.Forward.in[arg].Shape().Clone()
	if shape.IsScalar() {
		shape = nil
	}
	o.of = append(o.of, arg)
	return o.result(shape...)
}

// apply adds an op with declared arguments and one result to the graph.
func (g *Graph) apply(op *Op) *Node { return g.Apply(op, op.in...) }

// gradients adds a backward op with declared operands and returns a node for each argument of its forward op, nil for
// those without a gradient.
func (g *Graph) gradients(b *Op) []*Node {
	all := make([]*Node, len(b.Forward.in))
	for k, n := range g.ApplyMulti(b, b.in...) {
		all[b.of[k]] = n
	}
	return all
}

// Outer says that an op computes result Result as In[A]ᵀ In[B], see Graph.Factors.
type Outer struct{ Result, A, B int }

var _ G.SDOp = (*Op)(nil)

// Apply adds an op with one result to the graph of its inputs.
func (g *Graph) Apply(op *Op, in ...*Node) *Node {
	g.serial++
	op.id, op.dtype = g.serial, g.dtype
	op.args = make([]hm.Type, len(in))
	for i, n := range in {
		if n == nil {
			fail("%s: argument %d is missing", op.Name, i)
		}
		op.args[i] = n.Type()
	}
	h := fnv.New32a()
	op.WriteHash(h)
	op.hash = h.Sum32()
	n, err := G.ApplyOp(op, in...)
	if err != nil {
		fail("%s: %v", op.Name, err)
	}
	if n.Op() != G.Op(op) {
		fail("%s: node hash collision with %v", op.Name, n.Op())
	}
	return n
}

// ApplyMulti adds an op with several results and returns a node for each. Only backward ops have several results, since
// such an op has no gradient.
func (g *Graph) ApplyMulti(op *Op, in ...*Node) []*Node {
	whole := g.Apply(op, in...)
	out := make([]*Node, len(op.Outs))
	if len(op.Outs) == 1 {
		out[0] = whole
		return out
	}
	for i, s := range op.Outs {
		g.serial++
		p := &pick{index: i, shape: s, id: g.serial, dtype: g.dtype}
		n, err := G.ApplyOp(p, whole)
		if err != nil {
			fail("%s: result %d: %v", op.Name, i, err)
		}
		if n.Op() != G.Op(p) {
			fail("%s: node hash collision with %v", op.Name, n.Op())
		}
		out[i] = n
	}
	return out
}

// Factors returns the nodes a and b of a value that an op computes as aᵀ b, such as the gradient of a large weight. A
// caller that can use the factors need not compute the product.
func (g *Graph) Factors(n *Node) (a, b *Node, ok bool) {
	p, ok := n.Op().(*pick)
	if !ok {
		return nil, nil, false
	}
	whole := children(g.expr, n)[0]
	op, ok := whole.Op().(*Op)
	if !ok || op.Outer == nil || op.Outer.Result != p.index {
		return nil, nil, false
	}
	in := children(g.expr, whole)
	return in[op.Outer.A], in[op.Outer.B], true
}

func size(s tensor.Shape) int {
	if s == nil {
		return 1
	}
	return s.TotalSize()
}

// inferred returns a shape of Outs as Gorgonia wants it.
func inferred(s tensor.Shape) (tensor.Shape, error) {
	if s == nil {
		return tensor.ScalarShape(), nil
	}
	return s.Clone(), nil
}

func nodeType(dt tensor.Dtype, s tensor.Shape) hm.Type {
	if s == nil {
		return dt
	}
	return G.TensorType{Dims: s.Dims(), Of: dt}
}

func (o *Op) Arity() int { return len(o.args) }

// Type implements gorgonia.Op; it returns a fresh value each time.
func (o *Op) Type() hm.Type {
	ts := make([]hm.Type, 0, len(o.args)+1)
	ts = append(ts, o.args...)
	if len(o.Outs) > 1 {
		ts = append(ts, G.TensorType{Dims: 1, Of: o.dtype}) // all results, flat
	} else {
		ts = append(ts, nodeType(o.dtype, o.Outs[0]))
	}
	return hm.NewFnType(ts...)
}

func (o *Op) InferShape(...G.DimSizer) (tensor.Shape, error) {
	if len(o.Outs) > 1 {
		n := 0
		for _, s := range o.Outs {
			n += size(s)
		}
		return tensor.Shape{n}, nil
	}
	return inferred(o.Outs[0])
}

// Do implements gorgonia.Op. Ops run on a device through a Program, never through Gorgonia's machines.
func (o *Op) Do(...G.Value) (G.Value, error) {
	return nil, fmt.Errorf("%s runs only in a Program", o.Name)
}

func (o *Op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "vse#%d:%s", o.id, o.Name) }

func (o *Op) Hashcode() uint32 { return o.hash }

func (o *Op) String() string { return o.Name }

func (o *Op) DiffWRT(inputs int) []bool {
	w := make([]bool, inputs)
	copy(w, o.NeedsGrad)
	return w
}

func (o *Op) SymDiff(inputs G.Nodes, output, grad *Node) (out G.Nodes, err error) {
	if o.Grad == nil {
		return nil, fmt.Errorf("%s has no gradient", o.Name)
	}
	err = Build(func() error { out = o.Grad(inputs, output, grad); return nil })
	return out, err
}

// pick selects one result of an op with several; it never copies.
type pick struct {
	traits
	index int
	shape tensor.Shape
	id    int
	dtype tensor.Dtype
}

func (p *pick) Arity() int { return 1 }
func (p *pick) Type() hm.Type {
	return hm.NewFnType(G.TensorType{Dims: 1, Of: p.dtype}, nodeType(p.dtype, p.shape))
}
func (p *pick) InferShape(...G.DimSizer) (tensor.Shape, error) { return inferred(p.shape) }
func (p *pick) Do(...G.Value) (G.Value, error) {
	return nil, fmt.Errorf("%s runs only in a Program", p)
}
func (p *pick) WriteHash(h hash.Hash) { fmt.Fprintf(h, "vse#%d:pick%d", p.id, p.index) }
func (p *pick) Hashcode() uint32 {
	h := fnv.New32a()
	p.WriteHash(h)
	return h.Sum32()
}
func (p *pick) String() string { return fmt.Sprintf("result %d", p.index) }
