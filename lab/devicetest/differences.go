package devicetest

import (
	"math"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
)

// The definition of a kernel is compared with itself where the device is the reference. These are the second voice: a
// gradient is compared with finite differences of the kernel, and where both are linear each is the transpose of the
// other.

// named are gradients whose name does not say of what they are.
var named = map[string]string{"DVector": "Score"}

// factors are what a gradient reads or writes as factors, of the views that have no gradient then.
type factors struct {
	of   map[string][]float64        // the gradient of a result
	made func() map[string][]float64 // the gradient of an argument, when its factors are known
}

// differences compares the gradients g of Σ DY·Y, which a kernel wrote, with central differences along random
// directions u: g·u is (loss(x + εu) - loss(x - εu)) / 2ε, within 1e-6 (‖g‖ + 0.01); with a smaller ε where x is so
// close to a kink that ε crosses it. A gradient in parts, one for each sequence, is their sum.
func (h *harness) differences(what string, forward, k device.Kernel, written, read []operand, b bounds) {
	h.t.Helper()
	written = slices.DeleteFunc(written, func(w operand) bool { return w.Type == device.Int32 })
	back, slopes, seeds := h.operands(k), map[string][]float64{}, map[string][]float64{}
	for _, o := range back {
		if o.Type == device.Int32 || o.region.output && b.of(o).free {
			continue
		}
		x := h.want(o.View)[:o.N]
		if !o.region.output {
			seeds[o.label] = x
			continue
		}
		for i, v := range o.region.given[o.View.Off-o.region.view.Off:][:o.N] {
			if !math.IsNaN(v) { // added to
				x[i] -= v
			}
		}
		slopes[o.label] = x
	}
	for name, of := range named {
		slopes[gradientOf(of)] = slopes[name]
	}
	if h.factors.made != nil {
		for name, g := range h.factors.made() {
			slopes[gradientOf(name)] = g
		}
	}
	for name, d := range h.factors.of {
		seeds[gradientOf(name)] = d
	}
	results := func() (y, d []float64) {
		for _, w := range written { // those that are read as well
			h.d.UploadDoubles(w.region.view, w.region.given)
		}
		device.Must(h.d, forward)
		for _, w := range written {
			seed := seeds[gradientOf(w.label)]
			y, d = append(y, h.read(w.View)[:len(seed)]...), append(d, seed...)
		}
		return y, d
	}
	for _, x := range read {
		if g := slopes[gradientOf(x.label)]; g != nil && x.Type == device.Float {
			sums := make([]float64, x.N)
			for i, v := range g {
				sums[i%x.N] += v
			}
			h.slopesAlong(what+": gradient of "+x.label, x, sums, results)
		}
	}
	for _, w := range written {
		h.d.UploadDoubles(w.region.view, w.region.floats)
	}
}

// slopesAlong compares the gradient g of Σ d·y by x with differences along two directions.
func (h *harness) slopesAlong(what string, x operand, g []float64, results func() (y, d []float64)) {
	h.t.Helper()
	value, view := x.region.floats, x.region.view
	moved, direction := make([]float64, len(value)), make([]float64, len(value))
	for range 2 {
		var product, size, want float64
		for i := range direction {
			direction[i] = h.rng.Norm()
		}
		for i, v := range g {
			product += v * direction[x.View.Off-view.Off+i]
			size += v * v
		}
		along := func(step float64) (y, d []float64) {
			for i, v := range value {
				moved[i] = v + step*direction[i]
			}
			h.d.UploadDoubles(view, moved)
			return results()
		}
		limit, ok := 1e-6*(math.Sqrt(size)+1e-2), false
		for step := 1e-6; step > 5e-8 && !ok; step /= 10 {
			up, d := along(step)
			down, _ := along(-step)
			want = 0
			for i, v := range d {
				want += v * (up[i] - down[i]) / (2 * step)
			}
			ok = math.Abs(product-want) <= limit
		}
		if h.d.UploadDoubles(view, value); !ok {
			h.errorf("%s along a random direction is %.9g, %.9g by differences (allowed %.2g)", what, product, want,
				limit)
		}
	}
}

// transpose checks a kernel that is linear in the views named, writes `out`, and whose gradient reads `out` and writes
// the others: Σ x·Aᵀy is Σ Ax·y.
func (h *harness) transpose(what string, k differentiable, b bounds, out string, in ...string) {
	h.t.Helper()
	h.check(what, k, b)
	var forward float64
	values := map[string][]float64{}
	y := map[string][]float64{}
	for _, o := range h.operands(k) {
		switch base := o.Name; {
		case base == out:
			ax := h.want(o.View)[:o.N]
			y[base] = h.normal(o.N, 1)
			for i, v := range ax {
				forward += v * y[base][i]
			}
		case strings.Contains(" "+strings.Join(in, " ")+" ", " "+base+" "):
			values[base] = h.want(o.View)[:o.N]
		}
	}
	h.settle(k)
	k.SetGrad(true)
	k.Views(&device.Checker{Device: "devicetest", Visit: func(o device.Operand) device.View {
		if o.Name == out {
			return h.in(append(y[out], math.NaN()))
		}
		if _, ok := values[o.Name]; ok {
			return h.room(o)
		}
		return o.View
	}})
	h.check(what+" gradient", k, b)
	if !h.definition {
		return
	}
	var back float64
	for _, o := range h.operands(k) {
		if x, ok := values[o.Name]; ok {
			for i, v := range h.want(o.View)[:o.N] {
				back += v * x[i]
			}
		}
	}
	if !(math.Abs(forward-back) <= 1e-9*(1+math.Abs(forward))) {
		h.errorf("%s: the gradient is not the transpose: %.12g and %.12g", what, back, forward)
	}
}
