package onnx

import (
	"fmt"
	"strconv"

	"vsetrain/internal/files/elements"
)

// Versions of the format and of the operators that files name.
const (
	irVersion = 8
	Opset     = 17
)

// Type is the type of the elements of a tensor, a TensorProto.DataType.
type Type int

// The types that graphs use.
const (
	Float  Type = 1
	Int32  Type = 6
	Int64  Type = 7
	Double Type = 11
)

func (t Type) size() int64 {
	if t == Int64 || t == Double {
		return 8
	}
	return 4
}

// Value is the name of a tensor of a graph.
type Value string

// Dim is an axis of an input or output: its length, or a name if the length is known only when the model runs.
type Dim struct {
	N    int
	Name string
}

// Dims returns axes, each an int or the name of an axis whose length is known when the model runs.
func Dims(axes ...any) []Dim {
	out := make([]Dim, len(axes))
	for i, a := range axes {
		switch a := a.(type) {
		case int:
			out[i].N = a
		case string:
			out[i].Name = a
		default:
			panic(fmt.Sprintf("onnx: an axis of type %T, want int or string", a))
		}
	}
	return out
}

// Attr is an attribute of an operator: an int, float32, string or []int.
type Attr struct {
	Name  string
	Value any
}

// Graph is a model that is built operator by operator.
type Graph struct {
	name, version   string
	inputs, outputs []port
	nodes           []node
	tensors         []tensor
	known           map[Value]bool // tensors by name
	params          func(name string) []float32
}

type port struct {
	name Value
	typ  Type
	dims []Dim
}

type node struct {
	op      string
	in, out []Value
	attrs   []Attr
}

// tensor is a constant of a graph. Its values exist only while it is encoded.
type tensor struct {
	name Value
	typ  Type
	dims []int
	data func() []byte
}

// New begins a graph. version is the version of this program, for the file; params returns the values of a parameter.
func New(name, version string, params func(name string) []float32) *Graph {
	return &Graph{name: name, version: version, params: params, known: map[Value]bool{}}
}

// Input adds an input.
func (g *Graph) Input(name string, t Type, dims []Dim) Value {
	g.inputs = append(g.inputs, port{Value(name), t, dims})
	return Value(name)
}

// Output makes a value an output of the given name.
func (g *Graph) Output(name string, t Type, dims []Dim, v Value) {
	g.nodes = append(g.nodes, node{op: "Identity", in: []Value{v}, out: []Value{Value(name)}})
	g.outputs = append(g.outputs, port{Value(name), t, dims})
}

// Op adds an operator with one result. An argument "" is omitted.
func (g *Graph) Op(op string, in []Value, attrs ...Attr) Value {
	return g.Ops(op, []bool{true}, in, attrs...)[0]
}

// Ops adds an operator with several results; results that are not wanted are "".
func (g *Graph) Ops(op string, wanted []bool, in []Value, attrs ...Attr) []Value {
	out := make([]Value, len(wanted))
	for i, w := range wanted {
		if w {
			out[i] = Value(op + "_" + strconv.Itoa(len(g.nodes)))
			if i > 0 {
				out[i] += Value("_" + strconv.Itoa(i))
			}
		}
	}
	g.nodes = append(g.nodes, node{op, in, out, attrs})
	return out
}

func (g *Graph) add(t tensor) Value {
	if !g.known[t.name] {
		g.known[t.name] = true
		g.tensors = append(g.tensors, t)
	}
	return t.name
}

// Tensor adds a float32 constant, unless the graph has one of that name. Encoding calls values.
func (g *Graph) Tensor(name string, dims []int, values func() []float32) Value {
	return g.add(tensor{Value(name), Float, dims, func() []byte { return elements.Bytes(values()) }})
}

// Param adds a parameter under its own name.
func (g *Graph) Param(name string, dims []int) Value {
	return g.Tensor(name, dims, func() []float32 { return g.params(name) })
}

// Values returns the values of a parameter, for constants that are computed from it.
func (g *Graph) Values(name string) []float32 { return g.params(name) }

// Scalar adds a float32 constant without axes.
func (g *Graph) Scalar(v float32) Value {
	return g.add(tensor{Value("const." + strconv.FormatFloat(float64(v), 'g', -1, 32)), Float, nil,
		func() []byte { return elements.Bytes(v) }})
}

// Ints adds an int64 constant [n].
func (g *Graph) Ints(v ...int64) Value {
	name := "ints"
	for _, x := range v {
		name += "." + strconv.FormatInt(x, 10)
	}
	return g.add(tensor{Value(name), Int64, []int{len(v)}, func() []byte { return elements.Bytes(v) }})
}

// Int adds an int64 constant without axes.
func (g *Graph) Int(v int64) Value {
	return g.add(tensor{Value("int." + strconv.FormatInt(v, 10)), Int64, nil,
		func() []byte { return elements.Bytes(v) }})
}

// Doubles adds a float64 constant.
func (g *Graph) Doubles(name string, dims []int, v []float64) Value {
	return g.add(tensor{Value(name), Double, dims, func() []byte { return elements.Bytes(v) }})
}

// Cast converts the elements of a value.
func (g *Graph) Cast(v Value, t Type) Value { return g.Op("Cast", []Value{v}, Attr{"to", int(t)}) }

// Axis returns the length of an axis of a value, int64 without axes.
func (g *Graph) Axis(v Value, axis int) Value {
	return g.Op("Gather", []Value{g.Op("Shape", []Value{v}), g.Int(int64(axis))})
}

// Transpose permutes the axes of a value.
func (g *Graph) Transpose(v Value, perm ...int) Value {
	return g.Op("Transpose", []Value{v}, Attr{"perm", perm})
}

// Unsqueeze adds axes of length 1.
func (g *Graph) Unsqueeze(v Value, axes ...int64) Value {
	return g.Op("Unsqueeze", []Value{v, g.Ints(axes...)})
}

// Squeeze removes axes of length 1.
func (g *Graph) Squeeze(v Value, axes ...int64) Value {
	return g.Op("Squeeze", []Value{v, g.Ints(axes...)})
}

// Reshape gives a value another shape; 0 keeps the length of an axis, and -1 infers it.
func (g *Graph) Reshape(v Value, dims ...int64) Value {
	return g.Op("Reshape", []Value{v, g.Ints(dims...)})
}

// L2Norm divides by the Euclidean norm along an axis: x/(‖x‖ + eps).
func (g *Graph) L2Norm(x Value, axis int, eps float32) Value {
	n := g.Op("ReduceL2", []Value{x}, Attr{"axes", []int{axis}}, Attr{"keepdims", 1})
	if eps > 0 {
		n = g.Op("Add", []Value{n, g.Scalar(eps)})
	}
	return g.Op("Div", []Value{x, n})
}
