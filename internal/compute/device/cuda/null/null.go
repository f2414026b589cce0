// Package null is a CUDA driver and a cuBLAS that compute nothing: every call that a GPU would take succeeds at once,
// and is counted. With it the program runs at full size in seconds on any machine, which shows how many kernels a step
// starts, on which grids, with how much memory, and what the host does for it. Every number that a step computes is
// zero.
//
// A size that a GPU refuses (a grid, memory beyond what there is, a leading dimension) is refused here too, as is what
// a recording forbids.
package null

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
)

// Driver is the driver of one GPU with the properties of GPU.
type Driver struct {
	GPU driver.Info
	// Recordings and Replays count graphs, Modules those that were loaded. Peak is the greatest number of bytes of
	// device memory in use.
	Recordings, Replays, Modules, Peak int
	// Uploaded is the number of bytes from the host.
	Uploaded int
	// Outside counts what is no part of a recording: kernels by name, "product", "copy", "fill", "upload", "download",
	// "record" of an event and "replay".
	Outside map[string]int
	// the nodes of the recording with the most, by kernel, "product", "copy" or "fill"
	Largest map[string]int

	used    int
	next    driver.Ptr
	memory  map[driver.Ptr]int
	pinned  map[unsafe.Pointer][]byte
	handles uintptr
	modules map[driver.Module][]byte
	names   map[driver.Function]string
	allowed map[driver.Function]int // bytes of dynamic shared memory
	capture map[string]int          // nil outside of a recording
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.WithBLAS = (*Driver)(nil)
)

// New returns a driver of the GPU.
func New(gpu driver.Info) *Driver {
	return &Driver{GPU: gpu, next: 0x700000000000, memory: map[driver.Ptr]int{}, pinned: map[unsafe.Pointer][]byte{},
		modules: map[driver.Module][]byte{}, names: map[driver.Function]string{}, allowed: map[driver.Function]int{},
		Outside: map[string]int{}}
}

var (
	errValue     = errors.New("null driver: a value that a GPU refuses")
	errRecording = errors.New("null driver: not allowed while a recording is made")
	errFull      = &driver.Error{Call: "cuMemAlloc_v2", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY",
		Text: "of the null driver"}
)

func (d *Driver) handle() uintptr { d.handles++; return d.handles }

// do counts a node of the recording that is being made, or what is in none.
func (d *Driver) do(node string) error {
	if d.capture != nil {
		d.capture[node]++
	} else {
		d.Outside[node]++
	}
	return nil
}

// outside is an error while a recording is made.
func (d *Driver) outside() error {
	if d.capture != nil {
		return errRecording
	}
	return nil
}

func (d *Driver) Path() string                       { return "null" }
func (d *Driver) Version() (int, error)              { return 13000, nil }
func (d *Driver) Devices() (int, error)              { return 1, nil }
func (d *Driver) Info(int) (driver.Info, error)      { return d.GPU, nil }
func (d *Driver) Retain(int) (driver.Context, error) { return 1, nil }
func (d *Driver) Release(int) error                  { return nil }
func (d *Driver) SetCurrent(driver.Context) error    { return nil }

func (d *Driver) Memory() (free, total uint64, err error) {
	return d.GPU.Memory - min(d.GPU.Memory, uint64(d.used)), d.GPU.Memory, nil
}

func (d *Driver) Alloc(n int) (driver.Ptr, error) {
	if n <= 0 {
		return 0, errValue
	}
	if uint64(d.used)+uint64(n) > d.GPU.Memory {
		return 0, errFull
	}
	p := d.next
	d.memory[p] = n
	d.next += driver.Ptr((n + 511) / 256 * 256)
	d.used += n
	d.Peak = max(d.Peak, d.used)
	return p, d.outside()
}

func (d *Driver) Free(p driver.Ptr) error {
	n, ok := d.memory[p]
	if !ok {
		return errValue
	}
	delete(d.memory, p)
	d.used -= n
	return d.outside()
}

func (d *Driver) AllocHost(n int) (unsafe.Pointer, error) {
	b := make([]byte, max(n, 1))
	p := unsafe.Pointer(&b[0])
	d.pinned[p] = b
	return p, nil
}

func (d *Driver) FreeHost(p unsafe.Pointer) error { delete(d.pinned, p); return nil }

func (d *Driver) Upload(_ driver.Ptr, _ unsafe.Pointer, n int, _ driver.Stream) error {
	d.Uploaded += n
	return d.do("upload")
}

func (d *Driver) Download(dst unsafe.Pointer, _ driver.Ptr, n int, _ driver.Stream) error {
	clear(unsafe.Slice((*byte)(dst), n))
	return d.do("download")
}

func (d *Driver) Copy(_, _ driver.Ptr, _ int, _ driver.Stream) error        { return d.do("copy") }
func (d *Driver) Fill(_ driver.Ptr, _ uint32, _ int, _ driver.Stream) error { return d.do("fill") }

func (d *Driver) LoadModule(ptx []byte) (driver.Module, error) {
	if !bytes.Contains(ptx, []byte(".version")) {
		return 0, errValue
	}
	d.Modules++
	m := driver.Module(d.handle())
	d.modules[m] = ptx
	return m, d.outside() // the driver synchronises, which a recording forbids
}

func (d *Driver) UnloadModule(driver.Module) error { return nil }

func (d *Driver) Function(m driver.Module, name string) (driver.Function, error) {
	if !bytes.Contains(d.modules[m], []byte(".visible .entry "+name+"(")) {
		return 0, fmt.Errorf("null driver: no kernel %s", name)
	}
	f := driver.Function(d.handle())
	d.names[f] = name
	return f, nil
}

// plainShared is the shared memory of a block without a call that allows it more.
const plainShared = 48 << 10

func (d *Driver) Launch(f driver.Function, l *driver.Launch, _ driver.Stream) error {
	x, y, z := l.Grid[0], l.Grid[1], l.Grid[2]
	if l.Threads == 0 || l.Threads > 1024 || x == 0 || y == 0 || z == 0 || x > 0x7fffffff || y > 65535 || z > 65535 {
		return fmt.Errorf("kernel %s on a grid of %v blocks of %d threads: %w", d.names[f], l.Grid, l.Threads, errValue)
	}
	if int(l.Shared) > max(d.allowed[f], plainShared) || l.Together &&
		(!d.GPU.Together || uint64(x)*uint64(y)*uint64(z) > uint64(d.GPU.Multiprocessors)) {
		return fmt.Errorf("kernel %s on a grid of %v blocks with %d bytes of shared memory, all at once %v: %w",
			d.names[f], l.Grid, l.Shared, l.Together, errValue)
	}
	return d.do(d.names[f])
}

func (d *Driver) Allow(f driver.Function, shared int) error {
	if shared > d.GPU.MaxSharedBytesPerBlock {
		return errValue
	}
	d.allowed[f] = shared
	return nil
}

// Resident is one block, where the GPU has the shared memory for it.
func (d *Driver) Resident(_ driver.Function, threads, shared int) (int, error) {
	if shared > d.GPU.MaxSharedBytesPerBlock {
		return 0, nil
	}
	return 1, nil
}

func (d *Driver) NewStream() (driver.Stream, error)          { return driver.Stream(d.handle()), nil }
func (d *Driver) DestroyStream(driver.Stream) error          { return nil }
func (d *Driver) Synchronize(driver.Stream) error            { return d.outside() }
func (d *Driver) NewEvent() (driver.Event, error)            { return driver.Event(d.handle()), nil }
func (d *Driver) DestroyEvent(driver.Event) error            { return nil }
func (d *Driver) Record(driver.Event, driver.Stream) error   { return d.do("record") }
func (d *Driver) Follow(driver.Stream, driver.Event) error   { return nil }
func (d *Driver) Wait(driver.Event) error                    { return d.outside() }
func (d *Driver) Elapsed(_, _ driver.Event) (float32, error) { return 0, nil }

func (d *Driver) BeginCapture(driver.Stream) error {
	if d.capture != nil {
		return errRecording
	}
	d.capture = map[string]int{}
	return nil
}

func (d *Driver) EndCapture(driver.Stream) (driver.Graph, error) {
	if d.capture == nil {
		return 0, errValue
	}
	if total(d.capture) > total(d.Largest) {
		d.Largest = maps.Clone(d.capture)
	}
	d.capture = nil
	d.Recordings++
	return driver.Graph(d.handle()), nil
}

func total(nodes map[string]int) (n int) {
	for _, k := range nodes {
		n += k
	}
	return n
}

// Nodes is the number of nodes of the largest recording.
func (d *Driver) Nodes() int { return total(d.Largest) }

func (d *Driver) Instantiate(driver.Graph) (driver.Exec, error) { return driver.Exec(d.handle()), nil }
func (d *Driver) LaunchGraph(driver.Exec, driver.Stream) error  { d.Replays++; return d.do("replay") }
func (d *Driver) DestroyGraph(driver.Graph) error               { return nil }
func (d *Driver) DestroyExec(driver.Exec) error                 { return nil }

// OpenBLAS implements driver.WithBLAS.
func (d *Driver) OpenBLAS(driver.Stream) (driver.BLAS, error) { return blas{d}, nil }

type blas struct{ driver *Driver }

func (b blas) Gemm(g *driver.Gemm) error {
	if g.M < 0 || g.N < 0 || g.K < 0 || g.Count < 1 || g.LDC < g.N || g.LDA < pick(g.TransA, g.M, g.K) ||
		g.LDB < pick(g.TransB, g.K, g.N) {
		return fmt.Errorf("product %+v: %w", *g, errValue)
	}
	return b.driver.do("product")
}

// GemmBias implements driver.WithBias.
func (b blas) GemmBias(g *driver.Gemm) error { return b.Gemm(g) }

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}

func (b blas) Workspace(driver.Ptr, int) error { return nil }
func (b blas) Version() int                    { return 130000 }
func (b blas) Path() string                    { return "null" }
func (b blas) Close() error                    { return nil }
