// Package driver binds the part of the CUDA driver and of cuBLAS that the CUDA device needs.
//
// Both libraries are found and loaded at run time (Search, Open), so that one binary built without cgo and without CUDA
// runs on machines with and without a GPU. Driver is the one interface to libcuda; its methods carry the driver's
// errors as *Error, with the name that the driver gives them. A context belongs to the thread that called SetCurrent:
// all calls that touch the device must come from that thread (runtime.LockOSThread).
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
	Together               bool   // it starts kernels whose blocks all run at once
	Memory                 uint64 // bytes
	Mode                   Mode
	UUID                   string // without the GPU- or MIG- in front of it; empty where it is not known
	Bus                    string // of PCI: 0000:1b:00.0; empty where it is not known
}

// MIG reports whether the GPU is a part of one that is divided (Multi-Instance GPU).
func (i Info) MIG() bool { return strings.Contains(i.Name, " MIG ") }

// Mode says how many processes may use a GPU at once. The values are the ones of CUcomputemode.
type Mode int

// Modes of a GPU, as nvidia-smi -c sets them.
const (
	Shared     Mode = 0 // any number of processes
	Prohibited Mode = 2 // none
	Exclusive  Mode = 3 // one
)

func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case Prohibited:
		return "prohibited"
	case Exclusive:
		return "exclusive process"
	}
	return fmt.Sprintf("mode %d", int(m))
}

// Launch is one kernel call. Parameter i is the first bytes of Values[i], as many as the kernel's declaration says.
type Launch struct {
	Grid     [3]uint32
	Threads  uint32
	Shared   uint32 // bytes of dynamic shared memory of a block; see Allow
	Together bool   // all blocks run at once, so that they may wait for each other (a cooperative launch)
	Values   [MaxParameters]uint64
}

// MaxParameters is the greatest number of parameters of a kernel.
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
	// Allow bounds the bytes of dynamic shared memory that a block of the kernel may have from now on.
	Allow(f Function, shared int) error
	// Resident is how many blocks a multiprocessor holds at once, with that many bytes of dynamic shared memory each.
	Resident(f Function, threads, shared int) (int, error)

	NewStream() (Stream, error)
	DestroyStream(Stream) error
	Synchronize(Stream) error

	NewEvent() (Event, error)
	DestroyEvent(Event) error
	Record(Event, Stream) error
	// what is sent to the stream from now on runs after the event, as it was recorded last
	Follow(Stream, Event) error
	Wait(Event) error                                   // until the host sees it
	Elapsed(from, to Event) (millis float32, err error) // of events that were waited for

	BeginCapture(Stream) error
	EndCapture(Stream) (Graph, error)
	Instantiate(Graph) (Exec, error)
	LaunchGraph(Exec, Stream) error
	DestroyGraph(Graph) error
	DestroyExec(Exec) error

	// Path is the file the driver was loaded from.
	Path() string
}
