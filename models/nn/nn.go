// Package nn holds the layers of networks. A layer is a struct of parameters, whose tags are their names in the
// reference repositories, and a pure method Forward that adds the layer to a graph.
package nn

import (
	"fmt"
	"reflect"

	"vsetrain/internal/compute/graph"
)

// Param is a stored tensor of a layer, in a field tagged `param:"name"`. The tag of a nested layer is the name of its
// part.
type Param struct {
	Name  string // full stored name, such as "txt.rnn.weight_ih_l0"; Collect sets it
	Shape []int
	Init  Init
	State bool   // running statistics, never optimised
	Twice bool   // the optimiser lists it twice (quirk Q3 of VSRN)
	Group string // optimiser group

	Within *[2]float64 // range of a scalar that a loss learns (graph.ParamSpec)
}

// Node returns the parameter's node in a graph.
func (p *Param) Node(g *graph.Graph) *graph.Node {
	if p.Name == "" {
		graph.Failf("a parameter of shape %v was never collected", p.Shape)
	}
	return g.Param(p.Name, p.Shape...)
}

// Collect names and returns the parameters of a network in the order of its fields. root points to a struct with fields
// tagged `param:"..."`: parameters, structs, and slices and arrays of structs, which are numbered.
func Collect(root any) []*Param {
	v := reflect.ValueOf(root)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("nn: Collect of a %T, want a pointer to a struct", root))
	}
	var out []*Param
	collect(v, "", &out)
	return out
}

func collect(v reflect.Value, name string, out *[]*Param) {
	switch v.Kind() {
	case reflect.Pointer:
		collect(v.Elem(), name, out) // nil is a layer that the network does not have
	case reflect.Slice, reflect.Array:
		for k := range v.Len() {
			collect(v.Index(k), fmt.Sprintf("%s.%d", name, k), out)
		}
	case reflect.Struct:
		if p, ok := v.Addr().Interface().(*Param); ok {
			if p.Shape != nil { // a layer without this parameter leaves it empty
				p.Name = name
				*out = append(*out, p)
			}
			return
		}
		for i := range v.NumField() {
			if tag, ok := v.Type().Field(i).Tag.Lookup("param"); ok {
				collect(v.Field(i), join(name, tag), out)
			}
		}
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "." + b
}
