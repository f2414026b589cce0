// Package graph is a thin layer over Gorgonia: it builds symbolic networks from a small set of coarse operations, lets
// Gorgonia differentiate them, plans their memory and executes them on a device.
//
// An operation (Op) defines its shapes, its symbolic gradient and its kernels. A Graph is one network at one shape.
// Compile turns it into a Program, which implements gorgonia.VM and allocates nothing when it runs. All programs of an
// Instance share parameters, inputs and one slab of memory.
//
// Only this package knows how Gorgonia works. Op.Type returns a new type at each call, because Gorgonia returns types
// to a pool. Gorgonia identifies nodes by a 32-bit hash, so every op has a serial number, and Apply checks the result
// of ApplyOp. Tensor constants are not used.
package graph

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Node is a value of the graph.
type Node = G.Node

// Shape is the size of a value along each axis; the shape of a scalar is empty.
type Shape = tensor.Shape

// Graph is one symbolic network at one shape.
type Graph struct {
	// Training makes batch normalisation use and collect the statistics of the batch, and enables dropout. Set it
	// before anything is added.
	Training bool
	// Seed is the seed of the run, from which dropout draws.
	Seed uint64
	// Shard says on which items of a global batch the graph computes. Set it before anything is added.
	Shard Shard
	// Micro, if not nil, ends the graph where the values of other micro-batches are needed. Set it before anything is
	// added.
	Micro *MicroBatch
	// Again leaves running statistics unchanged, because the graph runs a second time, for its gradients.
	Again bool
	// OnStopGradient, if not nil, may replace each result of StopGradient by another node. Set it before anything is
	// added. Tests of gradients keep these values constant while they perturb others.
	OnStopGradient func(x *Node) *Node

	expr   *G.ExprGraph
	dtype  tensor.Dtype
	leaves map[string]*leaf
	serial int
	wanted *Node // [B, C], not 0 for pairs whose nodes are needed; nil where all are
}

// Shard says that a graph computes on the items of one rank of a global batch (device.Shard). The zero Shard has all
// items of the only rank; with Items alone, the graph has some of them.
type Shard struct {
	Rank, Ranks int
	Items       int // of the global batch
	// Rows is how many rows of a large parameter each rank updates, one rank after the other, by the parameter's name.
	// If the parameter is the weight of a layer of inputs, each rank multiplies only its own rows (Linear).
	Rows map[string][]int32
}

// MicroBatch says that a graph computes on some items of a batch, whose micro-batches run one after the other. An op
// that needs the values of all items ends such a graph, at a Cut.
type MicroBatch struct {
	Items int   // of the graph
	Cuts  []Cut // in the order in which they were added; a cut may depend on earlier ones
}

// Cut is where a graph of a micro-batch ends. The values X of all micro-batches are concatenated, Whole computes on
// them, and the graph continues with its result, the input Y.
type Cut struct {
	X, Y *Node
	// Counts are the rows of X of each item; nil if all items have the same number.
	Counts *Node
	// Whole adds the computation on a batch of items to a graph: from the input x, and with Counts from an int32 input,
	// to y.
	Whole func(g *Graph, items int) (x, y *Node)
}

// CutX, CutCounts and CutY name the inputs at cut i: X and the counts of a whole batch, and Y.
func CutX(i int) string { return fmt.Sprintf("in.cut%d.x", i) }

// CutCounts is described at CutX.
func CutCounts(i int) string { return fmt.Sprintf("in.cut%d.counts", i) }

// CutY is described at CutX.
func CutY(i int) string { return fmt.Sprintf("in.cut%d.y", i) }

// Own returns the number of items of the rank.
func (s Shard) Own() int { return (s.Items - s.Rank + s.Ranks - 1) / s.Ranks }

// Alone reports whether there is no other rank.
func (s Shard) Alone() bool { return s.Ranks < 2 }

// itemsOf returns how many items the global batch has if the graph has n.
func (s Shard) itemsOf(n int) int {
	if s.Items == 0 {
		return n
	}
	return s.Items
}

// leaf describes a node without an op: a parameter or an input.
type leaf struct {
	node   *Node
	param  bool
	shape  tensor.Shape
	ints   []int32 // of constants: what Compile feeds
	floats []float64
	rows   *numbering // of numbers of rows: how programs make them
	byRows bool       // see linearByRows
}

// newGraph returns an empty graph; wide selects float64.
func newGraph(wide bool) *Graph {
	g := &Graph{expr: G.NewGraph(), dtype: tensor.Float32, leaves: map[string]*leaf{}}
	if wide {
		g.dtype = tensor.Float64
	}
	return g
}

// Param returns the node of a parameter; the same name gives the same node.
func (g *Graph) Param(name string, shape ...int) *Node { return g.leaf(name, true, g.dtype, shape) }

// Input returns the node of a float input of the given shape.
func (g *Graph) Input(name string, shape ...int) *Node { return g.leaf(name, false, g.dtype, shape) }

// InputInts returns the node of an int32 input; its values are known to the host when the graph runs.
func (g *Graph) InputInts(name string, shape ...int) *Node {
	return g.leaf(name, false, tensor.Int32, shape)
}

// Const returns the node of a float input whose values never change; Compile feeds it. A name must have the same values
// in all graphs of an instance.
func (g *Graph) Const(name string, values []float64, shape ...int) *Node {
	n := g.Input(name, shape...)
	if n.Shape().TotalSize() != len(values) {
		fail("constant %s of shape %v has %d values", name, shape, len(values))
	}
	g.leaves[name].floats = values
	return n
}

// ConstInts is Const for int32.
func (g *Graph) ConstInts(name string, values []int32) *Node {
	n := g.InputInts(name, len(values))
	g.leaves[name].ints = values
	return n
}

func (g *Graph) leaf(name string, param bool, dt tensor.Dtype, shape []int) *Node {
	if l, ok := g.leaves[name]; ok {
		if l.param != param || l.node.Dtype() != dt || !l.shape.Eq(tensor.Shape(shape)) {
			fail("%q is used as %v and as %v", name, l.shape, shape)
		}
		return l.node
	}
	s := tensor.Shape(append([]int(nil), shape...))
	n := G.NewTensor(g.expr, dt, len(shape), G.WithShape(s.Clone()...), G.WithName(name))
	g.leaves[name] = &leaf{node: n, param: param, shape: s}
	return n
}

// Lookup returns the node of a parameter or input that the graph uses, or nil.
func (g *Graph) Lookup(name string) *Node {
	if l := g.leaves[name]; l != nil {
		return l.node
	}
	return nil
}

// Gradients adds the backward graph of a scalar cost and returns the gradient with respect to each node of wrt.
func (g *Graph) Gradients(cost *Node, wrt ...*Node) ([]*Node, error) {
	grads, err := G.Grad(cost, wrt...)
	if err != nil {
		return nil, fmt.Errorf("differentiate: %w", err)
	}
	return grads, nil
}

// ShapeError is a mistake in the building of a graph. Layers panic with it; Build turns it into an error.
type ShapeError struct{ msg string }

func (e *ShapeError) Error() string { return "build graph: " + e.msg }

func fail(format string, args ...any) { panic(&ShapeError{fmt.Sprintf(format, args...)}) }

// Failf panics with a ShapeError; for packages that define ops.
func Failf(format string, args ...any) { fail(format, args...) }

// Build runs f. If f panics with a ShapeError, Build returns it as an error.
func Build(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ShapeError)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	return f()
}

// Dim returns size i of a node's shape.
func Dim(n *Node, i int) int {
	s := n.Shape()
	if i >= len(s) {
		fail("%s has shape %v, which has no axis %d", n.Name(), s, i)
	}
	return s[i]
}

// wantShape panics unless the node has the given shape; -1 accepts any size.
func wantShape(what string, n *Node, shape ...int) {
	s := n.Shape()
	ok := len(s) == len(shape)
	for i := 0; ok && i < len(shape); i++ {
		ok = shape[i] < 0 || s[i] == shape[i]
	}
	if !ok {
		fail("%s has shape %v, want %v", what, s, shape)
	}
}
