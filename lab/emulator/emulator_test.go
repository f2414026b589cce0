package emulator_test

import (
	"math"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// machine is the emulated driver on the thread of the test.
type machine struct {
	t *testing.T
	driver.Driver
	module driver.Module
	stream driver.Stream
}

func start(t *testing.T) *machine {
	t.Helper()
	path := emulator.Library(t)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d := try.Get(driver.Open(path))(t)
	m := &machine{t: t, Driver: d}
	m.must(d.SetCurrent(try.Get(d.Retain(0))(t)))
	t.Cleanup(func() { d.SetCurrent(0); d.Release(0) })
	m.module = try.Get(d.LoadModule(planted(t)))(t)
	m.stream = try.Get(d.NewStream())(t)
	t.Cleanup(func() { d.DestroyStream(m.stream) })
	return m
}

// planted is what the driver reads of PTX: the kernels of planted.cu with their parameters.
func planted(t *testing.T) []byte {
	t.Helper()
	ptx := ".version 7.0\n"
	for _, k := range regexp.MustCompile(`(?m)^KERNEL (\w+)\(([^)]*)\)`).FindAllStringSubmatch(
		string(try.Get(os.ReadFile("src/planted.cu"))(t)), -1) {
		ptx += ".visible .entry " + k[1] + "("
		for p := range strings.SplitSeq(k[2], ",") {
			ptx += map[bool]string{true: ".param .u64 ", false: ".param .u32 "}[strings.Contains(p, "*")]
		}
		ptx += ")\n"
	}
	return []byte(ptx)
}

func (m *machine) must(err error) {
	m.t.Helper()
	try.Do(m.t, err)
}

func (m *machine) memory(floats int) driver.Ptr {
	m.t.Helper()
	return try.Get(m.Alloc(4 * floats))(m.t)
}

// launch runs a planted kernel and returns what launching and waiting say.
func (m *machine) launch(name string, blocks, threads int, values ...uint64) error {
	m.t.Helper()
	f := try.Get(m.Function(m.module, name))(m.t)
	l := driver.Launch{Grid: [3]uint32{uint32(blocks), 1, 1}, Threads: uint32(threads)}
	copy(l.Values[:], values)
	if err := m.Launch(f, &l, m.stream); err != nil {
		return err
	}
	return m.Synchronize(m.stream)
}

// Every planted mistake is found, in every order of threads, at once or when the stream is waited for; a kernel without
// one runs.
func TestPlantedMistakes(t *testing.T) {
	for _, order := range []int{0, 1, 2} {
		for _, deferred := range []int{0, 1} {
			for _, c := range []struct{ kernel, says string }{
				{"planted_none", ""},
				{"planted_missing_barrier", "race in shared memory"},
				{"planted_write_beyond", "writes 4 bytes at byte 400 of an allocation of 400"},
				{"planted_read_beyond", "reads 4 bytes at byte 400 of an allocation of 400"},
				{"planted_two_writers", "race in device memory"},
				{"planted_two_adders", "race in device memory"},
				{"planted_halves", ""},
				{"planted_half_race", "race in device memory"},
				{"planted_half_writers", "race in device memory"},
				{"planted_half_barrier", "barrier"},
			} {
				m := start(t)
				emulator.Set(t, "order", order, 0)
				emulator.Set(t, "defer", deferred, 0)
				x, y := m.memory(100), m.memory(100)
				var err error
				switch c.kernel {
				case "planted_write_beyond":
					err = m.launch(c.kernel, 4, 32, uint64(y), 100)
				case "planted_read_beyond":
					err = m.launch(c.kernel, 4, 32, uint64(y), uint64(x), 100)
				case "planted_two_writers", "planted_two_adders", "planted_half_writers":
					err = m.launch(c.kernel, 2, 32, uint64(y))
				case "planted_halves", "planted_half_barrier":
					err = m.launch(c.kernel, 1, 64, uint64(y))
				default:
					err = m.launch(c.kernel, 1, 64, uint64(y), uint64(x))
				}
				if c.says == "" {
					m.must(err)
				} else if err == nil || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), c.kernel) {
					t.Errorf("order %d, late %d: %s: %v, expected an error with %q", order, deferred, c.kernel, err,
						c.says)
				}
				if _, e := m.Retain(0); (e == nil) != (err == nil) { // a fault lasts for the process
					t.Errorf("%s: after %v the context is given with %v", c.kernel, err, e)
				}
				emulator.Mend(t)
				m.must(m.Free(x))
				m.must(m.Free(y))
			}
		}
	}
}

// What was freed is not memory any more, while other memory is in use.
func TestFreedMemory(t *testing.T) {
	m := start(t)
	x, y := m.memory(100), m.memory(100)
	m.must(m.Free(x))
	try.Fails(t, m.launch("planted_read_beyond", 1, 32, uint64(y), uint64(x), 32),
		"reads 4 bytes of device memory that was never allocated or is free")
	emulator.Mend(t)
	m.must(m.Free(y))
}

// together runs a planted kernel on blocks that run at once, of two warps with 256 bytes of dynamic shared memory: on
// two values for each block and a counter, all 0. It returns the values.
func (m *machine) together(name string, blocks int) ([]float32, error) {
	m.t.Helper()
	f := try.Get(m.Function(m.module, name))(m.t)
	y, arrived := m.memory(2*blocks), m.memory(1)
	defer m.Free(y)
	defer m.Free(arrived)
	m.must(m.Fill(y, 0, 2*blocks, m.stream))
	m.must(m.Fill(arrived, 0, 1, m.stream))
	m.must(m.Allow(f, 256))
	n := try.Get(m.Resident(f, 64, 256))(m.t)
	if n < 4 {
		m.t.Fatalf("%d blocks of 64 threads at once on a multiprocessor", n)
	}
	l := driver.Launch{Grid: [3]uint32{uint32(blocks), 1, 1}, Threads: 64, Shared: 256, Together: true}
	l.Values[0], l.Values[1] = uint64(y), uint64(arrived)
	if err := m.Launch(f, &l, m.stream); err != nil {
		return nil, err
	}
	if err := m.Synchronize(m.stream); err != nil {
		return nil, err
	}
	got := make([]float32, 2*blocks)
	m.must(m.Download(unsafe.Pointer(&got[0]), y, 8*blocks, m.stream))
	return got, m.Synchronize(m.stream)
}

// Blocks that run at once pass on what they have after barriers of the grid, and each has its own shared memory. A
// barrier that is missing, that waits for too few or for too many, and threads that go ahead of it are found. An
// arrival that may come too early is found where it does.
func TestBlocksAtOnce(t *testing.T) {
	const blocks = 5
	for _, order := range []int{0, 1, 2} {
		for _, c := range []struct {
			kernel, says string
			orders       int // in which it is found, a bit for each
		}{
			{"planted_grid", "", 0},
			{"planted_missing_grid_barrier", "race in device memory", 7},
			{"planted_early_grid_barrier", "race in device memory", 7},
			{"planted_loose_grid_barrier", "race in device memory", 7},
			{"planted_early_arrival", "race in device memory", 1},
			{"planted_endless_grid_barrier", "the blocks wait for each other", 7},
			{"planted_dynamic_beyond", "4 bytes at byte 256 of 256 of dynamic shared memory", 7},
		} {
			m := start(t)
			emulator.Set(t, "order", order, 0)
			got, err := m.together(c.kernel, blocks)
			if c.orders>>order&1 != 0 {
				try.Fails(t, err, c.says, c.kernel)
			} else if c.says == "" {
				m.must(err)
				for i, v := range got[:blocks] {
					if v != float32(4+i) {
						t.Errorf("order %d: block %d has %v, want %d", order, i, v, 4+i)
					}
				}
			}
			emulator.Mend(t)
		}
	}
}

// A driver refuses more blocks at once than there is room for, and all of them where it cannot. A kernel whose blocks
// wait for each other fails where it is started in the usual way.
func TestRefusalsOfBlocksAtOnce(t *testing.T) {
	m := start(t)
	refused := func(blocks int, says string) {
		t.Helper()
		try.Refuses(m.together("planted_grid", blocks))(t, says)
	}
	refused(4*32+1, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")
	emulator.Set(t, "cooperative", 0, 1)
	refused(1, "CUDA_ERROR_NOT_SUPPORTED")
	if info, err := m.Info(0); err != nil || info.Together {
		t.Errorf("the GPU runs blocks at once: %v, %v", info.Together, err)
	}
	f := try.Get(m.Function(m.module, "planted_grid"))(m.t)
	if err := m.Allow(f, 228<<10); err == nil {
		t.Error("more shared memory than a block may have is accepted")
	}
	m.must(m.Allow(f, 255))
	l := driver.Launch{Grid: [3]uint32{1, 1, 1}, Threads: 64, Shared: 256}
	try.Fails(t, m.Launch(f, &l, m.stream), "CUDA_ERROR_INVALID_VALUE")
	m.must(m.Allow(f, 256))
	y, arrived := m.memory(2), m.memory(1)
	m.must(m.Fill(y, 0, 2, m.stream))
	m.must(m.Fill(arrived, 0, 1, m.stream))
	l.Values[0], l.Values[1] = uint64(y), uint64(arrived)
	const says = "waits for other blocks in a launch whose blocks do not all run at once"
	try.Fails(t, m.Launch(f, &l, m.stream), says)
	emulator.Mend(t)
	m.must(m.Free(y))
	m.must(m.Free(arrived))
}

// A product in TF32 takes the upper 19 bits of its operands, whatever the others are. Rounding is to nearest, and where
// two neighbours are as near, to the one of the greater magnitude.
func TestProductInTF32(t *testing.T) {
	m := start(t)
	var x [192]float32
	for i := range x {
		x[i] = float32(math.Sin(float64(i + 1)))
	}
	for i, v := range []float32{1 + 0x1p-11, -1 - 0x1p-11, 1 + 0x1.8p-11, 1 + 0x1.fp-12, 3, 0x1p-140} {
		x[8*i] = v
	}
	x[17], x[8*9+3], x[128+8*5+6] = math.Float32frombits(0x7fffffff), float32(math.Inf(-1)), math.MaxFloat32
	px, py := m.memory(len(x)), m.memory(128)
	defer m.Free(px)
	defer m.Free(py)
	m.must(m.Upload(px, unsafe.Pointer(&x[0]), 4*len(x), m.stream))
	for rounds := range uint32(2) {
		operand := func(v float32) float32 {
			if v != v {
				return v
			}
			return math.Float32frombits((math.Float32bits(v) + 0x1000*rounds) &^ 0x1fff)
		}
		m.must(m.launch("planted_tf32", 1, 32, uint64(py), uint64(px), uint64(rounds)))
		var y [128]float32
		m.must(m.Download(unsafe.Pointer(&y[0]), py, 4*len(y), m.stream))
		m.must(m.Synchronize(m.stream))
		for i, got := range y {
			var want float32
			for k := range 8 {
				want += float32(operand(x[i/8*8+k]) * operand(x[128+8*k+i%8]))
			}
			if got != want && (got == got || want == want) {
				t.Errorf("rounded %d: value %d is %v, want %v", rounds, i, got, want)
			}
		}
	}
}

// New memory is NaN, so that what is read before it is written shows, and so is the shared memory of a block, whatever
// an earlier one left there: planted_none of 32 threads reads what the other 32 would write.
func TestNewMemoryIsNaN(t *testing.T) {
	m := start(t)
	x, y, fresh := m.memory(64), m.memory(64), m.memory(3)
	defer m.Free(x)
	defer m.Free(y)
	defer m.Free(fresh)
	m.must(m.Fill(x, 0, 64, m.stream))
	m.must(m.launch("planted_none", 1, 64, uint64(y), uint64(x)))
	m.must(m.launch("planted_none", 1, 32, uint64(y), uint64(x)))
	var got [67]float32
	m.must(m.Download(unsafe.Pointer(&got[0]), fresh, 12, m.stream))
	m.must(m.Download(unsafe.Pointer(&got[3]), y, 256, m.stream))
	m.must(m.Synchronize(m.stream))
	for i, v := range got {
		if math.IsNaN(float64(v)) != (i < 3+32) {
			t.Errorf("value %d is %v", i, v)
		}
	}
}

// What a driver refuses: a thread without the context, copies beyond an allocation, grids that no GPU takes, a full
// device.
func TestRefusals(t *testing.T) {
	m := start(t)
	p := m.memory(4)
	defer m.Free(p)
	var x [8]float32
	refuse := func(what, says string, err error) {
		t.Helper()
		try.Fails(t, err, says)
	}
	refuse("upload beyond the end", "CUDA_ERROR_INVALID_VALUE", m.Upload(p, unsafe.Pointer(&x[0]), 32, m.stream))
	refuse("no threads", "CUDA_ERROR_INVALID_VALUE", m.launch("planted_two_writers", 1, 0, uint64(p)))
	refuse("1025 threads", "CUDA_ERROR_INVALID_VALUE", m.launch("planted_two_writers", 1, 1025, uint64(p)))
	_, err := m.Function(m.module, "nosuch")
	refuse("unknown kernel", "CUDA_ERROR_NOT_FOUND", err)
	_, err = m.LoadModule([]byte("not PTX"))
	refuse("no PTX", "CUDA_ERROR_INVALID_IMAGE", err)
	emulator.Set(t, "memory", 1000, 4<<30)
	_, err = m.Alloc(2000)
	refuse("full device", "CUDA_ERROR_OUT_OF_MEMORY", err)
	if !driver.OutOfMemory(err) {
		t.Errorf("%v is not out of memory", err)
	}
	foreign := make(chan error)
	go func() {
		runtime.LockOSThread() // its own thread, which ends here
		_, err := m.Alloc(4)
		foreign <- err
	}()
	refuse("another thread", "CUDA_ERROR_INVALID_CONTEXT", <-foreign)
}

// Recorded work runs when the graph is launched, as often as it is.
func TestGraph(t *testing.T) {
	m := start(t)
	p := m.memory(1)
	defer m.Free(p)
	m.must(m.BeginCapture(m.stream))
	before := emulator.Launches(t)
	m.must(m.Fill(p, math.Float32bits(7), 1, m.stream))
	f := try.Get(m.Function(m.module, "planted_two_writers"))(m.t)
	m.must(m.Launch(f, &driver.Launch{Grid: [3]uint32{1, 1, 1}, Threads: 32,
		Values: [driver.MaxParameters]uint64{uint64(p)}}, m.stream))
	g := try.Get(m.EndCapture(m.stream))(m.t)
	x := try.Get(m.Instantiate(g))(m.t)
	read := func() float32 {
		var v float32
		m.must(m.Download(unsafe.Pointer(&v), p, 4, m.stream))
		m.must(m.Synchronize(m.stream))
		return v
	}
	if v := read(); v == v {
		t.Errorf("recording wrote %v", v)
	}
	for range 2 {
		m.must(m.Fill(p, 0, 1, m.stream))
		m.must(m.LaunchGraph(x, m.stream))
		if v := read(); v != 1 {
			t.Errorf("the graph wrote %v, want 1", v)
		}
	}
	m.must(m.DestroyExec(x))
	m.must(m.DestroyGraph(g))
	if n := emulator.Launches(t) - before; n != 1 {
		t.Errorf("%d launches, want the one that was recorded", n)
	}
}

// A stream that does not wait for the event of another works on what memory holds too early or too late, in one of the
// two ways in which streams are out of step; with the events it does not. value and result are in turn written by one
// stream and read by the other.
func TestMissingEventShows(t *testing.T) {
	m := start(t)
	other := try.Get(m.NewStream())(m.t)
	defer m.DestroyStream(other)
	var events [2]driver.Event
	for i := range events {
		events[i] = try.Get(m.NewEvent())(t)
		defer m.DestroyEvent(events[i])
	}
	written, read := events[0], events[1]
	value, result := m.memory(1), m.memory(2)
	defer m.Free(value)
	defer m.Free(result)
	source := [2]float32{1, 2}
	for _, c := range []struct {
		missing   string
		deferred  int
		first, at float32
	}{{"", 0, 1, 2}, {"", 1, 1, 2}, {"", 2, 1, 2}, {"written", 1, 0, 0}, {"read", 2, 2, 2}} {
		emulator.Set(t, "defer", c.deferred, 0)
		m.must(m.Fill(value, 0, 1, m.stream))
		m.must(m.Synchronize(m.stream))
		for i := range source {
			if i > 0 && c.missing != "read" {
				m.must(m.Follow(other, read))
			}
			m.must(m.Upload(value, unsafe.Pointer(&source[i]), 4, other))
			m.must(m.Record(written, other))
			if c.missing != "written" {
				m.must(m.Follow(m.stream, written))
			}
			m.must(m.Copy(result+driver.Ptr(4*i), value, 4, m.stream))
			m.must(m.Record(read, m.stream))
		}
		var got [2]float32
		m.must(m.Download(unsafe.Pointer(&got[0]), result, 8, m.stream))
		m.must(m.Synchronize(m.stream))
		if got != [2]float32{c.first, c.at} {
			t.Errorf("defer %d, without the event %q: read %v, want %v and %v", c.deferred, c.missing, got, c.first,
				c.at)
		}
		m.must(m.Synchronize(other))
	}
}

// A stream that records cannot wait for an event of one that does not.
func TestForeignEventSpoilsARecording(t *testing.T) {
	m := start(t)
	e := try.Get(m.NewEvent())(m.t)
	defer m.DestroyEvent(e)
	m.must(m.Record(e, m.stream))
	m.must(m.BeginCapture(m.stream))
	try.Fails(t, m.Follow(m.stream, e), "CAPTURE_ISOLATION")
	try.Refuses(m.EndCapture(m.stream))(t, "CAPTURE_INVALIDATED")
}
