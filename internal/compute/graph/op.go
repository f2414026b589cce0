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
	Out   []device.View // an absent view is an output that nobody reads
	Add   []bool        // whether an output is added to what lies there (Op.adding)
	Saved []device.View // saved tensors of the forward op, shared with its backward op
	Temp  []device.View // scratch memory of this call

	ints    []device.Ints   // of arguments that are graph inputs of int32
	kernels []device.Kernel // the kernels of Do; the first made of them are of this time
	made    int
}

// Do adds a kernel to the kernels of a call. Where one of its type was in this place before, its memory is used again.
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

// rows is the number of rows of items whose lengths argument i is.
func (c *Call) rows(i int) int { return device.Total(c.ints[i].Host) }

// SavedTensor is a tensor that a forward op saves for its backward op or for the host.
type SavedTensor struct {
	DType device.DType
	N     int
	Read  bool // the host reads it after the run: its memory is not reused
}

// Op is one operation of a graph; it implements gorgonia.SDOp. Ops are created by the functions of this package and of
// the losses, and are immutable once applied.
type Op struct {
	Name  string         // operation and static parameters, for messages
	Outs  []tensor.Shape // shape of each result; nil is a scalar
	Saved []SavedTensor
	Temp  []int // floats of scratch memory
	// OutSize is the number of floats after result 0 if it is larger than its shape.
	OutSize int
	// Outer: a result is the product of two arguments, result Outer.Result = In[Outer.A]ᵀ In[Outer.B].
	Outer *Outer
	// Alias: result 0 is the memory of argument 0; Make is nil.
	Alias bool
	// Early: it is computed as soon as its arguments are there, not when its results are needed.
	Early bool
	// Collective: the ranks exchange values in it, and so wait for all that they send after the ops before it.
	Collective bool
	// Make makes the kernels of the op, by Do: when its memory is known, and again before every run where an argument
	// is an input of the graph.
	Make func(c *Call)
	// Nested, in place of Make, compiles what executes the op: programs of its own that share the instance; where it
	// returns nil, Make is used. read says of each result whether somebody reads it; the others are absent.
	Nested func(s *Instance, read []bool) (*nested, error)
	// Forward is the op whose saved tensors a backward op reads.
	Forward *Op
	// Grad builds the backward nodes: one per argument, nil if there is no gradient. NeedsGrad lists which arguments
	// have one.
	Grad      func(in []*Node, out, dout *Node) []*Node
	NeedsGrad []bool

	in      []*Node // declared arguments
	adds    []int   // results, see adding
	ownRows bool    // result 0 is a gradient of the rows that this rank updates
	of      []int   // of a backward op: the argument of the forward op that each result is the gradient of
	dtype   tensor.Dtype
	args    []hm.Type
	id      int
	hash    uint32
}

// nested executes an op by programs of its own.
type nested struct {
	ready func(c *Call) error // called before every run, behind the inputs; may be nil
	run   func(d device.Device, c *Call)
	flops func() float64 // of the last run
}

// The operands of an op are declared once. The methods below return the index of an operand in Call.In, Call.Out,
// Call.Saved or Call.Temp; what makes the kernels of an op knows its operands by the names that these indices are
// given.

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

// view returns one of the views of a call, absent for an optional operand that is not there.
func view(all []device.View, i int) device.View {
	if i < 0 {
		return device.View{}
	}
	return all[i]
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

// backward begins the backward op of o. It reads the saved tensors of o; given all arguments of o, it has them under
// the same names.
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

// written is gradient for a kernel that always writes it: where nobody reads it, it is in scratch memory.
func (o *Op) written(arg int) func(c *Call) device.View {
	i := o.gradient(arg)
	other := o.scratch(size(o.Outs[i]))
	return func(c *Call) device.View { return or(c.Out[i], c.Temp[other]) }
}

// product computes C = op(A) op(B) as a says, where somebody reads it.
func (c *Call) product(to device.View, a device.Gemm) {
	if to.Present() {
		a.Alpha, a.C = 1, to
		Do(c, a)
	}
}

// columnSums computes the gradient of a bias from the gradient dy of rows, where somebody reads it. A device may round
// dy meanwhile for the products that follow.
func (c *Call) columnSums(to, dy device.View, rows, columns int) {
	if to.Present() {
		Do(c, device.ColumnSum{Dst: to, X: dy, Rows: rows, Columns: columns})
	}
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

// Outer names a result that is the product of two arguments, see Graph.Factors.
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

// ApplyMulti adds an op with several results and returns a node for each. Such ops have no gradient of their own:
// they are backward ops.
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

// Factors returns the nodes a and b of a value that an op computes as aᵀ b, if it does. Whoever can use the factors
// need not have the product computed: the gradient of a large weight is such a value.
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
	if o.Outs[0] == nil {
		return tensor.ScalarShape(), nil
	}
	return o.Outs[0].Clone(), nil
}

// Do implements gorgonia.Op. Ops run on a device through a Program, never through Gorgonia's machines.
func (o *Op) Do(...G.Value) (G.Value, error) {
	return nil, fmt.Errorf("%s runs only in a Program", o.Name)
}

func (o *Op) ReturnsPtr() bool { return true }

func (o *Op) CallsExtern() bool { return false }

func (o *Op) OverwritesInput() int { return -1 }

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
	index int
	shape tensor.Shape
	id    int
	dtype tensor.Dtype
}

func (p *pick) Arity() int { return 1 }
func (p *pick) Type() hm.Type {
	return hm.NewFnType(G.TensorType{Dims: 1, Of: p.dtype}, nodeType(p.dtype, p.shape))
}
func (p *pick) InferShape(...G.DimSizer) (tensor.Shape, error) {
	if p.shape == nil {
		return tensor.ScalarShape(), nil
	}
	return p.shape.Clone(), nil
}
func (p *pick) Do(...G.Value) (G.Value, error) {
	return nil, fmt.Errorf("%s runs only in a Program", p)
}
func (p *pick) ReturnsPtr() bool      { return true }
func (p *pick) CallsExtern() bool     { return false }
func (p *pick) OverwritesInput() int  { return -1 }
func (p *pick) WriteHash(h hash.Hash) { fmt.Fprintf(h, "vse#%d:pick%d", p.id, p.index) }
func (p *pick) Hashcode() uint32 {
	h := fnv.New32a()
	p.WriteHash(h)
	return h.Sum32()
}
func (p *pick) String() string { return fmt.Sprintf("result %d", p.index) }
