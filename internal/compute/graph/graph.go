// Package graph is a thin layer over Gorgonia: it builds symbolic networks from a small set of coarse operations, lets
// Gorgonia differentiate them, plans their memory and executes them on a device.
//
// An operation (Op) states its shape rule, its symbolic gradient and its execution in terms of the device interface
// only. A Graph is one network at one shape; Compile turns it into a Program, which implements gorgonia.VM, allocates
// nothing when it runs, and shares parameters, inputs and one slab of memory with all other programs of a Instance.
//
// What Gorgonia requires is kept inside this package: an op's function type is built anew at each call because
// Gorgonia returns it to a pool; node identity is a 32-bit hash, so every op carries a serial number and what ApplyOp
// returns is checked; tensor constants are never used.
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
	// Training makes batch normalisation use and collect the statistics of the batch, and dropout drop. It is set
	// before anything is added.
	Training bool
	// Seed is the seed of the run, from which dropout draws.
	Seed uint64
	// Shard is which items of a global batch the graph computes on; it is set before anything is added.
	Shard Shard
	// Micro, where not nil, ends the graph where the values of other micro-batches are needed; it is set before
	// anything is added.
	Micro *MicroBatch
	// Again leaves running statistics as they are: the graph runs once more, for its gradients.
	Again bool
	// OnStopGradient, where not nil, may put another node in place of each result of StopGradient; it is set before
	// anything is added. Tests of gradients hold these values while they perturb others.
	OnStopGradient func(x *Node) *Node

	expr   *G.ExprGraph
	dtype  tensor.Dtype
	leaves map[string]*leaf
	serial int
	wanted *Node // [B, C], not 0 for pairs whose nodes are needed; nil where all are
}

// Shard says that a graph computes on the items of one rank of a global batch (device.Shard). The zero Shard is the
// shard of one rank, which has all of them; with Items alone the graph has some of them.
type Shard struct {
	Rank, Ranks int
	Items       int // of the global batch
	// Rows are how many rows of a parameter each rank updates, one rank after the other, of those that are large
	// matrices. In a layer of inputs each rank multiplies its rows alone (Linear).
	Rows map[string][]int32
}

// MicroBatch says that a graph computes on some items of a batch whose micro-batches are computed one after the other.
// What needs the values of all items ends such a graph, at a Cut.
type MicroBatch struct {
	Items int   // of the graph
	Cuts  []Cut // in the order in which they were added: those that follow may depend on those before
}

// Cut is where a graph of a micro-batch ends: the values X of all micro-batches make a whole, and the graph goes on
// from the input Y, what Whole computes of it.
type Cut struct {
	X, Y *Node
	// Counts are the rows of X of each item; nil where all have as many.
	Counts *Node
	// Whole adds the computation on a batch of items to a graph: from the input x, and with Counts from another one of
	// int32, to y.
	Whole func(g *Graph, items int) (x, y *Node)
}

// CutX, CutCounts and CutY name the inputs at cut i: X and the counts of a whole batch, and Y.
func CutX(i int) string { return fmt.Sprintf("in.cut%d.x", i) }

// CutCounts is described at CutX.
func CutCounts(i int) string { return fmt.Sprintf("in.cut%d.counts", i) }

// CutY is described at CutX.
func CutY(i int) string { return fmt.Sprintf("in.cut%d.y", i) }

// Own is the number of items of the rank.
func (s Shard) Own() int { return (s.Items - s.Rank + s.Ranks - 1) / s.Ranks }

// Alone reports whether there is no other rank.
func (s Shard) Alone() bool { return s.Ranks < 2 }

// itemsOf is how many items the global batch has where n are here.
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

// Const returns the node of a float input whose values never change; Compile feeds it. The same name must mean the same
// values in all graphs of an instance.
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

// Gradients adds the backward graph of a scalar cost and returns one node per wanted node.
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

// Build runs f and returns the shape mistake it panicked with, if any, as an error: the boundary at which mistakes of
// graph building become one error.
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
