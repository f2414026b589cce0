//go:build (amd64 || arm64) && !nodl

package driver

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libcuda is the driver by dlopen. It holds the memory for arguments and results, so a call allocates nothing.
type libcuda struct {
	path     string
	compiler error // why the compiler beside it was not opened
	fn       symbols
	args     [12]uintptr // of a call
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

	// The log of the PTX compiler, in options of cuModuleLoadDataEx: values are as large as addresses.
	options [2]uint32
	values  [2]uintptr
	log     [4096]byte
}

// symbols are the entries of libcuda under their own names: a number at the end marks a changed meaning.
type symbols struct {
	cuInit, cuDriverGetVersion, cuDeviceGetCount, cuDeviceGet, cuDeviceGetName, cuDeviceGetAttribute,
	cuDeviceTotalMem_v2, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease_v2, cuCtxSetCurrent,
	cuMemGetInfo_v2, cuMemAlloc_v2, cuMemFree_v2, cuMemHostAlloc, cuMemFreeHost, cuMemcpyHtoDAsync_v2,
	cuMemcpyDtoHAsync_v2, cuMemcpyDtoDAsync_v2, cuMemsetD32Async, cuModuleLoadDataEx, cuModuleUnload,
	cuModuleGetFunction, cuLaunchKernel, cuLaunchCooperativeKernel, cuFuncSetAttribute,
	cuOccupancyMaxActiveBlocksPerMultiprocessor, cuStreamCreate, cuStreamDestroy_v2, cuStreamSynchronize,
	cuEventCreate, cuEventDestroy_v2, cuEventRecord, cuEventSynchronize, cuEventElapsedTime, cuStreamWaitEvent,
	cuStreamBeginCapture_v2, cuStreamEndCapture, cuGraphInstantiateWithFlags, cuGraphLaunch, cuGraphDestroy,
	cuGraphExecDestroy, cuGetErrorName, cuGetErrorString, cuDeviceGetUuid_v2, cuDeviceGetPCIBusId entry
}

type entry struct {
	name string
	addr uintptr
}

// find finds the functions of a library; functions is a struct of entries with the names of the functions. It returns
// the name of one that the library lacks.
func find(lib uintptr, functions any) (missing string, err error) {
	all := reflect.ValueOf(functions).Elem()
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		e := (*entry)(all.Field(i).Addr().UnsafePointer())
		if e.name = name; err != nil {
			continue
		}
		if e.addr, err = purego.Dlsym(lib, name); err != nil {
			missing = name
		}
	}
	return missing, err
}

// load loads libcuda from a path and initialises it.
func load(path string) (*libcuda, error) {
	runtime.LockOSThread() // the loader keeps its error message for each thread
	defer runtime.UnlockOSThread()
	problem := openCompilers(path)
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &unloadable{fmt.Errorf("load the CUDA driver: %w", err)}
	}
	d := &libcuda{path: path, compiler: problem, out: new(outputs), ptrs: new([MaxParameters]unsafe.Pointer),
		vals: new([MaxParameters]uint64)}
	if name, err := find(lib, &d.fn); err != nil {
		return nil, &unloadable{fmt.Errorf("%s has no %s: the driver is older than CUDA 11.4; install a newer one: %w",
			path, name, err)}
	}
	for i := range d.ptrs {
		d.ptrs[i] = unsafe.Pointer(&d.vals[i])
	}
	if err := cacheKernels(os.Getenv, os.Setenv); err != nil {
		return nil, err
	}
	if err := d.call(&d.fn.cuInit, 0); err != nil {
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
	e := &Error{Call: call, Code: int(code), Name: text(&d.fn.cuGetErrorName), Text: text(&d.fn.cuGetErrorString)}
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

// number calls an entry whose first argument receives an int32.
func number(d *libcuda, e *entry, args ...uintptr) (int, error) {
	err := d.call(e, append([]uintptr{uintptr(unsafe.Pointer(&d.out.n))}, args...)...)
	return int(d.out.n), err
}

// text calls an entry that writes a text about a device.
func text(d *libcuda, e *entry, dev uintptr) (string, error) {
	at := uintptr(unsafe.Pointer(&d.out.text[0]))
	if err := d.call(e, at, uintptr(len(d.out.text)), dev); err != nil {
		return "", err
	}
	return cString(at), nil
}

func (d *libcuda) Version() (int, error) { return number(d, &d.fn.cuDriverGetVersion) }

func (d *libcuda) Devices() (int, error) { return number(d, &d.fn.cuDeviceGetCount) }

// device returns the handle of a device.
func (d *libcuda) device(i int) (uintptr, error) {
	n, err := number(d, &d.fn.cuDeviceGet, uintptr(i))
	return uintptr(n), err
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

func (d *libcuda) Info(i int) (info Info, err error) {
	dev, err := d.device(i)
	if err != nil {
		return info, err
	}
	if info.Name, err = text(d, &d.fn.cuDeviceGetName, dev); err != nil {
		return info, err
	}
	var cooperative int
	for attribute, to := range map[uintptr]*int{attributeMultiprocessors: &info.Multiprocessors,
		attributeMajor: &info.Major, attributeComputeMode: (*int)(&info.Mode), attributeCooperative: &cooperative,
		attributeMinor: &info.Minor, attributeSharedOptin: &info.MaxSharedBytesPerBlock} {
		if *to, err = number(d, &d.fn.cuDeviceGetAttribute, attribute, dev); err != nil {
			return info, err
		}
	}
	info.Together = cooperative != 0
	if err = d.call(&d.fn.cuDeviceTotalMem_v2, uintptr(unsafe.Pointer(&d.out.a)), dev); err != nil {
		return info, err
	}
	info.Memory = d.out.a
	info.UUID, info.Bus, err = d.identity(dev)
	return info, err
}

// identity identifies a GPU of the machine: NVIDIA's tools number GPUs in another order than libcuda.
func (d *libcuda) identity(dev uintptr) (uuid, bus string, err error) {
	if err := d.call(&d.fn.cuDeviceGetUuid_v2, uintptr(unsafe.Pointer(&d.out.text[0])), dev); err != nil {
		return "", "", err
	}
	u := d.out.text[:16]
	uuid = fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	bus, err = text(d, &d.fn.cuDeviceGetPCIBusId, dev)
	return uuid, bus, err
}

func (d *libcuda) Retain(i int) (Context, error) {
	dev, err := d.device(i)
	if err != nil {
		return 0, err
	}
	return made[Context](d, &d.fn.cuDevicePrimaryCtxRetain, dev)
}

func (d *libcuda) Release(i int) error {
	dev, err := d.device(i)
	if err != nil {
		return err
	}
	return d.call(&d.fn.cuDevicePrimaryCtxRelease_v2, dev)
}

// made calls an entry whose first argument receives a handle or an address.
func made[T ~uintptr | ~uint64](d *libcuda, e *entry, args ...uintptr) (T, error) {
	if err := d.call(e, append([]uintptr{uintptr(unsafe.Pointer(&d.out.handle))}, args...)...); err != nil {
		return 0, err
	}
	return T(d.out.handle), nil
}

func (d *libcuda) SetCurrent(c Context) error { return d.call(&d.fn.cuCtxSetCurrent, uintptr(c)) }

func (d *libcuda) Memory() (free, total uint64, err error) {
	err = d.call(&d.fn.cuMemGetInfo_v2, uintptr(unsafe.Pointer(&d.out.a)), uintptr(unsafe.Pointer(&d.out.b)))
	return d.out.a, d.out.b, err
}

func (d *libcuda) Alloc(bytes int) (Ptr, error) {
	return made[Ptr](d, &d.fn.cuMemAlloc_v2, uintptr(bytes))
}

func (d *libcuda) Free(p Ptr) error { return d.call(&d.fn.cuMemFree_v2, uintptr(p)) }

func (d *libcuda) AllocHost(bytes int) (unsafe.Pointer, error) {
	if _, err := made[Ptr](d, &d.fn.cuMemHostAlloc, uintptr(bytes), 0); err != nil {
		return nil, err
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&d.out.handle)), nil
}

func (d *libcuda) FreeHost(p unsafe.Pointer) error { return d.call(&d.fn.cuMemFreeHost, uintptr(p)) }

func (d *libcuda) Upload(dst Ptr, src unsafe.Pointer, bytes int, s Stream) error {
	return d.call(&d.fn.cuMemcpyHtoDAsync_v2, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (d *libcuda) Download(dst unsafe.Pointer, src Ptr, bytes int, s Stream) error {
	return d.call(&d.fn.cuMemcpyDtoHAsync_v2, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (d *libcuda) Copy(dst, src Ptr, bytes int, s Stream) error {
	return d.call(&d.fn.cuMemcpyDtoDAsync_v2, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (d *libcuda) Fill(dst Ptr, word uint32, words int, s Stream) error {
	return d.call(&d.fn.cuMemsetD32Async, uintptr(dst), uintptr(word), uintptr(words), uintptr(s))
}

// LoadModule returns an error with the messages of the driver's compiler.
func (d *libcuda) LoadModule(ptx []byte) (Module, error) {
	const logBuffer, logBytes = 5, 6 // CU_JIT_ERROR_LOG_BUFFER and _SIZE_BYTES
	image, o := append(ptx[:len(ptx):len(ptx)], 0), d.out
	o.options, o.log[0] = [2]uint32{logBuffer, logBytes}, 0
	o.values = [2]uintptr{uintptr(unsafe.Pointer(&o.log)), uintptr(len(o.log) - 1)}
	m, err := made[Module](d, &d.fn.cuModuleLoadDataEx, uintptr(unsafe.Pointer(&image[0])), uintptr(len(o.options)),
		uintptr(unsafe.Pointer(&o.options)), uintptr(unsafe.Pointer(&o.values)))
	runtime.KeepAlive(image)
	if log, _, _ := bytes.Cut(o.log[:], []byte{0}); err != nil && len(log) > 0 {
		err = fmt.Errorf("%w: the driver's compiler says: %s", err, bytes.TrimSpace(log))
	}
	return m, err
}

func (d *libcuda) UnloadModule(m Module) error { return d.call(&d.fn.cuModuleUnload, uintptr(m)) }

// Function passes the name in memory on the heap: a slice of this function would be on the stack, which moves when it
// grows.
func (d *libcuda) Function(m Module, name string) (Function, error) {
	if len(name) >= len(d.out.text) {
		return 0, fmt.Errorf("kernel name of %d bytes, expected less than %d", len(name), len(d.out.text))
	}
	d.out.text[copy(d.out.text[:], name)] = 0
	return made[Function](d, &d.fn.cuModuleGetFunction, uintptr(m), uintptr(unsafe.Pointer(&d.out.text[0])))
}

func (d *libcuda) Launch(f Function, l *Launch, s Stream) error {
	*d.vals = l.Values
	e := &d.fn.cuLaunchKernel
	if l.Together {
		e = &d.fn.cuLaunchCooperativeKernel // does not read the last argument
	}
	return d.call(e, uintptr(f), uintptr(l.Grid[0]), uintptr(l.Grid[1]), uintptr(l.Grid[2]), uintptr(l.Threads), 1, 1,
		uintptr(l.Shared), uintptr(s), uintptr(unsafe.Pointer(&d.ptrs[0])), 0)
}

const functionDynamicShared = 8 // of cuFuncSetAttribute

func (d *libcuda) Allow(f Function, shared int) error {
	return d.call(&d.fn.cuFuncSetAttribute, uintptr(f), functionDynamicShared, uintptr(shared))
}

func (d *libcuda) Resident(f Function, threads, shared int) (int, error) {
	return number(d, &d.fn.cuOccupancyMaxActiveBlocksPerMultiprocessor, uintptr(f), uintptr(threads), uintptr(shared))
}

const streamNonBlocking = 1

func (d *libcuda) NewStream() (Stream, error) {
	return made[Stream](d, &d.fn.cuStreamCreate, streamNonBlocking)
}

func (d *libcuda) DestroyStream(s Stream) error { return d.call(&d.fn.cuStreamDestroy_v2, uintptr(s)) }
func (d *libcuda) Synchronize(s Stream) error   { return d.call(&d.fn.cuStreamSynchronize, uintptr(s)) }

func (d *libcuda) NewEvent() (Event, error) { return made[Event](d, &d.fn.cuEventCreate, 0) }

func (d *libcuda) DestroyEvent(e Event) error { return d.call(&d.fn.cuEventDestroy_v2, uintptr(e)) }
func (d *libcuda) Record(e Event, s Stream) error {
	return d.call(&d.fn.cuEventRecord, uintptr(e), uintptr(s))
}
func (d *libcuda) Follow(s Stream, e Event) error {
	return d.call(&d.fn.cuStreamWaitEvent, uintptr(s), uintptr(e), 0)
}
func (d *libcuda) Wait(e Event) error { return d.call(&d.fn.cuEventSynchronize, uintptr(e)) }

func (d *libcuda) Elapsed(from, to Event) (float32, error) {
	err := d.call(&d.fn.cuEventElapsedTime, uintptr(unsafe.Pointer(&d.out.f)), uintptr(from), uintptr(to))
	if err != nil {
		return float32(math.NaN()), err
	}
	return d.out.f, nil
}

const captureThreadLocal = 1

func (d *libcuda) BeginCapture(s Stream) error {
	return d.call(&d.fn.cuStreamBeginCapture_v2, uintptr(s), captureThreadLocal)
}

func (d *libcuda) EndCapture(s Stream) (Graph, error) {
	err := d.call(&d.fn.cuStreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&d.out.handle)))
	return Graph(d.out.handle), err
}

func (d *libcuda) Instantiate(g Graph) (Exec, error) {
	return made[Exec](d, &d.fn.cuGraphInstantiateWithFlags, uintptr(g), 0)
}

func (d *libcuda) LaunchGraph(x Exec, s Stream) error {
	return d.call(&d.fn.cuGraphLaunch, uintptr(x), uintptr(s))
}
func (d *libcuda) DestroyGraph(g Graph) error { return d.call(&d.fn.cuGraphDestroy, uintptr(g)) }
func (d *libcuda) DestroyExec(x Exec) error   { return d.call(&d.fn.cuGraphExecDestroy, uintptr(x)) }
