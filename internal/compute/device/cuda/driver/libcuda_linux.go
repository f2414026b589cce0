//go:build (amd64 || arm64) && !nodl

package driver

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libcuda is the driver by dlopen. Results are written to memory of its own, so that a call allocates nothing.
type libcuda struct {
	path     string
	compiler error // why the compiler beside it was not opened
	fn       symbols
	args     [12]uintptr // of the call, so that it allocates nothing
	out      *outputs
	ptrs     *[MaxParameters]unsafe.Pointer
	vals     *[MaxParameters]uint64
}

type outputs struct {
	n      int32
	f      float32
	handle uintptr
	a, b   uint64
	text   [256]byte

	// What the compiler of PTX says, in options of cuModuleLoadDataEx: values are as large as addresses.
	options [2]uint32
	values  [2]uintptr
	log     [4096]byte
}

// symbols are the entries of libcuda. The tag names them as libcuda does: an entry whose meaning changed has a number
// behind it.
type symbols struct {
	init, driverGetVersion                       entry
	deviceGetCount, deviceGet, deviceGetName     entry
	deviceGetAttribute, deviceTotalMem           entry
	retain, release, setCurrent, memGetInfo      entry
	memAlloc, memFree, memHostAlloc, memFreeHost entry
	upload, download, copy, memset               entry
	loadModule, unloadModule, getFunction        entry
	launch, launchTogether                       entry
	functionAttribute, occupancy                 entry
	streamCreate, streamDestroy, streamSync      entry
	eventCreate, eventDestroy, eventRecord       entry
	eventSync, eventElapsed, streamWait          entry
	beginCapture, endCapture, instantiate        entry
	graphLaunch, graphDestroy, execDestroy       entry
	errorName, errorString                       entry
	deviceUUID, deviceBus                        entry
}

type entry struct {
	name string
	addr uintptr
}

// find finds the functions of a library, and names one that it has not.
func find(lib uintptr, functions map[string]*entry) (missing string, err error) {
	for name, e := range functions {
		e.name = name
		if e.addr, err = purego.Dlsym(lib, name); err != nil {
			return name, err
		}
	}
	return "", nil
}

func (s *symbols) list() map[string]*entry {
	return map[string]*entry{
		"cuInit": &s.init, "cuDriverGetVersion": &s.driverGetVersion, "cuDeviceGetCount": &s.deviceGetCount,
		"cuDeviceGet":     &s.deviceGet,
		"cuDeviceGetName": &s.deviceGetName, "cuDeviceGetAttribute": &s.deviceGetAttribute,
		"cuDeviceTotalMem_v2":      &s.deviceTotalMem,
		"cuDevicePrimaryCtxRetain": &s.retain, "cuDevicePrimaryCtxRelease_v2": &s.release,
		"cuCtxSetCurrent": &s.setCurrent,
		"cuMemGetInfo_v2": &s.memGetInfo, "cuMemAlloc_v2": &s.memAlloc, "cuMemFree_v2": &s.memFree,
		"cuMemHostAlloc": &s.memHostAlloc,
		"cuMemFreeHost":  &s.memFreeHost, "cuMemcpyHtoDAsync_v2": &s.upload, "cuMemcpyDtoHAsync_v2": &s.download,
		"cuMemcpyDtoDAsync_v2": &s.copy,
		"cuMemsetD32Async":     &s.memset, "cuModuleLoadDataEx": &s.loadModule, "cuModuleUnload": &s.unloadModule,
		"cuModuleGetFunction": &s.getFunction,
		"cuLaunchKernel":      &s.launch, "cuLaunchCooperativeKernel": &s.launchTogether,
		"cuFuncSetAttribute": &s.functionAttribute, "cuOccupancyMaxActiveBlocksPerMultiprocessor": &s.occupancy,
		"cuStreamCreate": &s.streamCreate, "cuStreamDestroy_v2": &s.streamDestroy,
		"cuStreamSynchronize": &s.streamSync,
		"cuEventCreate":       &s.eventCreate, "cuEventDestroy_v2": &s.eventDestroy, "cuEventRecord": &s.eventRecord,
		"cuEventSynchronize": &s.eventSync,
		"cuEventElapsedTime": &s.eventElapsed, "cuStreamWaitEvent": &s.streamWait,
		"cuStreamBeginCapture_v2": &s.beginCapture, "cuStreamEndCapture": &s.endCapture,
		"cuGraphInstantiateWithFlags": &s.instantiate, "cuGraphLaunch": &s.graphLaunch,
		"cuGraphDestroy":     &s.graphDestroy,
		"cuGraphExecDestroy": &s.execDestroy, "cuGetErrorName": &s.errorName, "cuGetErrorString": &s.errorString,
		"cuDeviceGetUuid_v2": &s.deviceUUID, "cuDeviceGetPCIBusId": &s.deviceBus,
	}
}

// load loads libcuda from a path and initialises it.
func load(path string) (*libcuda, error) {
	runtime.LockOSThread() // the loader keeps what went wrong for each thread
	defer runtime.UnlockOSThread()
	problem := openCompilers(path)
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &unloadable{fmt.Errorf("load the CUDA driver: %w", err)}
	}
	d := &libcuda{path: path, compiler: problem, out: new(outputs), ptrs: new([MaxParameters]unsafe.Pointer),
		vals: new([MaxParameters]uint64)}
	if name, err := find(lib, d.fn.list()); err != nil {
		return nil, &unloadable{fmt.Errorf("%s has no %s: the driver is older than CUDA 11.4; install a newer one: %w",
			path, name, err)}
	}
	for i := range d.ptrs {
		d.ptrs[i] = unsafe.Pointer(&d.vals[i])
	}
	if err := cacheKernels(os.Getenv, os.Setenv); err != nil {
		return nil, err
	}
	if err := d.call(&d.fn.init, 0); err != nil {
		if e := err.(*Error); e.Code == codeNoDevice {
			return nil, fmt.Errorf("the CUDA driver %s finds no GPU, or it is older than the GPU: %w", path, err)
		}
		return nil, fmt.Errorf("start the CUDA driver %s: %w", path, err)
	}
	return d, nil
}

func (d *libcuda) call(e *entry, args ...uintptr) error {
	n := copy(d.args[:], args)
	r, _, _ := purego.SyscallN(e.addr, d.args[:n]...)
	if int32(r) == 0 {
		return nil
	}
	return d.failure(e.name, int32(r))
}

func (d *libcuda) failure(call string, code int32) error {
	text := func(e *entry) string {
		if r, _, _ := purego.SyscallN(e.addr, uintptr(code), uintptr(unsafe.Pointer(&d.out.handle))); int32(r) != 0 ||
			d.out.handle == 0 {
			return ""
		}
		return cString(d.out.handle)
	}
	e := &Error{Call: call, Code: int(code), Name: text(&d.fn.errorName), Text: text(&d.fn.errorString)}
	if code == codeNoCompiler {
		e.Remedy = "libcuda does not find its compiler " + compilers[0] + ": " +
			missingCompiler(d.path, d.compiler, "/", os.Getenv)
	}
	return e
}

// cString copies a string of the library.
func cString(at uintptr) string {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // memory of the library, not of Go
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

func (d *libcuda) Path() string { return d.path }

func (d *libcuda) Version() (int, error) {
	err := d.call(&d.fn.driverGetVersion, uintptr(unsafe.Pointer(&d.out.n)))
	return int(d.out.n), err
}

func (d *libcuda) Devices() (int, error) {
	err := d.call(&d.fn.deviceGetCount, uintptr(unsafe.Pointer(&d.out.n)))
	return int(d.out.n), err
}

// device returns the handle of a device.
func (d *libcuda) device(i int) (uintptr, error) {
	err := d.call(&d.fn.deviceGet, uintptr(unsafe.Pointer(&d.out.n)), uintptr(i))
	return uintptr(d.out.n), err
}

// The attributes of cuDeviceGetAttribute.
const (
	attributeMultiprocessors = 16
	attributeComputeMode     = 20
	attributeMajor           = 75
	attributeMinor           = 76
	attributeCooperative     = 95
	attributeSharedOptin     = 97
)

func (d *libcuda) Info(i int) (Info, error) {
	dev, err := d.device(i)
	if err != nil {
		return Info{}, err
	}
	var info Info
	if err := d.call(&d.fn.deviceGetName, uintptr(unsafe.Pointer(&d.out.text[0])), uintptr(len(d.out.text)),
		dev); err != nil {
		return Info{}, err
	}
	info.Name = cString(uintptr(unsafe.Pointer(&d.out.text[0])))
	var cooperative int
	for attribute, to := range map[uintptr]*int{attributeMultiprocessors: &info.Multiprocessors,
		attributeMajor: &info.Major, attributeComputeMode: (*int)(&info.Mode), attributeCooperative: &cooperative,
		attributeMinor: &info.Minor, attributeSharedOptin: &info.MaxSharedBytesPerBlock} {
		if err := d.call(&d.fn.deviceGetAttribute, uintptr(unsafe.Pointer(&d.out.n)), attribute, dev); err != nil {
			return Info{}, err
		}
		*to = int(d.out.n)
	}
	info.Together = cooperative != 0
	if err = d.call(&d.fn.deviceTotalMem, uintptr(unsafe.Pointer(&d.out.a)), dev); err != nil {
		return Info{}, err
	}
	info.Memory = d.out.a
	info.UUID, info.Bus, err = d.identity(dev)
	return info, err
}

// identity is what tells a GPU from the others of the machine: its number in NVIDIA's tools is another one than that of
// libcuda.
func (d *libcuda) identity(dev uintptr) (uuid, bus string, err error) {
	if err := d.call(&d.fn.deviceUUID, uintptr(unsafe.Pointer(&d.out.text[0])), dev); err != nil {
		return "", "", err
	}
	u := d.out.text[:16]
	uuid = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	if err := d.call(&d.fn.deviceBus, uintptr(unsafe.Pointer(&d.out.text[0])), uintptr(len(d.out.text)),
		dev); err != nil {
		return "", "", err
	}
	return uuid, cString(uintptr(unsafe.Pointer(&d.out.text[0]))), nil
}

func (d *libcuda) Retain(i int) (Context, error) {
	dev, err := d.device(i)
	if err != nil {
		return 0, err
	}
	h, err := d.handle(&d.fn.retain, dev)
	return Context(h), err
}

func (d *libcuda) Release(i int) error {
	dev, err := d.device(i)
	if err != nil {
		return err
	}
	return d.call(&d.fn.release, dev)
}

// handle calls an entry whose first argument receives a handle.
func (d *libcuda) handle(e *entry, args ...uintptr) (uintptr, error) {
	if err := d.call(e, append([]uintptr{uintptr(unsafe.Pointer(&d.out.handle))}, args...)...); err != nil {
		return 0, err
	}
	return d.out.handle, nil
}

func (d *libcuda) SetCurrent(c Context) error { return d.call(&d.fn.setCurrent, uintptr(c)) }

func (d *libcuda) Memory() (free, total uint64, err error) {
	err = d.call(&d.fn.memGetInfo, uintptr(unsafe.Pointer(&d.out.a)), uintptr(unsafe.Pointer(&d.out.b)))
	return d.out.a, d.out.b, err
}

func (d *libcuda) Alloc(bytes int) (Ptr, error) {
	h, err := d.handle(&d.fn.memAlloc, uintptr(bytes))
	return Ptr(h), err
}

func (d *libcuda) Free(p Ptr) error { return d.call(&d.fn.memFree, uintptr(p)) }

func (d *libcuda) AllocHost(bytes int) (unsafe.Pointer, error) {
	if _, err := d.handle(&d.fn.memHostAlloc, uintptr(bytes), 0); err != nil {
		return nil, err
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&d.out.handle)), nil
}

func (d *libcuda) FreeHost(p unsafe.Pointer) error { return d.call(&d.fn.memFreeHost, uintptr(p)) }

func (d *libcuda) Upload(dst Ptr, src unsafe.Pointer, bytes int, s Stream) error {
	return d.call(&d.fn.upload, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (d *libcuda) Download(dst unsafe.Pointer, src Ptr, bytes int, s Stream) error {
	return d.call(&d.fn.download, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (d *libcuda) Copy(dst, src Ptr, bytes int, s Stream) error {
	return d.call(&d.fn.copy, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (d *libcuda) Fill(dst Ptr, word uint32, words int, s Stream) error {
	return d.call(&d.fn.memset, uintptr(dst), uintptr(word), uintptr(words), uintptr(s))
}

// LoadModule's error holds what the driver's compiler says of the PTX.
func (d *libcuda) LoadModule(ptx []byte) (Module, error) {
	const logBuffer, logBytes = 5, 6 // CU_JIT_ERROR_LOG_BUFFER and _SIZE_BYTES
	image, o := append(ptx[:len(ptx):len(ptx)], 0), d.out
	o.options, o.log[0] = [2]uint32{logBuffer, logBytes}, 0
	o.values = [2]uintptr{uintptr(unsafe.Pointer(&o.log)), uintptr(len(o.log) - 1)}
	h, err := d.handle(&d.fn.loadModule, uintptr(unsafe.Pointer(&image[0])), uintptr(len(o.options)),
		uintptr(unsafe.Pointer(&o.options)), uintptr(unsafe.Pointer(&o.values)))
	runtime.KeepAlive(image)
	if log, _, _ := bytes.Cut(o.log[:], []byte{0}); err != nil && len(log) > 0 {
		err = fmt.Errorf("%w: the driver's compiler says: %s", err, bytes.TrimSpace(log))
	}
	return Module(h), err
}

func (d *libcuda) UnloadModule(m Module) error { return d.call(&d.fn.unloadModule, uintptr(m)) }

// Function gives the driver the name in memory of its own: a slice of this function would lie on the stack, which moves
// when it grows.
func (d *libcuda) Function(m Module, name string) (Function, error) {
	if len(name) >= len(d.out.text) {
		return 0, fmt.Errorf("kernel name of %d bytes, expected less than %d", len(name), len(d.out.text))
	}
	d.out.text[copy(d.out.text[:], name)] = 0
	h, err := d.handle(&d.fn.getFunction, uintptr(m), uintptr(unsafe.Pointer(&d.out.text[0])))
	return Function(h), err
}

func (d *libcuda) Launch(f Function, l *Launch, s Stream) error {
	*d.vals = l.Values
	if l.Together {
		return d.call(&d.fn.launchTogether, uintptr(f), uintptr(l.Grid[0]), uintptr(l.Grid[1]), uintptr(l.Grid[2]),
			uintptr(l.Threads), 1, 1, uintptr(l.Shared), uintptr(s), uintptr(unsafe.Pointer(&d.ptrs[0])))
	}
	return d.call(&d.fn.launch, uintptr(f), uintptr(l.Grid[0]), uintptr(l.Grid[1]), uintptr(l.Grid[2]),
		uintptr(l.Threads), 1, 1, uintptr(l.Shared),
		uintptr(s), uintptr(unsafe.Pointer(&d.ptrs[0])), 0)
}

const functionDynamicShared = 8 // of cuFuncSetAttribute

func (d *libcuda) Allow(f Function, shared int) error {
	return d.call(&d.fn.functionAttribute, uintptr(f), functionDynamicShared, uintptr(shared))
}

func (d *libcuda) Resident(f Function, threads, shared int) (int, error) {
	err := d.call(&d.fn.occupancy, uintptr(unsafe.Pointer(&d.out.n)), uintptr(f), uintptr(threads), uintptr(shared))
	return int(d.out.n), err
}

const streamNonBlocking = 1

func (d *libcuda) NewStream() (Stream, error) {
	h, err := d.handle(&d.fn.streamCreate, streamNonBlocking)
	return Stream(h), err
}

func (d *libcuda) DestroyStream(s Stream) error { return d.call(&d.fn.streamDestroy, uintptr(s)) }
func (d *libcuda) Synchronize(s Stream) error   { return d.call(&d.fn.streamSync, uintptr(s)) }

func (d *libcuda) NewEvent() (Event, error) {
	h, err := d.handle(&d.fn.eventCreate, 0)
	return Event(h), err
}

func (d *libcuda) DestroyEvent(e Event) error { return d.call(&d.fn.eventDestroy, uintptr(e)) }
func (d *libcuda) Record(e Event, s Stream) error {
	return d.call(&d.fn.eventRecord, uintptr(e), uintptr(s))
}
func (d *libcuda) Follow(s Stream, e Event) error {
	return d.call(&d.fn.streamWait, uintptr(s), uintptr(e), 0)
}
func (d *libcuda) Wait(e Event) error { return d.call(&d.fn.eventSync, uintptr(e)) }

func (d *libcuda) Elapsed(from, to Event) (float32, error) {
	if err := d.call(&d.fn.eventElapsed, uintptr(unsafe.Pointer(&d.out.f)), uintptr(from), uintptr(to)); err != nil {
		return float32(math.NaN()), err
	}
	return d.out.f, nil
}

const captureThreadLocal = 1

func (d *libcuda) BeginCapture(s Stream) error {
	return d.call(&d.fn.beginCapture, uintptr(s), captureThreadLocal)
}

func (d *libcuda) EndCapture(s Stream) (Graph, error) {
	err := d.call(&d.fn.endCapture, uintptr(s), uintptr(unsafe.Pointer(&d.out.handle)))
	return Graph(d.out.handle), err
}

func (d *libcuda) Instantiate(g Graph) (Exec, error) {
	h, err := d.handle(&d.fn.instantiate, uintptr(g), 0)
	return Exec(h), err
}

func (d *libcuda) LaunchGraph(x Exec, s Stream) error {
	return d.call(&d.fn.graphLaunch, uintptr(x), uintptr(s))
}
func (d *libcuda) DestroyGraph(g Graph) error { return d.call(&d.fn.graphDestroy, uintptr(g)) }
func (d *libcuda) DestroyExec(x Exec) error   { return d.call(&d.fn.execDestroy, uintptr(x)) }
