package cuda_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/files/half"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// bench is a device with what a test puts on it.
type bench struct {
	testing.TB
	device.Device
}

// copying are options with which all products read bfloat16 copies.
var copying = cuda.Options{Precision: cuda.BF16, BLAS: []string{"emulated"}, RoundFrom: 1}

// newBench opens a device, and closes it when the test ends.
func newBench(t testing.TB, o cuda.Options) *bench {
	t.Helper()
	d := open(t, o)
	t.Cleanup(func() { d.Close() })
	return &bench{t, d}
}

func (b *bench) alloc(t device.DType, n int) device.View {
	b.Helper()
	return device.ViewOf(try.Get(b.Alloc(t, n))(b.TB))
}

// nan is a result of n values.
func (b *bench) nan(n int) device.View {
	b.Helper()
	v := b.alloc(device.Float, n)
	device.Do(b.Device, device.Fill{Dst: v, Value: math.NaN()})
	return v
}

// full leaves that many bytes of memory on the GPU.
func (b *bench) full(bytes int) {
	b.Helper()
	free, total, err := b.Device.(device.Resident).FreeMemory()
	try.Do(b.TB, err)
	emulator.Set(b.TB, "memory", int(total-free)+bytes, 4<<30)
}

// fresh fails if a copy of a value is stale.
func (b *bench) fresh(what string) {
	b.Helper()
	if stale := cuda.StaleCopies(b.Device); stale != "" {
		b.Errorf("%s: %s", what, stale)
	}
}

func (b *bench) floats(x ...float32) device.View {
	b.Helper()
	v := b.alloc(device.Float, len(x))
	b.UploadFloats(v, x)
	return v
}

func (b *bench) ints(x ...int32) device.View {
	b.Helper()
	v := b.alloc(device.Int32, len(x))
	b.UploadInts(v, x)
	return v
}

// known are integers that the host knows too.
func (b *bench) known(x ...int32) device.Ints { return device.Ints{View: b.ints(x...), Host: x} }

// doubles are the values of a view.
func (b *bench) doubles(v device.View) []float64 {
	x := make([]float64, v.N)
	b.DownloadDoubles(x, v)
	return x
}

func (b *bench) want(what string, v device.View, want ...float32) {
	b.Helper()
	got := make([]float32, v.N)
	b.DownloadFloats(got, v)
	if !slices.EqualFunc(got, want, func(x, y float32) bool { return x == y || x != x && y != y }) {
		b.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A recording runs nothing while it is made, does what was recorded whenever it is replayed, on what memory holds then,
// and refuses what would happen once.
func TestRecordAndReplay(t *testing.T) {
	for _, deferred := range []int{0, 1} {
		emulator.Set(t, "defer", deferred, 0)
		b := newBench(t, cuda.Options{})
		r := b.Device.(device.Recorder)
		x, y := b.floats(1, 2), b.floats(0, 0)
		before := emulator.Launches(t)
		rec, err := r.Record(func() {
			device.Do(b.Device, device.Add{Dst: y, A: y, B: x})
			device.Do(b.Device, device.Fill{Dst: x, Value: 5})
		})
		try.Do(t, err)
		b.want("recorded", y, 0, 0)
		r.Replay(rec)
		b.want("replayed", y, 1, 2)
		b.UploadFloats(x, []float32{10, 20})
		r.Replay(rec)
		r.Replay(rec)
		b.want("replayed with other values", y, 16, 27)
		if n := emulator.Launches(t) - before; n != 1 {
			t.Errorf("%d launches, want the recorded one", n)
		}
		r.Forget(rec)
		for what, f := range map[string]func(){
			"UploadFloats":   func() { b.UploadFloats(x, []float32{1, 2}) },
			"DownloadFloats": func() { b.DownloadFloats(make([]float32, 2), x) },
			"Sync":           func() { b.Sync() },
			"Alloc":          func() { b.Alloc(device.Float, 3) },
			"scratch memory": func() { device.Do(b.Device, device.SumSquares{Sum: x.Slice(0, 1), X: y}) },
		} {
			_, err := r.Record(func() {
				device.Do(b.Device, device.Add{Dst: y, A: y, B: x})
				f()
				device.Do(b.Device, device.Add{Dst: y, A: y, B: x})
			})
			try.Fails(t, err, what, "cannot be recorded")
		}
		b.want("after refused recordings", y, 16, 27)
		moved := r.Generation()
		device.Do(b.Device, device.SumSquares{Sum: x.Slice(0, 1), X: y})
		if r.Generation() == moved {
			t.Error("scratch memory came and the generation stayed")
		}
		rec, err = r.Record(func() { device.Do(b.Device, device.SumSquares{Sum: x.Slice(0, 1), X: y}) })
		if err != nil {
			t.Error(err)
		} else {
			r.Replay(rec)
		}
		if err := b.Sync(); err != nil {
			t.Error(err)
		}
	}
}

// What is fetched is what memory held after the kernels before, not after those after.
func TestFetch(t *testing.T) {
	emulator.Set(t, "defer", 1, 0)
	b := newBench(t, cuda.Options{})
	r := b.Device.(device.Recorder)
	x, y := b.floats(1, 2, 3), b.floats(7)
	r.Fetch(0, y, x.Slice(1, 3))
	device.Do(b.Device, device.Fill{Dst: x, Value: 9})
	r.Fetch(1, x)
	device.Do(b.Device, device.Fill{Dst: x, Value: 11})
	for slot, want := range [][]float32{{7, 2, 3}, {9, 9, 9}} {
		got, err := r.Fetched(slot)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("slot %d: %v, %v, want %v", slot, got, err, want)
		}
	}
}

// Guard lets Adam pass where everything is finite, and nothing else.
func TestGuard(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	b := newBench(t, cuda.Options{})
	for _, c := range []struct {
		coef, norm, first, second float32
		pass                      bool
	}{{1, 2, 3, 4, true}, {0.5, 2, -3, 4, true}, {nan, 2, 3, 4, false}, {0, inf, 3, 4, false}, {1, 2, nan, 4, false},
		{1, 2, inf, 4, false}, {1, 2, 3, -inf, false}} {
		p, m, v, coef := b.floats(1), b.floats(2), b.floats(3), b.floats(c.coef)
		device.Do(b.Device, device.Guard{Coefficient: coef, Norm: b.floats(c.norm),
			Losses: []device.View{b.floats(c.first), b.floats(c.second)}})
		device.Do(b.Device, device.Adam{P: p, G: b.floats(1), M: m, V: v, Hyper: b.floats(1, 1, 1), Clip: coef,
			Beta1: 0.5,
			Beta2: 0.5, Eps: 1})
		if c.pass {
			b.want("coefficient", coef, c.coef)
			continue
		}
		b.want("p", p, 1)
		b.want("m", m, 2)
		b.want("v", v, 3)
	}
}

// Rows of a table of floats or halves come in the order of their numbers, in any width, with zeros after them.
func TestGather(t *testing.T) {
	b := newBench(t, cuda.Options{})
	r := b.Device.(device.Resident)
	values := []float32{1, -2, 0.5, 65504, 6e-8, -0.25, 3, 4, 5, 6, 7, 8}
	for _, asHalf := range []bool{false, true} {
		table := try.Get(r.NewTable(len(values), asHalf))(t)
		r.Store(table, 0, values[:5])
		r.Store(table, 5, values[5:])
		stored := slices.Clone(values)
		if asHalf {
			raw := make([]byte, 2*len(values))
			half.Encode(raw, values)
			half.Decode(stored, raw)
		}
		for width, rows := range map[int][]int32{1: {11, 0, 4, 4}, 3: {2, 0, 1}, 4: {2, 2}, 12: {0}} {
			for _, behind := range []int{5, 8} { // the latter leaves whole fours
				dst := b.alloc(device.Float, len(rows)*width+behind)
				device.Do(b.Device, device.Fill{Dst: dst, Value: math.NaN()})
				device.Do(b.Device, device.Gather{Dst: dst, Table: table, Index: b.ints(rows...), Width: width})
				var want []float32
				for _, row := range rows {
					want = append(want, stored[int(row)*width:][:width]...)
				}
				b.want("rows", dst, append(want, make([]float32, behind)...)...)
			}
		}
		free, _, err := r.FreeMemory()
		try.Do(t, err)
		r.FreeTable(table)
		if after, _, _ := r.FreeMemory(); after-free != table.Bytes() ||
			table.Bytes() != int64(len(values)*map[bool]int{true: 2, false: 4}[asHalf]) {
			t.Errorf("a table of %d bytes freed %d", table.Bytes(), after-free)
		}
	}
}

// Lists come in the order of their numbers, cut or followed by zeros.
func TestGatherLists(t *testing.T) {
	b := newBench(t, cuda.Options{})
	values, starts := b.ints(11, 21, 22, 23, 41, 42), b.ints(0, 1, 4, 4, 6)
	for width, want := range map[int][]int32{1: {41, 11, 0, 21, 21}, 2: {41, 42, 11, 0, 0, 0, 21, 22, 21, 22},
		4: {41, 42, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 21, 22, 23, 0, 21, 22, 23, 0}} {
		dst := b.alloc(device.Int32, len(want))
		device.Do(b.Device, device.GatherLists{Dst: dst, Values: values, Starts: starts, Index: b.ints(3, 0, 2, 1,
			1), Width: width})
		got := make([]int32, len(want))
		b.DownloadInts(got, dst)
		if !slices.Equal(got, want) {
			t.Errorf("width %d: %v, want %v", width, got, want)
		}
	}
}

// Every half is the value that the host takes it for, in a table and in a stage.
func TestEveryHalf(t *testing.T) {
	b := newBench(t, cuda.Options{})
	r, s := b.Device.(device.Resident), b.Device.(device.Streamer)
	var values []float32
	var halves []uint16
	for h := range 1 << 16 {
		if h&0x7c00 != 0x7c00 { // finite
			values, halves = append(values, half.Float32(uint16(h))), append(halves, uint16(h))
		}
	}
	table := try.Get(r.NewTable(len(values), true))(t)
	r.Store(table, 0, values)
	stage := try.Get(s.NewStage(len(values), true))(t)
	copy(stage.Halves(), halves)
	dst := b.alloc(device.Float, len(values))
	for name, call := range map[string]func(){"Gather": func() {
		device.Do(b.Device, device.Gather{Dst: dst, Table: table, Index: b.ints(0), Width: len(values)})
	},
		"StreamStage": func() { s.StreamStage(dst, stage, len(values)) }} {
		device.Do(b.Device, device.Fill{Dst: dst, Value: math.NaN()})
		call()
		got := make([]float32, len(values))
		b.DownloadFloats(got, dst)
		for i, v := range values {
			if math.Float32bits(got[i]) != math.Float32bits(v) {
				t.Fatalf("%s: half of %v came back as %v", name, v, got[i])
			}
		}
	}
}

// Scratch memory that the GPU has no room for is an error of Sync, of which the device does not die; what was called
// after that is dropped.
func TestFullGPUInsideAKernel(t *testing.T) {
	b := newBench(t, cuda.Options{})
	x, sum := b.floats(1, 2), b.floats(3)
	b.full(100)
	device.Do(b.Device, device.SumSquares{Sum: sum, X: x})
	device.Do(b.Device, device.Fill{Dst: x, Value: 9})
	try.Fails(t, b.Sync(), "scratch memory", "the GPU is full")
	b.want("x", x, 1, 2)
	b.want("sum", sum, 3)
	emulator.Set(t, "memory", 4<<30, 4<<30)
	device.Do(b.Device, device.SumSquares{Sum: sum, X: x})
	b.want("sum", sum, 8)
	try.Do(t, b.Sync())
}

// Where scratch memory does not fit, results that were to be fetched are NaN with the error, in the first step too, and
// the device works on.
func TestFetchOnAFullGPU(t *testing.T) {
	b := newBench(t, cuda.Options{})
	f := b.Device.(device.Recorder)
	x, sum := b.alloc(device.Float, 1<<20), b.alloc(device.Float, 1<<10)
	b.full(0)
	device.Do(b.Device, device.ColumnSum{Dst: sum, X: x, Rows: 1 << 10, Columns: 1 << 10})
	f.Fetch(0, sum)
	if got, err := f.Fetched(0); err == nil || !strings.Contains(err.Error(), "the GPU is full") || got[0] == got[0] {
		t.Errorf("fetched %v, %v", got[:1], err)
	}
	emulator.Set(t, "memory", 4<<30, 4<<30)
	f.Fetch(0, sum)
	try.Get(f.Fetched(0))(t)
}

// A kernel that nothing started before is recorded all the same: its module, which cannot be loaded while calls are
// recorded, is loaded between two attempts.
func TestRecordLoadsModules(t *testing.T) {
	b := newBench(t, cuda.Options{})
	f := b.Device.(device.Recorder)
	x, sum, y := b.floats(1, 2, 3, 4), b.floats(0, 0), b.floats(1, 1)
	calls := 0
	rec, err := f.Record(func() {
		calls++
		device.Do(b.Device, device.Add{Dst: y, A: y, B: y})
		device.Do(b.Device, device.ColumnSum{Dst: sum, X: x, Rows: 2, Columns: 2})
	})
	if err != nil || calls < 2 {
		t.Fatalf("%d attempts, %v", calls, err)
	}
	b.want("nothing has run", y, 1, 1)
	f.Replay(rec)
	b.want("sum", sum, 4, 6)
	b.want("doubled once", y, 2, 2)
	again := calls
	if _, err := f.Record(func() {
		calls++
		device.Do(b.Device, device.Add{Dst: y, A: y,
			B: y})
	}); err != nil || calls != again+1 {
		t.Errorf("%d attempts with modules that are loaded, %v", calls-again, err)
	}
}
