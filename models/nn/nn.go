// Package nn holds the layers that networks are made of. A layer is a struct of parameters whose tags give the names
// under which the reference repositories store them, and a pure Forward that adds the layer to a graph.
package nn

import (
	"fmt"
	"reflect"

	"vsetrain/internal/compute/graph"
)

// Param is one stored tensor of a layer. Layers hold Params in fields tagged `param:"name"`; nested layers carry the
// name of their part. Name is filled in by Collect.
type Param struct {
	Name  string // full stored name, such as "txt.rnn.weight_ih_l0"
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

// Collect names the parameters of a network, in the order of its fields. root points to a struct; parameters are found
// in its fields tagged `param:"..."`, nested structs (and slices and arrays of them, numbered) by their own tags.
func Collect(root any) []*Param {
	v := reflect.ValueOf(root)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("nn: Collect of a %T, want a pointer to a struct", root))
	}
	var out []*Param
	collect(v.Elem(), "", &out)
	return out
}

func collect(v reflect.Value, prefix string, out *[]*Param) {
	if p, ok := v.Addr().Interface().(*Param); ok {
		if p.Shape != nil { // a layer without this parameter leaves it empty
			p.Name = prefix
			*out = append(*out, p)
		}
		return
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		tag, ok := v.Type().Field(i).Tag.Lookup("param")
		if !ok {
			continue
		}
		name := join(prefix, tag)
		f := v.Field(i)
		for f.Kind() == reflect.Pointer {
			if f.IsNil() {
				break
			}
			f = f.Elem()
		}
		switch f.Kind() {
		case reflect.Slice, reflect.Array:
			for k := range f.Len() {
				collect(f.Index(k), fmt.Sprintf("%s.%d", name, k), out)
			}
		case reflect.Struct:
			collect(f, name, out)
		}
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "." + b
}
