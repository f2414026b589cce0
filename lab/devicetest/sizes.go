package devicetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
)

// What is wrong with a view.
const (
	short  = "one element too short"
	absent = "absent"
	kind   = "of the other type"
)

// chooses lists the views whose absence, or whose type, is not a mistake but chooses another kernel.
var chooses = []string{"Reduce Counts", "ReduceGrad Counts", "Similarities Filter.W", "SimilaritiesGrad Filter.W",
	"SelfAttention Words", "SelfAttentionGrad Words", "Copy Dst", "Wait X", "Combine B"}

// testSizes gives the device every kernel with views that fit, and with each view in turn too short, absent or of the
// other type, which must be refused.
func testSizes(h *harness) {
	fields, declared := map[string]bool{}, map[string]bool{}
	for _, t := range transfers(h.d) {
		var v device.View
		h.sizes(t.name, true, func(c *device.Checker) { c.Host(t.view, &v, t.t, 3) }, func() { t.call(v) })
	}
	for _, k := range device.Kernels() {
		t := reflect.TypeOf(k).Elem()
		switch k.(type) {
		case *device.FiltrateSimilarities: // the views of three others
			continue
		case *device.Gather, *device.GatherLists:
			if _, ok := device.As[device.Resident](h.d); !ok {
				continue
			}
		}
		h.structSizes(t, false, fields, declared)
		if _, ok := k.(differentiable); ok {
			h.structSizes(t, true, fields, declared)
		}
	}
	for f := range fields {
		if !declared[f] {
			h.errorf("%s is a view that no kernel declares", f)
		}
	}
}

// viewsOf returns the names of the views in a type, as declarations call them.
func viewsOf(t reflect.Type, name string) (names []string) {
	switch {
	case t == reflect.TypeFor[device.View]() || t == reflect.TypeFor[device.Ints]():
		return []string{name}
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return viewsOf(t.Elem(), name)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			switch {
			case f.Anonymous || f.Type.Kind() == reflect.Array: // their fields are named alone
				names = append(names, viewsOf(f.Type, "")...)
			case name == "":
				names = append(names, viewsOf(f.Type, f.Name)...)
			default:
				names = append(names, viewsOf(f.Type, name+"."+f.Name)...)
			}
		}
	}
	return names
}

// structSizes tries a kernel or its gradient: for each of its flags, with and without optional views.
func (h *harness) structSizes(t reflect.Type, grad bool, fields, declared map[string]bool) {
	for _, name := range viewsOf(t, "") {
		fields[t.Name()+"."+name] = true
	}
	flags := 0
	for flag := -1; flag < max(flags, 1); flag++ {
		for _, padded := range []bool{false, true} {
			for _, given := range []bool{false, true} {
				a := reflect.New(t)
				f := filler{h: h, flag: flag, padded: padded, given: given}
				f.fill(a.Elem(), "")
				flags = f.flags
				if padded && !f.pads {
					continue
				}
				k := a.Interface().(device.Kernel)
				if d, ok := k.(differentiable); ok {
					d.SetGrad(grad)
				}
				first := reflect.ValueOf(a.Elem().Interface())
				declare := func(c *device.Checker) {
					a.Elem().Set(first)
					k.Views(c)
				}
				call := func() { device.Must(h.d, k) }
				for _, o := range h.sizes(device.NameOf(k), given, declare, call) {
					declared[t.Name()+"."+o.Name] = true
				}
				f.release()
			}
		}
	}
}

// filler gives the fields of an argument struct but the views small values that fit together.
type filler struct {
	h      *harness
	flag   int  // which of the flags is set
	padded bool // batch normalisation with padding rows
	given  bool // optional views are there when the declaration begins
	flags  int  // fields that are flags
	pads   bool // whether there may be padding rows
	table  device.Table
}

// release frees what was made beside views.
func (f *filler) release() {
	if r, ok := device.As[device.Resident](f.h.d); ok && f.table != nil {
		r.FreeTable(f.table)
	}
}

func (f *filler) fill(v reflect.Value, name string) {
	if x, ok := v.Addr().Interface().(*device.Ints); ok {
		switch name {
		case "Lengths", "Counts":
			x.Host = []int32{2, 2}
		case "EdgeStart": // of two captions without edges
			x.Host = make([]int32, 3)
		default:
			x.Host = make([]int32, 8) // at least as many as words or labels
		}
		x.Layout = &device.Layout{}
		if name == "Counts" || f.given {
			x.View = f.h.placeInts(x.Host, false)
		}
		return
	}
	if x, ok := v.Addr().Interface().(*device.View); ok {
		if f.given {
			*x = f.h.out(1)
		}
		return
	}
	if x, ok := v.Addr().Interface().(*device.Table); ok {
		r, _ := device.As[device.Resident](f.h.d)
		var err error
		if f.table, err = r.NewTable(8, false); err != nil {
			panic(err)
		}
		*x = f.table
		return
	}
	switch v.Kind() {
	case reflect.Slice: // of losses
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), name)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), name)
		}
	case reflect.Bool:
		if name == "Grad" {
			return
		}
		v.SetBool(f.flags == f.flag)
		f.flags++
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Int:
		v.SetInt(f.size(name))
	}
}

// size is 2, except for what may be left out.
func (f *filler) size(name string) int64 {
	switch {
	case strings.HasPrefix(name, "LD") || strings.HasPrefix(name, "Stride") || name == "Batch":
		return 0
	case name == "Rank":
		return 0
	case name == "Ranks":
		return 1
	case name == "Pads":
		f.pads = true
		if f.padded {
			return 2
		}
		return 0
	case name == "Inner" && f.padded:
		return 1
	case name == "L": // of CrossEntropy, which reads a column more than there are words
		return 3
	}
	return 2
}

// sizes calls a kernel with the views of its declaration, the optional ones if they are given, then with
// each of them wrong, and returns what was declared.
func (h *harness) sizes(kernel string, given bool, declare func(*device.Checker), call func()) (all []device.Operand) {
	h.t.Helper()
	defer h.release()
	c := device.Checker{Device: "devicetest"}
	c.Visit = func(o device.Operand) device.View {
		o.View = device.View{}
		if given || o.Rule != device.Optional {
			o.View = h.fitting(o)
		}
		all = append(all, o)
		return o.View
	}
	declare(&c)
	if message := h.refusal(call); message != "" {
		h.errorf("%s with views that fit: %s", kernel, message)
		return all
	}
	for wrong, o := range all {
		for _, what := range []string{short, absent, kind} {
			switch {
			case !o.View.Present(),
				what == short && (o.N == 0 || o.Rule == device.Whole),
				what == absent && o.Rule == device.Optional,
				what != short && slices.Contains(chooses, kernel+" "+o.Name):
				continue
			}
			n := 0
			c.Visit = func(device.Operand) device.View {
				v := all[n].View
				if n == wrong {
					v = h.spoil(v, what)
				}
				n++
				return v
			}
			declare(&c)
			if message := h.refusal(call); !strings.Contains(message, kernel) || !strings.Contains(message, o.Name) {
				h.errorf("%s with a view %s that is %s: %q", kernel, o.Name, what, message)
			}
		}
	}
	return all
}

// fitting places a view of zeros, or of ones by which an update may divide, or lengths of 2, as declared.
func (h *harness) fitting(o device.Operand) device.View {
	n := o.N
	if o.Rule == device.Whole {
		n = 8
	}
	if o.Type == device.Float {
		x := make([]float64, n)
		for i := range x {
			if o.Name == "Hyper" {
				x[i] = 1
			}
		}
		return h.inout(x)
	}
	x := make([]int32, n)
	if slices.Contains([]string{"lengths", "wordlengths", "counts"}, strings.ToLower(o.Name)) {
		for i := range x {
			x[i] = 2
		}
	}
	return h.placeInts(x, true)
}

// spoil returns a view that does not fit.
func (h *harness) spoil(v device.View, what string) device.View {
	switch {
	case what == short:
		return v.Slice(0, v.N-1)
	case what == absent:
		return device.View{}
	case v.Buf.DType() == device.Float:
		return h.placeInts(make([]int32, v.N), true)
	}
	return h.out(v.N)
}

// refusal calls a kernel and returns what it panics with.
func (h *harness) refusal(call func()) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	call()
	if err := h.d.Sync(); err != nil {
		return err.Error()
	}
	return ""
}
