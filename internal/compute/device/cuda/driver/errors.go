package driver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error is a failed call of a library.
type Error struct {
	Call string // cuMemAlloc_v2
	Code int
	Name string // CUDA_ERROR_OUT_OF_MEMORY
	Text string // what the library says of it
	// Remedy is what helps, where that depends on the machine; empty where it is known by the code alone.
	Remedy string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		s += ": " + e.Text
	}
	if r := e.remedy(); r != "" {
		s += "; " + r
	}
	return s
}

// The codes of CUresult that the device tells apart.
const (
	codeOutOfMemory = 2
	codeStub        = 34
	codeNoDevice    = 100
	codeNoCompiler  = 221
)

// remedies say what helps against errors of the driver that have one known cause, by their code (CUresult of cuda.h).
var remedies = map[int]string{
	codeStub: "this file is the stub that programs are linked with and no driver; take its folder (stubs) out of " +
		"LD_LIBRARY_PATH, or name the driver's libcuda.so.1 in VSETRAIN_CUDA_DRIVER",
	46: "another process holds the GPU, which is in exclusive mode; end that process (nvidia-smi lists it), " +
		"or allow several with nvidia-smi -c DEFAULT",
	101: "the device that CUDA_VISIBLE_DEVICES names does not exist; nvidia-smi -L lists those that do",
	222: "the driver is too old for the kernels' PTX; install version 470 or later",
	223: "CUDA_DISABLE_PTX_JIT or CUDA_DISABLE_JIT is set in the environment; unset it",
	802: "the NVLink fabric of this machine is not up; start NVIDIA's fabric manager " +
		"(systemctl start nvidia-fabricmanager), of the driver's version",
	803: "the kernel module and libcuda.so.1 are of different driver versions; restart the machine, " +
		"or reload the module after an update of the driver",
	804: "a CUDA compatibility package lies before the driver's libcuda.so.1, and this GPU does not support it; " +
		"take its folder (compat) out of LD_LIBRARY_PATH",
	999: "if no program can use the GPU, load the kernel module nvidia-uvm (nvidia-modprobe -u) or restart the machine",
}

// remedy is what the user can do, empty if that is not known.
func (e *Error) remedy() string {
	if !strings.HasPrefix(e.Call, "cu") || strings.HasPrefix(e.Call, "cublas") {
		return ""
	}
	if e.Code == 999 && e.Call != "cuInit" { // of a kernel it says nothing
		return ""
	}
	return cmp.Or(e.Remedy, remedies[e.Code])
}

// Fault reports whether an error is of work that a GPU did, such as an address outside memory: the call that returns it
// need not be the one that gave the GPU this work, and no call of this process succeeds any more.
func Fault(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case 214, 220, 226, 999: // memory, NVLink, an exception; unknown
		return true
	case 700, 702, 710, 714, 715, 716, 717, 718, 719, 721:
		// address, timeout, assertion, stack, instruction, alignment, address space, program counter, launch, tensor
		return true
	}
	return false
}

// OutOfMemory reports whether an error is from an allocation on a full device.
func OutOfMemory(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeOutOfMemory
}

// NoDevice reports whether an error is from a driver without a GPU.
func NoDevice(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeNoDevice
}

// Refused reports whether an error is from a launch or a recording which the driver does not take, though the GPU has
// no fault: too many blocks at once, not permitted, not supported, or not in a recording.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains([]int{720, 800, 801, 900, 901}, e.Code)
}

// unloadable is the error of a file that cannot be loaded: of another architecture, damaged, or without what it needs.
type unloadable struct{ error }

func (e *unloadable) Unwrap() error { return e.error }

// NoDriver reports whether an error is about a file that is not a driver, so that another one may be: a stub, or what
// cannot be loaded.
func NoDriver(err error) bool {
	var e *Error
	var u *unloadable
	return errors.As(err, &u) || errors.As(err, &e) && e.Code == codeStub
}

func blasStatus(code int) string {
	names := map[int]string{1: "CUBLAS_STATUS_NOT_INITIALIZED", codeBLASAlloc: "CUBLAS_STATUS_ALLOC_FAILED",
		7: "CUBLAS_STATUS_INVALID_VALUE", 8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR",
		13: "CUBLAS_STATUS_EXECUTION_FAILED", 14: "CUBLAS_STATUS_INTERNAL_ERROR",
		codeNotSupported: "CUBLAS_STATUS_NOT_SUPPORTED"}
	if n := names[code]; n != "" {
		return n
	}
	return fmt.Sprintf("status %d", code)
}

// The values of cublasStatus_t that the device tells apart.
const (
	codeBLASAlloc    = 3
	codeNotSupported = 15
)

func blasError(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && strings.HasPrefix(e.Call, "cublas") && e.Code == code
}

// BLASOutOfMemory reports whether an error is from cuBLAS on a full device.
func BLASOutOfMemory(err error) bool { return blasError(err, codeBLASAlloc) }

// NotSupported reports whether an error is from a product which cuBLAS does not compute on this GPU.
func NotSupported(err error) bool { return blasError(err, codeNotSupported) }
