// Package nn holds the layers that networks are made of. A layer is a struct of parameters whose tags give the names
// under which the reference repositories store them, and a pure Forward that adds the layer to a graph.
package nn

import (
	"fmt"
	"math"
	"reflect"

	"vsetrain/internal/graph"
	"vsetrain/internal/philox"
)

// Param is one stored tensor of a layer. Layers hold Params in fields tagged `param:"name"`; nested layers carry the
// name of their part. Name is filled in by Collect.
type Param struct {
	Name  string // full stored name, such as "txt.rnn.weight_ih_l0"
	Shape []int
	Init  Init
	State bool   // running statistics, never optimised
	Group string // optimiser group
}

// Node returns the parameter's node in a graph.
func (p *Param) Node(g *graph.Graph) *graph.Node {
	if p.Name == "" {
		graph.Failf("a parameter of shape %v was never collected", p.Shape)
	}
	return g.Param(p.Name, p.Shape...)
}

// Init draws the initial values of a parameter.
type Init struct {
	kind  byte // 'u' uniform in ±a, 'n' normal of deviation a, 'c' constant a
	scale float64
}

// Uniform draws from [-bound, bound).
func Uniform(bound float64) Init { return Init{'u', bound} }

// Normal draws from a normal distribution of mean 0.
func Normal(std float64) Init { return Init{'n', std} }

// Constant sets every value.
func Constant(v float64) Init { return Init{'c', v} }

// FanIn is PyTorch's default of linear layers: uniform in ±1/√in.
func FanIn(in int) Init { return Uniform(1 / math.Sqrt(float64(in))) }

// Xavier is the uniform initialisation of the references' image layers: ±√6/√(in+out).
func Xavier(in, out int) Init { return Uniform(math.Sqrt(6) / math.Sqrt(float64(in+out))) }

// Fill draws the initial values of a parameter: a function of the seed and the parameter's name alone.
func (p *Param) Fill(dst []float32, seed uint64) {
	s := philox.NewKey(seed, "init/"+p.Name).Stream(0)
	for i := range dst {
		switch p.Init.kind {
		case 'u':
			dst[i] = float32((2*s.Float64() - 1) * p.Init.scale)
		case 'n':
			dst[i] = float32(s.Norm() * p.Init.scale)
		default:
			dst[i] = float32(p.Init.scale)
		}
	}
}

// Collect names the parameters of a network, in the order of its fields. root points to a struct; parameters are found
// in its fields tagged `param:"..."`, nested structs (and slices of them, numbered) by their own tags.
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
		case reflect.Slice:
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
