// Package driver binds the part of the CUDA driver and of cuBLAS that the CUDA device needs.
//
// Both libraries are found and loaded at run time (Search, Open), so one binary built without cgo and CUDA runs on
// machines with and without a GPU. Driver is the interface to libcuda; its methods return the driver's errors as
// *Error, with the driver's names. A context belongs to the thread that called SetCurrent: all calls that use the
// device must come from that thread (runtime.LockOSThread).
//
// Reference: NVIDIA, "CUDA Driver API", https://docs.nvidia.com/cuda/cuda-driver-api.
package driver

import (
	"fmt"
	"strings"
	"unsafe"
)

// Ptr is an address in device memory; 0 is null.
type Ptr uint64

// Handles of the driver's objects.
type (
	Context  uintptr
	Module   uintptr
	Function uintptr
	Stream   uintptr
	Event    uintptr
	Graph    uintptr // recorded work
	Exec     uintptr // a graph that can be launched
)

// Info describes one GPU.
type Info struct {
	Name                   string
	Major, Minor           int // compute capability
	Multiprocessors        int
	MaxSharedBytesPerBlock int
	Together               bool   // the GPU supports cooperative launches
	Memory                 uint64 // bytes
	Mode                   Mode
	UUID                   string // without the prefix GPU- or MIG-; empty if unknown
	Bus                    string // PCI address: 0000:1b:00.0; empty if unknown
}

// MIG reports whether the GPU is a part of a divided GPU (Multi-Instance GPU).
func (i Info) MIG() bool { return strings.Contains(i.Name, " MIG ") }

// Mode says how many processes may use a GPU at once (nvidia-smi -c). The values are the same as in CUcomputemode.
type Mode int

func (m Mode) String() string {
	switch m {
	case 0:
		return "shared"
	case 2:
		return "prohibited"
	case 3:
		return "exclusive process"
	}
	return fmt.Sprintf("mode %d", int(m))
}

// Launch is one kernel call. The kernel's declaration says how many bytes of Values[i] parameter i takes.
type Launch struct {
	Grid     [3]uint32
	Threads  uint32
	Shared   uint32 // bytes of dynamic shared memory of a block; see Allow
	Together bool   // all blocks run at once and may wait for each other (a cooperative launch)
	Values   [MaxParameters]uint64
}

// MaxParameters is the largest number of parameters of a kernel.
const MaxParameters = 32

// Driver is what the device needs of libcuda.
type Driver interface {
	// Version is the CUDA version that the driver supports: 12080 for 12.8.
	Version() (int, error)
	Devices() (int, error)
	Info(device int) (Info, error)

	Retain(device int) (Context, error) // the device's primary context
	Release(device int) error
	SetCurrent(Context) error
	Memory() (free, total uint64, err error)

	Alloc(bytes int) (Ptr, error)
	Free(Ptr) error
	AllocHost(bytes int) (unsafe.Pointer, error) // pinned
	FreeHost(unsafe.Pointer) error
	Upload(dst Ptr, src unsafe.Pointer, bytes int, s Stream) error
	Download(dst unsafe.Pointer, src Ptr, bytes int, s Stream) error
	Copy(dst, src Ptr, bytes int, s Stream) error
	Fill(dst Ptr, word uint32, words int, s Stream) error

	LoadModule(ptx []byte) (Module, error)
	UnloadModule(Module) error
	Function(m Module, name string) (Function, error)
	Launch(f Function, l *Launch, s Stream) error
	// Allow sets the most bytes of dynamic shared memory that a block of the kernel may have.
	Allow(f Function, shared int) error
	// Resident returns how many blocks a multiprocessor holds at once; shared is the bytes of dynamic shared memory of
	// a block.
	Resident(f Function, threads, shared int) (int, error)

	NewStream() (Stream, error)
	DestroyStream(Stream) error
	Synchronize(Stream) error

	NewEvent() (Event, error)
	DestroyEvent(Event) error
	Record(Event, Stream) error
	// Follow makes later work of the stream wait for the event as it was last recorded.
	Follow(Stream, Event) error
	// Wait returns when the event has happened.
	Wait(Event) error
	// Elapsed returns the time between two events that were waited for.
	Elapsed(from, to Event) (millis float32, err error)

	BeginCapture(Stream) error
	EndCapture(Stream) (Graph, error)
	Instantiate(Graph) (Exec, error)
	LaunchGraph(Exec, Stream) error
	DestroyGraph(Graph) error
	DestroyExec(Exec) error

	// Path is the file the driver was loaded from.
	Path() string
}
