//go:build vsecu && cgo && (amd64 || arm64) && !nodl

package driver

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/ebitengine/purego"
	"gorgonia.org/cu"
)

// Binding names how libcuda is called: by dlopen, or through gorgonia.org/cu (build tag vsecu).
const Binding = "gorgonia.org/cu"

// linked is the driver through gorgonia.org/cu, which is linked with libcuda: devices, context, memory, modules,
// launches, streams and events. The symbols of the same library serve what that package lacks: pinned memory, recorded
// graphs, texts of errors.
//
// The package initialises libcuda when the program starts, and ends the program if that fails. So a program with this
// binding needs a GPU.
type linked struct {
	*libcuda
	params [MaxParameters]unsafe.Pointer // of the values of libcuda
}

// Open returns the driver that the program is linked with, which must be the one at the path.
func Open(path string) (Driver, error) {
	d, err := load(path)
	if err != nil {
		return nil, err
	}
	if own, err := purego.Dlsym(purego.RTLD_DEFAULT, d.fn.cuInit.name); err != nil || own != d.fn.cuInit.addr {
		return nil, fmt.Errorf("%s is not the CUDA driver that this program was started with (it is built with the "+
			"tag vsecu and linked with libcuda.so.1); put its folder first in LD_LIBRARY_PATH, or unset "+
			"VSETRAIN_CUDA_DRIVER", path)
	}
	l := &linked{libcuda: d}
	for i := range l.params {
		l.params[i] = unsafe.Pointer(&d.vals[i])
	}
	return l, nil
}

// fail turns an error of the package, which is a number of the driver, into an *Error.
func (l *linked) fail(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return l.failure(call, int32(v.Int()))
	}
	return &Error{Call: call, Code: -1, Name: err.Error()}
}

// The package wraps each handle, a pointer of the driver, into its own structure.

func (c Context) cu() cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&c)) }
func (m Module) cu() cu.Module     { return *(*cu.Module)(unsafe.Pointer(&m)) }
func (f Function) cu() cu.Function { return *(*cu.Function)(unsafe.Pointer(&f)) }
func (s Stream) cu() cu.Stream     { return *(*cu.Stream)(unsafe.Pointer(&s)) }
func (e Event) cu() cu.Event       { return *(*cu.Event)(unsafe.Pointer(&e)) }

func (l *linked) Version() (int, error) {
	v := cu.Version()
	if v < 0 {
		return 0, &Error{Call: "cuDriverGetVersion", Code: v, Name: "failed"}
	}
	return v, nil
}

func (l *linked) Devices() (int, error) {
	n, err := cu.NumDevices()
	return n, l.fail("cuDeviceGetCount", err)
}

func (l *linked) Info(i int) (info Info, err error) {
	d, err := cu.GetDevice(i)
	if err != nil {
		return info, l.fail("cuDeviceGet", err)
	}
	if info.Name, err = d.Name(); err != nil {
		return info, l.fail("cuDeviceGetName", err)
	}
	var cooperative int
	for attribute, to := range map[cu.DeviceAttribute]*int{cu.MultiprocessorCount: &info.Multiprocessors,
		cu.ComputeCapabilityMajor: &info.Major, attributeComputeMode: (*int)(&info.Mode),
		cu.ComputeCapabilityMinor: &info.Minor, attributeCooperative: &cooperative,
		attributeSharedOptin: &info.MaxSharedBytesPerBlock} { // which the package has no name for
		if *to, err = d.Attribute(attribute); err != nil {
			return info, l.fail("cuDeviceGetAttribute", err)
		}
	}
	info.Together = cooperative != 0
	bytes, err := d.TotalMem()
	if err != nil {
		return info, l.fail("cuDeviceTotalMem", err)
	}
	info.Memory = uint64(bytes)
	info.UUID, info.Bus, err = l.identity(uintptr(d))
	return info, err
}

func (l *linked) Retain(i int) (Context, error) {
	d, err := cu.GetDevice(i)
	if err != nil {
		return 0, l.fail("cuDeviceGet", err)
	}
	c, err := d.RetainPrimaryCtx()
	return *(*Context)(unsafe.Pointer(&c)), l.fail("cuDevicePrimaryCtxRetain", err)
}

func (l *linked) Release(i int) error {
	d, err := cu.GetDevice(i)
	if err != nil {
		return l.fail("cuDeviceGet", err)
	}
	return l.fail("cuDevicePrimaryCtxRelease", d.ReleasePrimaryCtx())
}

func (l *linked) SetCurrent(c Context) error {
	return l.fail("cuCtxSetCurrent", cu.SetCurrentContext(c.cu()))
}

func (l *linked) Memory() (free, total uint64, err error) {
	f, t, err := cu.MemInfo()
	return uint64(f), uint64(t), l.fail("cuMemGetInfo", err)
}

func (l *linked) Alloc(bytes int) (Ptr, error) {
	p, err := cu.MemAlloc(int64(bytes))
	return Ptr(p), l.fail("cuMemAlloc", err)
}

func (l *linked) Free(p Ptr) error { return l.fail("cuMemFree", cu.MemFree(cu.DevicePtr(p))) }

func (l *linked) FreeHost(p unsafe.Pointer) error { return l.fail("cuMemFreeHost", cu.MemFreeHost(p)) }

func (l *linked) Upload(dst Ptr, src unsafe.Pointer, bytes int, s Stream) error {
	return l.fail("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, int64(bytes), s.cu()))
}

func (l *linked) Download(dst unsafe.Pointer, src Ptr, bytes int, s Stream) error {
	return l.fail("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), int64(bytes), s.cu()))
}

func (l *linked) Copy(dst, src Ptr, bytes int, s Stream) error {
	return l.fail("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), int64(bytes), s.cu()))
}

func (l *linked) Fill(dst Ptr, word uint32, words int, s Stream) error {
	return l.fail("cuMemsetD32Async", cu.MemsetD32Async(cu.DevicePtr(dst), uint(word), int64(words), s.cu()))
}

func (l *linked) LoadModule(ptx []byte) (Module, error) {
	m, err := cu.LoadData(string(ptx))
	return *(*Module)(unsafe.Pointer(&m)), l.fail("cuModuleLoadData", err)
}

func (l *linked) UnloadModule(m Module) error { return l.fail("cuModuleUnload", m.cu().Unload()) }

func (l *linked) Function(m Module, name string) (Function, error) {
	f, err := m.cu().Function(name)
	return *(*Function)(unsafe.Pointer(&f)), l.fail("cuModuleGetFunction", err)
}

// Launch passes room for MaxParameters; the driver reads as many as the kernel declares. The package has no
// cooperative launch.
func (l *linked) Launch(f Function, k *Launch, s Stream) error {
	if k.Together {
		return l.libcuda.Launch(f, k, s)
	}
	*l.vals = k.Values
	return l.fail("cuLaunchKernel", f.cu().Launch(int(k.Grid[0]), int(k.Grid[1]), int(k.Grid[2]), int(k.Threads), 1, 1,
		int(k.Shared), s.cu(), l.params[:]))
}

func (l *linked) NewStream() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return *(*Stream)(unsafe.Pointer(&s)), l.fail("cuStreamCreate", err)
}

func (l *linked) DestroyStream(s Stream) error {
	stream := s.cu()
	return l.fail("cuStreamDestroy", stream.Destroy())
}

func (l *linked) Synchronize(s Stream) error {
	return l.fail("cuStreamSynchronize", s.cu().Synchronize())
}

func (l *linked) NewEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return *(*Event)(unsafe.Pointer(&e)), l.fail("cuEventCreate", err)
}

func (l *linked) DestroyEvent(e Event) error {
	event := e.cu()
	return l.fail("cuEventDestroy", cu.DestroyEvent(&event))
}

func (l *linked) Record(e Event, s Stream) error {
	return l.fail("cuEventRecord", e.cu().Record(s.cu()))
}
func (l *linked) Wait(e Event) error { return l.fail("cuEventSynchronize", e.cu().Synchronize()) }

func (l *linked) Elapsed(from, to Event) (float32, error) {
	ms, err := from.cu().Elapsed(to.cu())
	return float32(ms), l.fail("cuEventElapsedTime", err)
}
