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

// A recording runs nothing while it is made. A replay does what was recorded, on the values in memory then. What would
// happen only once cannot be recorded.
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

// A fetch returns what memory held after the earlier kernels, not after later ones.
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

// Every half has the same value on the GPU as on the host, in a table and in a stage. A freed table frees its bytes.
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
	for asHalf, size := range map[bool]int64{true: 2, false: 4} {
		table := try.Get(r.NewTable(12, asHalf))(t)
		free, _, err := r.FreeMemory()
		try.Do(t, err)
		r.FreeTable(table)
		if after, _, _ := r.FreeMemory(); after-free != table.Bytes() || table.Bytes() != 12*size {
			t.Errorf("a table of %d bytes freed %d", table.Bytes(), after-free)
		}
	}
}

// If the GPU has no room for scratch memory, Sync returns an error and later calls are dropped; then the device works
// on.
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

// If the GPU has no room for scratch memory, fetched results are NaN with the error, and the device works on.
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

// A kernel that nothing started before can be recorded: its module is loaded between two attempts.
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
