package cuda_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
)

// watched is a device of which every value is copied before every kernel, and whose copies are looked at after it.
type watched struct {
	device.Device
	t *testing.T
}

func (w watched) Unwrap() device.Device { return w.Device }

func (w watched) UploadDoubles(dst device.View, src []float64) {
	w.Device.UploadDoubles(dst, src)
	cuda.CopyAll(w.Device)
}

func (w watched) Sync() error {
	w.t.Helper()
	if stale := cuda.StaleCopies(w.Device); stale != "" {
		w.t.Errorf("stale copy: %s", stale)
	}
	return w.Device.Sync()
}

// No kernel leaves stale copies of what it writes, and products of copies have the same bits as products that round
// their operands. Gradients of a GRU do not: with copies its inputs are widened, and products add in another order
// (TestGRUOfWidenedInputs).
func TestCopiesOfAllKernels(t *testing.T) {
	copied, plain := newBench(t, copying).Device, cuda.WithoutCopies(newBench(t, copying).Device)
	widened := []string{"GRUGrad", "BiGRUGrad"}
	devicetest.Identical(t, slices.DeleteFunc(devicetest.Families(), func(name string) bool {
		return slices.Contains(widened, name)
	}), watched{copied, t}, plain)
	devicetest.Identical(t, widened, copied, watched{copied, t})
}

// A replay finds the same copies as its recording, whatever changed values in between; later calls find the copies as
// the replay left them.
func TestRecordedCopies(t *testing.T) {
	b := newBench(t, copying)
	d := b.Device
	r := d.(device.Recorder)
	x, w, extra, y, z := b.floats(1, 2), b.floats(10, 20), b.floats(3, 5), b.floats(0), b.floats(0)
	dot := func(to, a, c device.View) {
		device.Do(d, device.Gemm{M: 1, N: 1, K: 2, Alpha: 1, A: a, B: c, C: to})
	}
	for range 2 {
		dot(y, x, w)
		dot(z, x, extra)
	}
	b.want("product", y, 50)
	// takes 1 away
	p := device.Adam{P: w, G: b.floats(1, 1), M: b.floats(0, 0), V: b.floats(0, 0), Hyper: b.floats(1, 1, 1),
		Beta1: 0, Beta2: 0, Eps: 0}
	rec := try.Get(r.Record(func() {
		dot(y, x, w) // of w as it was before
		device.Do(d, p)
		device.Do(d, device.Add{Dst: x, A: x, B: x})
		dot(z, x, w) // of what was written here
		device.Do(d, device.Add{Dst: extra, A: extra, B: extra})
	}))(t)
	dot(y, x, w)
	b.want("nothing has run", y, 50)
	r.Replay(rec)
	b.want("first", y, 50)
	b.want("first, after Adam", z, 2*9+4*19)
	d.UploadFloats(w, []float32{100, 200})
	r.Replay(rec)
	b.want("with other parameters", y, 2*100+4*200)
	b.want("with other parameters, after Adam", z, 4*99+8*199)
	dot(y, x, w)
	b.want("after a replay", y, 4*99+8*199)
	device.Do(d, device.Fill{Dst: x.Slice(1, 2), Value: 1})
	r.Replay(rec)
	b.want("after a fill", y, 4*99+1*199)
	r.Replay(rec)
	dot(y, x, w)
	b.want("after two replays", y, 16*97+4*197)
	dot(y, extra, w)
	b.want("a value that the recording writes last", y, 16*3*97+16*5*197)
	b.fresh("at the end")
	try.Do(t, d.Sync())
}

// If the GPU has no room for copies, products round operands themselves.
func TestNoRoomForCopies(t *testing.T) {
	b := newBench(t, copying)
	d := b.Device
	x, y := b.floats(1+1./1024, 2), b.floats(0)
	b.full(0)
	device.Do(d, device.Gemm{M: 1, N: 1, K: 2, Alpha: 1, A: x, B: x, C: y})
	b.want("product", y, 5)
	try.Do(t, d.Sync())
}

// Kernels whose results are operands also write the copies, so the next product rounds nothing.
func TestCopiesOfProducers(t *testing.T) {
	b := newBench(t, copying)
	d := b.Device
	r, s := d.(device.Resident), d.(device.Streamer)
	const n, w = 3, 5
	some := func(n int) device.View {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i%7) - 2.7
		}
		return b.floats(x...)
	}
	table := try.Get(r.NewTable(n*w, true))(t)
	r.Store(table, 0, make([]float32, n*w))
	stage := try.Get(s.NewStage(n*w, true))(t)
	for i := range stage.Halves() {
		stage.Halves()[i] = 0x3bfd + uint16(i)<<5 // more digits than bfloat16 has
	}
	y, dx := some(n*w), some(n*w)
	norm := device.LayerNorm{N: n, D: w, X: some(n * w), Branch: some(n * w), Sum: some(n * w), Mean: some(n),
		InvStd: some(n), Weight: some(w), Bias: some(w), Y: y}
	back := norm
	back.DY, back.DX, back.DBranch = some(n*w), some(n*w), dx
	index, product := b.ints(2, 1, 0), some(n*n)
	const rows = 44 * n // more than a block adds up
	tall, filled, sum := some(rows), some(rows), some(1)
	adam := device.Adam{P: y, G: some(n * w), M: some(n * w), V: some(n * w), Hyper: b.floats(1, 1, 1), Beta1: 0.5,
		Beta2: 0.5, Eps: 1}
	const o, i = 4, 12
	weight, slope, in := some(o*i), some(n*o), some(n*i)
	factored := device.Adam{P: weight, M: some(o * i), V: some(o * i), Hyper: adam.Hyper, Beta1: 0.5, Beta2: 0.5,
		Eps: 1}
	active, dActive, context, slopes := some(n*w), some(n*w), some(n*w), some(3*n*w)
	gelu := device.Gemm{TransB: true, M: n, N: w, K: w, Alpha: 1, A: some(n * w), B: some(w * w), C: some(n * w),
		Bias: some(w), F: device.GELU, Active: active}
	geluBack := device.BiasActivate{F: device.GELU, M: n, N: w, X: gelu.C, Y: active, DY: some(n * w), DX: dActive}
	three := some(3 * n * w) // queries, keys and values of a row beside each other
	lengths := b.known(2, 1)
	attention := device.SelfAttention{Heads: 1, D: w, LD: 3 * w, Lengths: lengths, Context: context,
		DContext: some(n * w),
		Query:    three, Key: three.Slice(w, 3*n*w), Value: three.Slice(2*w, 3*n*w), DQuery: slopes,
		DKey: slopes.Slice(w,
			3*n*w), DValue: slopes.Slice(2*w, 3*n*w)}
	for _, c := range []struct {
		name string
		of   device.View
		call func()
	}{
		{"GELU", active, func() { device.Do(d, gelu) }},
		{"gradient of GELU", dActive, func() { device.Do(d, geluBack) }},
		{"GELU made again", active, func() { device.Do(d, geluBack) }},
		{"SelfAttention", context, func() { device.Do(d, attention) }},
		{"SelfAttentionGrad", slopes, func() { device.DoGrad(d, attention) }},
		{"LayerNorm", y, func() { device.Do(d, norm) }},
		{"LayerNormGrad", dx, func() { device.DoGrad(d, back) }},
		{"Gather", y, func() { device.Do(b.Device, device.Gather{Dst: y, Table: table, Index: index, Width: w}) }},
		{"StreamStage", y, func() { s.StreamStage(y, stage, n*w) }},
		{"ColumnSum", tall, func() {
			device.Do(d, device.Copy{Dst: tall, Src: filled})
			device.Do(d, device.ColumnSum{Dst: sum, X: tall, Rows: rows, Columns: 1})
		}},
		{"Adam", y, func() { device.Do(d, adam) }},
		{"AdamFactored", weight, func() {
			device.Do(d, device.AdamFactored{Adam: factored, Factored: device.Factored{N: n, O: o, I: i, DY: slope,
				X: in}})
		}},
	} {
		alone := b.launches(c.call)
		with := b.launches(func() {
			c.call()
			device.Do(d, device.Gemm{TransB: true, M: n, N: n, K: c.of.N / n, Alpha: 1, A: c.of, B: c.of, C: product})
		})
		if with != alone {
			t.Errorf("%s: %d kernels, and with a product %d", c.name, alone, with)
		}
		b.fresh(c.name)
	}
}

// A sum over rows that also rounds them adds the values themselves, whether their copies existed before or not.
func TestColumnSumOfCopiedRows(t *testing.T) {
	b := newBench(t, copying)
	d := b.Device
	const rows, cols = 300, 3 // rows of three blocks
	values := make([]float32, rows*cols)
	var want [cols]sum
	for i := range values {
		values[i] = float32(i%101)/7 - 3
		want[i%cols].add(approx{v: float64(values[i])}, approx{v: 1})
	}
	x, sums := b.floats(values...), b.floats(0, 0, 0)
	for _, copies := range []string{"rounded by the sum", "rounded before"} {
		device.Do(d, device.ColumnSum{Dst: sums, X: x, Rows: rows, Columns: cols})
		all := make([]approx, cols)
		for i := range all {
			all[i] = want[i].total()
		}
		within(t, copies, b.doubles(sums), all)
		device.Do(d, device.Fill{Dst: sums, Value: math.NaN()})
	}
	b.fresh("at the end")
}

// Of results that only products read, kernels write the copies alone: the memory of the values does not change. Later
// products, and sums of the values for biases, give the same bits as with values, in a recording too. Rows that belong
// to no caption are 0.
func TestOperandsAlone(t *testing.T) {
	b := newBench(t, copying)
	d, r := b.Device, b.Device.(device.Recorder)
	some := func(n int) device.View {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i*i%11)/3 - 1.7
		}
		return b.floats(x...)
	}
	const n, w = 9, 5 // rows, of which captions have 7
	lengths := device.Ints{Host: []int32{6, 3}, View: b.ints(5, 2), Bounded: true}
	x, first, second, product := some(n*w), some(3*n*w), some(n*w), some(9*w*w)
	pre := some(n * w)
	gelu := device.Gemm{TransB: true, M: n, N: w, K: w, Alpha: 1, A: x, B: some(w * w), C: pre, Bias: some(w),
		F: device.GELU, Active: first.Slice(0, n*w)}
	geluBack := device.BiasActivate{F: device.GELU, M: n, N: w, X: pre, Y: second, DY: x,
		DX: first.Slice(0, n*w), DBias: some(w)}
	norm := device.LayerNorm{N: n, D: w, Sum: x, Mean: some(n), InvStd: some(n), Weight: some(w), DY: some(n * w),
		DX: some(n * w), DBranch: first.Slice(0, n*w), DBranchBias: some(w)}
	heads := device.SelfAttention{Heads: 1, D: w, LD: 3 * w, Lengths: lengths, Context: first.Slice(0, n*w),
		DContext: x, DQuery: first, DKey: first.Slice(w, 3*n*w), DValue: first.Slice(2*w, 3*n*w), DBias: some(3 * w)}
	three := some(3 * n * w)
	heads.Query, heads.Key, heads.Value = three, three.Slice(w, 3*n*w), three.Slice(2*w, 3*n*w)
	for _, c := range []struct {
		name    string
		columns int // of the first result
		call    func(operand bool)
		results []device.View
		sums    device.View // of the columns of the first result, before it is rounded
	}{
		{"GELU", w, func(operand bool) { gelu.Operand = operand; device.Do(d, gelu) }, []device.View{gelu.Active},
			device.View{}},
		{"gradient of GELU", w, func(operand bool) { geluBack.Operand = operand; device.Do(d, geluBack) },
			[]device.View{geluBack.DX, second}, geluBack.DBias},
		{"LayerNormGrad", w, func(operand bool) { norm.Operand = operand; device.DoGrad(d, norm) },
			[]device.View{norm.DBranch}, norm.DBranchBias},
		{"SelfAttention", w, func(operand bool) { heads.Operand = operand; device.Do(d, heads) },
			[]device.View{heads.Context}, device.View{}},
		{"SelfAttentionGrad", 3 * w, func(operand bool) { heads.Operand = operand; device.DoGrad(d, heads) },
			[]device.View{first}, heads.DBias},
	} {
		other := c.results[len(c.results)-1]
		run := func(operand bool) {
			for _, v := range c.results {
				device.Do(d, device.Fill{Dst: v, Value: math.NaN()})
			}
			if c.sums.Present() {
				device.Do(d, device.Fill{Dst: c.sums, Value: math.NaN()})
			}
			c.call(operand)
			// All rows count, and of two results both.
			device.Do(d, device.Gemm{TransA: true, M: c.columns, N: other.N / n, K: n, Alpha: 1, A: c.results[0],
				B: other, C: product})
		}
		result := func() []float64 {
			all := b.doubles(product.Slice(0, c.columns*other.N/n))
			if c.sums.Present() {
				all = append(all, b.doubles(c.sums)...)
			}
			return all
		}
		run(true) // first, so that nothing is there of a run that writes the values
		got := result()
		for _, v := range c.results {
			if values := cuda.Raw(d, v); slices.ContainsFunc(values, func(v float32) bool { return v == v }) {
				t.Errorf("%s: unused values are written: %v", c.name, values)
			}
		}
		run(false)
		want := result()
		if slices.ContainsFunc(want, func(v float64) bool { return v != v }) {
			t.Fatalf("%s: the product and the sums are %v", c.name, want)
		}
		if c.sums.Present() {
			values := rowsOf(exactly(b.doubles(c.results[0])), c.columns)
			within(t, c.name+": sums", b.doubles(c.sums), values.columns(n, c.columns))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: a product of the copies alone and the sums are %v, want %v", c.name, got, want)
		}
		run(true)
		device.Do(d, device.Fill{Dst: c.results[0]})
		device.Do(d, device.Gemm{TransA: true, M: 1, N: 1, K: n, Alpha: 1, A: c.results[0], LDA: c.columns,
			B: c.results[0], LDB: c.columns, C: product})
		b.want(c.name+": what is written later", product.Slice(0, 1), 0)
		rec := try.Get(r.Record(func() { run(true) }))(t)
		r.Replay(rec)
		if got := result(); !slices.Equal(got, want) {
			t.Errorf("%s: a recorded product of the copies alone and the sums are %v, want %v", c.name, got, want)
		}
		b.fresh(c.name + ", recorded")
		run(false)
		if got := result(); !slices.Equal(got, want) {
			t.Errorf("%s: after the recording a product and the sums are %v, want %v", c.name, got, want)
		}
		b.fresh(c.name)
	}
}

// Reading a value that was written as bfloat16 alone as float32 panics. So does a product that finds no copies, as
// after the recording that made them.
func TestOperandReadAsValue(t *testing.T) {
	const n, w = 2, 4
	type world struct {
		*bench
		rows, active, y, square device.View // active is the second row of rows, and there as a copy alone
		gelu                    func(operand bool)
	}
	gemm := func(b world, change func(a *device.Gemm)) {
		a := device.Gemm{TransB: true, M: 1, N: 1, K: w, Alpha: 1, A: b.square, B: b.square, C: b.y}
		change(&a)
		device.Do(b.Device, a)
	}
	record := func(b world, call func()) {
		r := b.Device.(device.Recorder)
		r.Replay(try.Get(r.Record(call))(t))
	}
	for _, c := range []struct {
		name  string
		wrong bool
		call  func(b world)
	}{
		{"a kernel", true, func(b world) { device.Do(b.Device, device.Add{Dst: b.y, A: b.y, B: b.active}) }},
		{"a kernel that writes there", true, func(b world) {
			device.Do(b.Device, device.Add{Dst: b.active,
				A: b.active, B: b.active})
		}},
		{"a kernel that reads rows in front", false, func(b world) {
			device.Do(b.Device, device.Add{Dst: b.y, A: b.y,
				B: b.rows.Slice(0, w)})
		}},
		{"a copy", true, func(b world) { device.Do(b.Device, device.Copy{Dst: b.y, Src: b.active}) }},
		{"a download", true, func(b world) { b.doubles(b.active) }},
		{"a fetch", true, func(b world) { b.Device.(device.Recorder).Fetch(0, b.active) }},
		{"an exact product", true, func(b world) {
			gemm(b, func(a *device.Gemm) { a.A, a.Exact = b.active, true })
		}},
		{"a bias", true, func(b world) { gemm(b, func(a *device.Gemm) { a.Bias = b.active }) }},
		{"a product that adds", true, func(b world) {
			gemm(b, func(a *device.Gemm) { a.C, a.Beta = b.active, 1 })
		}},
		{"a product", false, func(b world) { gemm(b, func(a *device.Gemm) { a.A = b.active }) }},
		{"a recorded product", true, func(b world) {
			record(b, func() { gemm(b, func(a *device.Gemm) { a.A = b.active }) })
		}},
		{"a product after a recording", true, func(b world) {
			record(b, func() { b.gelu(true) })
			gemm(b, func(a *device.Gemm) { a.A = b.active })
		}},
		{"a kernel after a recording", true, func(b world) {
			record(b, func() { b.gelu(true) })
			device.Do(b.Device, device.Add{Dst: b.y, A: b.y, B: b.active})
		}},
		{"a kernel after another recording", false, func(b world) {
			record(b, func() { b.gelu(false) })
			device.Do(b.Device, device.Add{Dst: b.y, A: b.y, B: b.active})
		}},
		{"a kernel after values", false, func(b world) {
			device.Do(b.Device, device.Fill{Dst: b.active, Value: 1})
			device.Do(b.Device, device.Add{Dst: b.y, A: b.y, B: b.active})
		}},
	} {
		b := world{bench: newBench(t, copying)}
		d := b.Device
		b.rows, b.y, b.square = b.floats(1, 2, 3, 4, 0, 0, 0, 0), b.floats(1, 2, 3, 4), b.floats(1, 2, 3, 4, 1, 0, 0, 0,
			0, 1, 0, 0, 0, 0, 1, 0)
		b.active = b.rows.Slice(w, n*w)
		pre := b.floats(0, 0, 0, 0)
		b.gelu = func(operand bool) {
			device.Do(d, device.Gemm{TransB: true, M: 1, N: w, K: w, Alpha: 1, A: b.square.Slice(0, w), B: b.square,
				C: pre, F: device.GELU, Active: b.active, Operand: operand})
		}
		b.gelu(true)
		said := func() (said string) {
			defer func() {
				if r := recover(); r != nil {
					said = r.(string)
				}
			}()
			c.call(b)
			if err := d.Sync(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			return ""
		}()
		if c.wrong != strings.Contains(said, "was written as bfloat16 for products") {
			t.Errorf("%s says %q", c.name, said)
		}
		d.Close()
	}
}

// Calls that are dropped because the GPU has no scratch memory change no copies.
func TestCopiesAfterAFullGPU(t *testing.T) {
	b := newBench(t, copying)
	d := b.Device
	x, y, sum := b.floats(1, 3), b.floats(0), b.floats(0)
	product := func() {
		device.Do(d, device.Gemm{M: 1, N: 1, K: 2, Alpha: 1, A: x, B: x, C: y})
	}
	product()
	b.want("product", y, 10)
	norm := device.LayerNorm{N: 1, D: 2, X: b.floats(5, 6), Mean: b.floats(0), InvStd: b.floats(0),
		Weight: b.floats(1, 1), Bias: b.floats(0, 0), Y: x}
	b.full(0)
	d.UploadFloats(x, []float32{2, 3})
	device.Do(d, device.SumSquares{Sum: sum, X: x}) // has no room
	device.Do(d, norm)                              // would write x and its copy
	try.Fails(t, d.Sync(), "the GPU is full")
	product()
	b.want("product of what was uploaded", y, 13)
	b.fresh("at the end")
}
