//go:build amd64

package emulator

import (
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Set changes a setting of the loaded emulator until the test ends, and then to after: order (of threads: 0 forward, 1
// reverse, 2 random), defer (1: work waits until somebody waits for it; 2: the work of the first stream does, other
// streams go ahead as far as events allow), no_device, memory (bytes of the device), version (of the driver), devices
// (how many there are), multiprocessors (of each), shared (bytes of shared memory of a block), capability (90 for 9.0),
// stub (the library is not a driver), lose (the GPU is lost at this launch from now on), no_capture (recording fails: 1
// at its beginning, 2 at its end, 3 where the graph is made ready), free_waits (0: memory is freed under work that uses
// it), others (bytes that other processes hold), mode (CUcomputemode: 3 for one process alone), no_pinned (this
// allocation of pinned memory from now on fails), taken (another process holds such a GPU), cooperative (kernels whose
// blocks run at once: 0 none, 2 none that is recorded, otherwise 1), no_blas (how many handles cuBLAS refuses), no_half
// (cuBLAS refuses bfloat16), no_bias (it adds no bias in the kernel of a product).
func Set(t testing.TB, name string, value, after int) {
	t.Helper()
	set := symbol(t, "emu_set")
	b := append([]byte(name), 0)
	if r, _, _ := purego.SyscallN(set, uintptr(unsafe.Pointer(&b[0])), uintptr(value)); r != 0 {
		t.Fatalf("the emulator has no setting %q", name)
	}
	t.Cleanup(func() { purego.SyscallN(set, uintptr(unsafe.Pointer(&b[0])), uintptr(after)) })
}

// Mend ends a fault, which otherwise lasts for the process as the fault of a GPU does: what follows finds the emulator
// as a new process would. It mends when the test ends too.
func Mend(t testing.TB) {
	t.Helper()
	Set(t, "mend", 0, 0)
}

// Launches returns the number of kernels launched so far.
func Launches(t testing.TB) int {
	n, _, _ := purego.SyscallN(symbol(t, "emu_launches"))
	return int(n)
}

// Uploaded returns the bytes copied from the host to the device so far.
func Uploaded(t testing.TB) int {
	n, _, _ := purego.SyscallN(symbol(t, "emu_uploaded"))
	return int(n)
}

// Finished returns the number of kernels that have run so far.
func Finished(t testing.TB) int {
	n, _, _ := purego.SyscallN(symbol(t, "emu_finished"))
	return int(n)
}

// Violations returns what the strict driver reported in this process since the last call, one a line.
func Violations(t testing.TB) string {
	t.Helper()
	var violations func() string
	purego.RegisterFunc(&violations, symbolOf(t, Strict(t), "strict_violations"))
	return violations()
}

// StrictGPU makes the GPU of the strict driver one of a compute capability, 75 for 7.5, that starts blocks which wait
// for each other or does not, until the test ends.
func StrictGPU(t testing.TB, capability int, together bool) {
	t.Helper()
	var choose func(capability, together int32)
	purego.RegisterFunc(&choose, symbolOf(t, Strict(t), "strict_gpu"))
	starts := int32(0)
	if together {
		starts = 1
	}
	choose(int32(capability), starts)
	t.Cleanup(func() { choose(90, 1) })
}

func symbol(t testing.TB, name string) uintptr {
	t.Helper()
	return symbolOf(t, Library(t), name)
}

func symbolOf(t testing.TB, path, name string) uintptr {
	t.Helper()
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := purego.Dlsym(lib, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
