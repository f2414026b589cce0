package devicetest

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/definitions"
	"vsetrain/lab/reference"
)

// harness feeds one device and checks its memory. Every view is in a larger buffer between guards of NaN (or a strange
// integer). A kernel must not change guards or inputs.
type harness struct {
	t        T
	d        device.Device // with definitions of kernels that it lacks
	ref      device.Device // the definitions of all kernels in float64
	rng      *philox.Stream
	tol      tolerances
	regions  []*region
	record   *[]float64 // transcript of all results, where one is kept
	failures int
	guard    int                               // elements before a view: unaligned or aligned
	rounds   float64                           // > 0: the device may round the operands of products, at this cost
	short    bool                              // transcript only: no references, no allocation count
	blind    bool                              // the device computes nothing: report no mistakes
	without  func(pair int) bool               // where set, pairs of an image and a caption without gradient
	watch    func(difference, allowed float64) // of every comparison; replaces allocation counts
	// plainSums: the device sums float32 values in float32 alone.
	plainSums bool
	// definition: the device is the reference itself, whose gradients are compared with finite differences.
	definition bool
	factors    factors
}

// tolerances are relative to the largest expected magnitude of a result.
type tolerances struct {
	exact   float64 // a few roundings
	product float64 // matrix products, also with Exact
	reduced float64 // matrix products in the precision of the device, against exact references
	deriv   float64 // gradients, of their norm
}

// region is one view with its guards and the values it must keep.
type region struct {
	buf    device.Buffer
	mirror device.Buffer // of the reference
	view   device.View
	given  []float64 // what the view held when it was placed
	floats []float64 // what the view holds on the device before the call
	ints   []int32
	output bool
}

const (
	unaligned  = 5  // elements before a view: odd, so that its address is a multiple of one element alone
	aligned    = 16 // as in a training: addresses are multiples of 16 bytes and more
	guardAfter = 19
	guardInt   = int32(-77_777)
)

func newHarness(t T, d device.Device, purpose string) *harness { return startHarness(t, d, purpose, 0) }

// startHarness is newHarness for a device that may round the operands of products; rounds is then what that may cost.
func startHarness(t T, d device.Device, purpose string, rounds float64) *harness {
	h := &harness{t: t, d: definitions.Over(d), ref: definitions.Over(reference.New()), rounds: rounds,
		guard: unaligned, rng: philox.NewKey(11, purpose).Stream(0)}
	_, h.definition = device.As[*reference.Device](d)
	switch {
	case rounds > 0:
		h.tol = tolerances{exact: 2e-6, product: 1e-5, reduced: rounds, deriv: 2.5 * rounds}
	case d.Float64():
		h.tol = tolerances{exact: 1e-14, product: 1e-12, reduced: 1e-12, deriv: 1e-6}
	case h.roundsProducts():
		h.tol = tolerances{exact: 2e-6, product: 1e-5, reduced: 2e-2, deriv: 5e-2}
	default:
		h.tol = tolerances{exact: 2e-6, product: 1e-5, reduced: 1e-5, deriv: 1e-4}
	}
	h.release()
	return h
}

// roundsProducts reports whether the operands of products are rounded to bfloat16.
func (h *harness) roundsProducts() bool {
	if h.rounds > 0 {
		return true
	}
	a, b, c := h.in([]float64{1 + 1./1024}), h.in([]float64{1}), h.out(1)
	device.Do(h.d, device.Gemm{M: 1, N: 1, K: 1, Alpha: 1, A: a, B: b, C: c})
	return h.read(c)[0] == 1
}

// hold rounds values to the type of the device, as uploading does.
func (h *harness) hold(x []float64) []float64 {
	if !h.d.Float64() {
		for i := range x {
			x[i] = float64(float32(x[i]))
		}
	}
	return x
}

// normal draws n values with the given standard deviation; long slices repeat a prime number of draws.
func (h *harness) normal(n int, sd float64) []float64 {
	draws := 8191
	if h.blind { // what the values are is all the same
		draws = 1
	}
	x := make([]float64, n)
	for i := range x {
		if i < draws {
			x[i] = sd * h.rng.Norm()
		} else {
			x[i] = x[i-draws]
		}
	}
	return h.hold(x)
}

func (h *harness) alloc(d device.Device, t device.DType, n int) device.Buffer {
	b, err := d.Alloc(t, n)
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

func (h *harness) place(x []float64, output bool) device.View {
	n := h.guard + len(x) + guardAfter
	held := h.hold(slices.Clone(x))
	r := &region{buf: h.alloc(h.d, device.Float, n), mirror: h.alloc(h.ref, device.Float, n), given: held, floats: held,
		output: output}
	for d, b := range map[device.Device]device.Buffer{h.d: r.buf, h.ref: r.mirror} {
		device.Do(d, device.Fill{Dst: device.ViewOf(b), Value: math.NaN()})
	}
	r.view = device.ViewOf(r.buf).Slice(h.guard, h.guard+len(x))
	h.set(r, held)
	h.regions = append(h.regions, r)
	return r.view
}

// in places an input.
func (h *harness) in(x []float64) device.View { return h.place(x, false) }

// inout places a view that the kernel reads and writes.
func (h *harness) inout(x []float64) device.View { return h.place(x, true) }

// out places a view of n NaN that the kernel writes.
func (h *harness) out(n int) device.View { return h.place(nans(n), true) }

// make gives a kernel the required views that are absent, of the declared sizes: room makes them.
func (h *harness) make(a device.Kernel, room func(o device.Operand) device.View) {
	a.Views(&device.Checker{Device: "devicetest", Visit: func(o device.Operand) device.View {
		if o.View.Present() || o.Rule == device.Optional {
			return o.View
		}
		return room(o)
	}})
}

// outputs places views of NaN that a kernel writes.
func (h *harness) outputs(a device.Kernel) {
	h.make(a, func(o device.Operand) device.View {
		if o.Type == device.Int32 {
			return h.outInts(o.N)
		}
		return h.out(o.N)
	})
}

// differentiable is a kernel with a gradient.
type differentiable interface {
	device.Kernel
	SetGrad(bool)
}

func (h *harness) placeInts(x []int32, output bool) device.View {
	all := repeat(h.guard+len(x)+guardAfter, guardInt)
	copy(all[h.guard:], x)
	b, m := h.alloc(h.d, device.Int32, len(all)), h.alloc(h.ref, device.Int32, len(all))
	h.d.UploadInts(device.ViewOf(b), all)
	h.ref.UploadInts(device.ViewOf(m), all)
	v := device.ViewOf(b).Slice(h.guard, h.guard+len(x))
	h.regions = append(h.regions, &region{buf: b, mirror: m, view: v, ints: slices.Clone(x), output: output})
	return v
}

func (h *harness) inInts(x []int32) device.Ints {
	return device.Ints{View: h.placeInts(x, false), Host: x, Layout: &device.Layout{}}
}

func (h *harness) outInts(n int) device.View { return h.placeInts(repeat(n, guardInt), true) }

func (h *harness) read(v device.View) []float64 {
	x := make([]float64, v.N)
	h.d.DownloadDoubles(x, v)
	return x
}

func (h *harness) readInts(v device.View) []int32 {
	x := make([]int32, v.N)
	h.d.DownloadInts(x, v)
	return x
}

// untouched fails if a guard or an input changed.
func (h *harness) untouched(what string) {
	h.t.Helper()
	for n, r := range h.regions {
		lo, hi := r.view.Off, r.view.Off+r.view.N
		if r.ints != nil {
			for i, v := range h.readInts(device.ViewOf(r.buf)) {
				inside := i >= lo && i < hi
				if !inside && v != guardInt || inside && !r.output && v != r.ints[i-lo] {
					h.t.Fatalf("%s: argument %d: int element %d changed to %d", what, n, i-lo, v)
				}
			}
			continue
		}
		for i, v := range h.read(device.ViewOf(r.buf)) {
			inside := i >= lo && i < hi
			if !inside && !math.IsNaN(v) || inside && !r.output && v != r.floats[i-lo] && !math.IsNaN(r.floats[i-lo]) {
				h.t.Fatalf("%s: argument %d: element %d of %d changed to %v", what, n, i-lo, r.view.N, v)
			}
		}
	}
}

// run calls a kernel, waits for it and checks that it wrote only its outputs.
func (h *harness) run(what string, call func()) {
	h.t.Helper()
	call()
	if err := h.d.Sync(); err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	if h.short {
		return
	}
	h.untouched(what)
}

// steady fails if a call allocates. It repeats the kernel, so call it last.
func (h *harness) steady(what string, call func()) {
	h.t.Helper()
	if h.short || h.watch != nil {
		return
	}
	n := allocations(call)
	// The runtime allocates when it starts a thread, and a collection empties pools. A kernel that allocates does so
	// every time.
	for try := 0; n != 0 && try < 4; try++ {
		n = allocations(call)
	}
	if n != 0 {
		h.errorf("%s: %d allocations per call, want 0", what, n)
	}
}

// errorf reports a failure and gives up after a few: one mistake of a device may show in hundreds of cases.
func (h *harness) errorf(format string, args ...any) {
	h.t.Helper()
	if h.blind {
		return
	}
	h.t.Errorf(format, args...)
	if h.failures++; h.failures == 5 {
		h.t.Fatal("further failures of this kernel are not shown")
	}
}

// equal compares a result with its reference, relative to the largest expected magnitude.
func (h *harness) equal(what string, v device.View, want []float64, rel float64) {
	h.t.Helper()
	h.equalTo(what, v, want, rel*magnitude(want))
}

// equalTo compares with an absolute tolerance, for results that are differences of much larger numbers.
func (h *harness) equalTo(what string, v device.View, want []float64, limit float64) {
	h.t.Helper()
	got := h.read(v)
	if h.record != nil {
		*h.record = append(*h.record, got...)
	}
	if h.short {
		return
	}
	h.within(what, got, want, bound{abs: limit})
}

// within compares element by element.
func (h *harness) within(what string, got, want []float64, b bound) {
	h.t.Helper()
	limit := b.rel*magnitude(want) + b.abs
	if b.off == nil {
		if err := near(got, want, limit); err != nil {
			h.errorf("%s: %v", what, err)
		}
		h.observe(got, want, limit)
		return
	}
	for i, off := range b.off {
		if err := near(got[i:i+1], want[i:i+1], limit+off); err != nil {
			h.errorf("%s: %d of %d: %v", what, i, len(got), err)
			return
		}
		h.observe(got[i:i+1], want[i:i+1], limit+off)
	}
}

func (h *harness) equalInts(what string, v device.View, want []int32) {
	h.t.Helper()
	got := h.readInts(v)
	for i := range got {
		if h.record != nil {
			*h.record = append(*h.record, float64(got[i]))
		}
		if !h.short && got[i] != want[i] {
			h.errorf("%s: element %d is %d, want %d", what, i, got[i], want[i])
			return
		}
	}
}

// allocations is the number of allocations of a call, on one processor.
func allocations(call func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// magnitude is the largest finite absolute value.
func magnitude(x []float64) (size float64) {
	for _, v := range x {
		if a := math.Abs(v); !math.IsInf(v, 0) && a > size { // not of NaN
			size = a
		}
	}
	return size
}

// near compares with an absolute tolerance; NaN and infinities must agree exactly.
func near(got, want []float64, limit float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		same := g == w || math.IsNaN(g) && math.IsNaN(w)
		if !same && !(math.Abs(g-w) <= limit) {
			return fmt.Errorf("element %d of %d is %.17g, want %.17g (allowed %.3g)", i, len(want), g, w, limit)
		}
	}
	return nil
}

// release frees everything placed since the last release.
func (h *harness) release() {
	for _, r := range h.regions {
		h.d.Free(r.buf)
		h.ref.Free(r.mirror)
	}
	h.regions = h.regions[:0]
}
