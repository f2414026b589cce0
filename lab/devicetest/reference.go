package devicetest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
)

// bound is how far a result may be from the reference.
type bound struct {
	rel  float64   // of the largest magnitude that is expected
	abs  float64   // and this
	off  []float64 // and this of each element
	free bool      // anything may be written
	// norm bounds the Euclidean norm of all differences, where it is given: norm·(‖want‖ + floor).
	norm, floor float64
}

// bounds are the bounds of a kernel, by the name of the view; "" is for all others.
type bounds map[string]bound

// of is the bound of a view.
func (b bounds) of(o operand) bound {
	if limit, ok := b[o.Name]; ok {
		return limit
	}
	return b[""]
}

// all bounds every result relative to its largest magnitude.
func all(rel float64) bounds { return bounds{"": {rel: rel}} }

// usual is the floor of gradients: gradients with a smaller norm are rounding.
const usual = 1e-2

// slopes bounds gradients by their norms.
func (h *harness) slopes() bounds { return bounds{"": {norm: h.tol.deriv, floor: usual}} }

// operand is a view that a kernel declares. Name is the name in the declaration; the second of a name has 1 after it.
type operand struct {
	device.Operand
	label  string
	region *region
}

// operands lists the views that are present, as they are given.
func (h *harness) operands(k device.Kernel) (present []operand) {
	seen := map[string]int{}
	k.Views(&device.Checker{Device: "devicetest", Visit: func(o device.Operand) device.View {
		p := operand{Operand: o, label: o.Name}
		if n := seen[o.Name]; n > 0 {
			p.label = fmt.Sprintf("%s %d", o.Name, n)
		}
		seen[o.Name]++
		if o.View.Present() {
			p.region = h.regionOf(o.View)
			if o.Rule == device.Whole {
				p.N = o.View.N
			}
			present = append(present, p)
		}
		return o.View
	}})
	return present
}

func (h *harness) regionOf(v device.View) *region {
	for _, r := range h.regions {
		if r.buf == v.Buf {
			return r
		}
	}
	return nil
}

// views calls f for every view in a kernel.
func views(v reflect.Value, f func(v *device.View)) {
	if x, ok := v.Addr().Interface().(*device.View); ok {
		f(x)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				views(v.Field(i), f)
			}
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			views(v.Index(i), f)
		}
	}
}

// clone copies a kernel; views of what a slice holds are shared.
func clone(k device.Kernel) device.Kernel {
	c := reflect.New(reflect.TypeOf(k).Elem())
	c.Elem().Set(reflect.ValueOf(k).Elem())
	for i := range c.Elem().NumField() {
		if f := c.Elem().Field(i); f.Kind() == reflect.Slice {
			f.Set(reflect.AppendSlice(reflect.MakeSlice(f.Type(), 0, f.Len()), f))
		}
	}
	return c.Interface().(device.Kernel)
}

// mirrored is a kernel on the views of the reference.
func (h *harness) mirrored(k device.Kernel) device.Kernel {
	c := clone(k)
	views(reflect.ValueOf(c).Elem(), func(v *device.View) {
		if v.Present() {
			v.Buf = h.regionOf(*v).mirror
		}
	})
	return c
}

// want reads what the reference holds in a view of the device.
func (h *harness) want(v device.View) []float64 {
	x := make([]float64, v.N)
	h.ref.DownloadDoubles(x, device.View{Buf: h.regionOf(v).mirror, Off: v.Off, N: v.N})
	return x
}

// define computes a kernel on the reference alone.
func (h *harness) define(k device.Kernel) {
	if !h.short {
		device.Must(h.ref, h.mirrored(k))
	}
}

// check computes a kernel on the device and by its definition, on the same inputs, and compares everything that it
// writes. Required views that are absent are made: results of the kernel, with room after them.
func (h *harness) check(what string, k device.Kernel, b bounds) {
	h.t.Helper()
	h.make(k, h.room)
	before := h.operands(k) // a check of the device cuts views to what they need
	h.define(k)
	h.run(what, func() { device.Must(h.d, k) })
	for _, o := range before {
		if o.region.output {
			h.compare(what+": "+o.Name, o, b)
		}
	}
	h.steady(what, func() { device.Must(h.d, k) })
}

// compare compares what a kernel wrote with the reference.
func (h *harness) compare(what string, o operand, b bounds) {
	h.t.Helper()
	limit := b.of(o)
	switch {
	case limit.free:
	case o.Type == device.Int32:
		want := make([]int32, o.View.N)
		h.ref.DownloadInts(want, device.View{Buf: o.region.mirror, Off: o.View.Off, N: o.View.N})
		h.equalInts(what, o.View, want)
	default:
		got := h.read(o.View)
		if h.record != nil {
			*h.record = append(*h.record, got...)
		}
		if h.short {
			return
		}
		want := h.want(o.View)
		if limit.norm > 0 {
			h.equalNorm(what, got, want, limit)
		} else {
			h.within(what, got, want, limit)
		}
	}
}

// equalNorm compares the norm of all differences.
func (h *harness) equalNorm(what string, got, want []float64, b bound) {
	h.t.Helper()
	var off, size float64
	for i, w := range want {
		if math.IsNaN(w) && math.IsNaN(got[i]) { // left alone
			continue
		}
		off += (got[i] - w) * (got[i] - w)
		size += w * w
	}
	off = math.Sqrt(off)
	limit := b.norm * (math.Sqrt(size) + b.floor)
	if !(off <= limit) {
		h.errorf("%s: %d elements of norm %.9g are off by %.3g (allowed %.3g)", what, len(want), math.Sqrt(size), off,
			limit)
	}
	h.observe([]float64{off}, []float64{0}, limit)
}

// settle makes the results of a kernel the inputs of the next: computed by the reference, as the type of the device
// holds them, on both.
func (h *harness) settle(k device.Kernel) {
	for _, o := range h.operands(k) {
		r := o.region
		if !r.output || o.Name == work {
			continue
		}
		r.output = false
		if r.ints != nil {
			r.ints = h.readInts(r.view)
			continue
		}
		if r.floats = h.read(r.view); !h.short {
			r.floats = h.hold(h.want(r.view))
		}
		h.set(r, r.floats)
	}
}

// set writes values to a region of the device and of the reference.
func (h *harness) set(r *region, x []float64) {
	h.d.UploadDoubles(r.view, x)
	h.ref.UploadDoubles(device.View{Buf: r.mirror, Off: r.view.Off, N: r.view.N}, x)
}

// work is the name of memory that a kernel may use, and whose values are not compared.
const work = "Work"

// gradientOf names the gradient of a view: DX of X, Filter.DW of Filter.W.
func gradientOf(name string) string {
	at := strings.LastIndex(name, ".") + 1
	return name[:at] + "D" + name[at:]
}

// bothWays checks a kernel and then its gradient.
func (h *harness) bothWays(what string, k differentiable, forward, back bounds, without ...string) {
	h.t.Helper()
	h.check(what, k, forward)
	h.back(what, k, back, without...)
}

// back checks the gradient of a kernel that has been checked. Gradients of results that are not given are drawn, and
// all other gradients are requested except those without. If the device is the definition itself, they are compared
// with finite differences of the kernel.
func (h *harness) back(what string, k differentiable, b bounds, without ...string) {
	h.t.Helper()
	forward := clone(k)
	var written, read []operand
	for _, o := range h.operands(k) {
		if o.region.output {
			written = append(written, o)
		} else {
			read = append(read, o)
		}
	}
	h.settle(k)
	k.SetGrad(true)
	h.turn(k, written, without)
	for _, o := range h.operands(k) { // the gradients of recurrences may overwrite them
		o.region.output = o.region.output || o.Name == "Gates"
	}
	h.check(what+" gradient", k, b)
	if h.definition {
		h.differences(what, forward, k, written, read, b)
	}
}

// declared marks the views that a declaration names.
const declared = 1 << 40

// turn gives a gradient what it needs, and takes away what it does not declare.
func (h *harness) turn(k device.Kernel, written []operand, without []string) {
	seen := map[string]int{}
	k.Views(&device.Checker{Device: "devicetest", Visit: func(o device.Operand) device.View {
		v, label := o.View, o.Name
		if n := seen[o.Name]; n > 0 {
			label = fmt.Sprintf("%s %d", o.Name, n)
		}
		seen[o.Name]++
		drawn := slices.ContainsFunc(written, func(w operand) bool { return gradientOf(w.label) == label })
		base := o.Name[strings.LastIndex(o.Name, ".")+1:]
		if o.Rule == device.Whole { // as large as the result
			o.N = written[0].N
		}
		switch {
		case v.Present() && o.Name != work:
		case slices.Contains(without, o.Name), o.Rule == device.Optional && !strings.HasPrefix(base, "D"):
			return device.View{}
		case drawn:
			v = h.in(h.normal(o.N, 1))
		default:
			v = h.room(o)
		}
		v.Off += declared
		return v
	}})
	views(reflect.ValueOf(k).Elem(), func(v *device.View) {
		if v.Off < declared {
			*v = device.View{}
		} else {
			v.Off -= declared
		}
	})
}

// room places a result, with memory after it that is left alone.
func (h *harness) room(o device.Operand) device.View {
	n := o.N
	if o.Rule == device.Required || o.Rule == device.Optional {
		n += 3
	}
	if o.Type == device.Int32 {
		return h.outInts(n)
	}
	return h.out(n)
}

// defined computes a kernel by its definition alone, on results of its own.
func (h *harness) defined(k device.Kernel) {
	h.make(k, h.room)
	h.define(k)
}
