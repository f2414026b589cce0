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
	Text string // the description that the library gives
	// Remedy says what helps, if that depends on the machine; it is empty if the code alone determines what helps.
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

// The codes of CUresult that the device distinguishes.
const (
	codeOutOfMemory = 2
	codeStub        = 34
	codeNoDevice    = 100
	codeNoCompiler  = 221
)

// remedies say what helps against errors of the driver that have one known cause, by code (CUresult of cuda.h).
var remedies = map[int]string{
	codeStub: "this file is not a driver but the stub that programs are linked with; remove its folder (stubs) from " +
		"LD_LIBRARY_PATH, or set VSETRAIN_CUDA_DRIVER to the driver's libcuda.so.1",
	46: "another process holds the GPU, which is in exclusive mode; end that process (nvidia-smi lists it), " +
		"or allow several with nvidia-smi -c DEFAULT",
	101: "the device that CUDA_VISIBLE_DEVICES names does not exist; nvidia-smi -L lists the GPUs",
	222: "the driver is too old for the kernels' PTX; install version 470 or later",
	223: "CUDA_DISABLE_PTX_JIT or CUDA_DISABLE_JIT is set in the environment; unset it",
	802: "the NVLink fabric of this machine is not up; start NVIDIA's fabric manager " +
		"(systemctl start nvidia-fabricmanager) in the version of the driver",
	803: "the kernel module and libcuda.so.1 are of different driver versions; restart the machine, " +
		"or reload the module after an update of the driver",
	804: "the loader finds a CUDA compatibility package before the driver's libcuda.so.1, and this GPU does not " +
		"support it; remove its folder (compat) from LD_LIBRARY_PATH",
	999: "if no program can use the GPU, load the kernel module nvidia-uvm (nvidia-modprobe -u) or restart the machine",
}

// remedy says what the user can do, and is empty if that is not known.
func (e *Error) remedy() string {
	if !strings.HasPrefix(e.Call, "cu") || strings.HasPrefix(e.Call, "cublas") {
		return ""
	}
	if e.Code == 999 && e.Call != "cuInit" { // after a kernel it has many causes
		return ""
	}
	return cmp.Or(e.Remedy, remedies[e.Code])
}

// coded reports whether an error is an *Error with one of the codes.
func coded(err error, codes ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// Fault reports whether an error is a fault of work on the GPU, such as an address outside memory. The call that
// returns the error need not be the call that started the work, and all later calls of this process fail.
func Fault(err error) bool {
	return coded(err, 214, 220, 226, 999, // memory, NVLink, an exception; unknown
		// address, timeout, assertion, stack, instruction, alignment, address space, program counter, launch, tensor
		700, 702, 710, 714, 715, 716, 717, 718, 719, 721)
}

// OutOfMemory reports whether an error is from an allocation on a full device.
func OutOfMemory(err error) bool { return coded(err, codeOutOfMemory) }

// NoDevice reports whether an error is from a driver without a GPU.
func NoDevice(err error) bool { return coded(err, codeNoDevice) }

// Refused reports whether the driver refused a launch or a recording although the GPU has no fault: too many blocks at
// once, not permitted, not supported, or not possible in a recording.
func Refused(err error) bool { return coded(err, 720, 800, 801, 900, 901) }

// unloadable is the error of a file that cannot be loaded: it is for another architecture, corrupted, or lacks symbols.
type unloadable struct{ error }

func (e *unloadable) Unwrap() error { return e.error }

// NoDriver reports whether an error is about a file that is not a driver: a stub, or a file that cannot be loaded.
// Another file may be the driver.
func NoDriver(err error) bool {
	_, ok := errors.AsType[*unloadable](err)
	return ok || coded(err, codeStub)
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

// The values of cublasStatus_t that the device distinguishes.
const (
	codeBLASAlloc    = 3
	codeNotSupported = 15
)

func blasError(err error, code int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && strings.HasPrefix(e.Call, "cublas") && e.Code == code
}

// BLASOutOfMemory reports whether cuBLAS found no room on the device.
func BLASOutOfMemory(err error) bool { return blasError(err, codeBLASAlloc) }

// NotSupported reports whether an error is from a product that cuBLAS does not support on this GPU.
func NotSupported(err error) bool { return blasError(err, codeNotSupported) }
