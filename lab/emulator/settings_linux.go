//go:build amd64

package emulator

import (
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"vsetrain/lab/try"
)

// Set changes a setting of the loaded emulator until the test ends, and then sets it to after:
//
//   - order of threads: 0 forward, 1 reverse, 2 random
//   - defer: 1 runs work when something waits for it; 2 does so for the first stream, and other streams run ahead as
//     far as events allow
//   - devices, multiprocessors, memory (bytes), shared (bytes of shared memory of a block), capability (90 for 9.0),
//     version (of the driver), mode (CUcomputemode; 3 for exclusive), others (bytes that other processes hold)
//   - cooperative launches: 0 none, 1 all, 2 none in a recording
//   - no_device; stub: the library is not a driver; taken: another process holds an exclusive GPU
//   - lose, no_pinned: that launch or allocation of pinned memory from now on fails
//   - no_capture: a recording fails 1 at its beginning, 2 at its end, 3 when the graph is instantiated
//   - free_waits: 0 frees memory under work that uses it
//   - no_blas: how many handles cuBLAS refuses; no_half: it refuses bfloat16; no_bias: it adds no bias to a product
func Set(t testing.TB, name string, value, after int) {
	t.Helper()
	set := symbol(t, "emu_set")
	b := append([]byte(name), 0)
	if r, _, _ := purego.SyscallN(set, uintptr(unsafe.Pointer(&b[0])), uintptr(value)); r != 0 {
		t.Fatalf("the emulator has no setting %q", name)
	}
	t.Cleanup(func() { purego.SyscallN(set, uintptr(unsafe.Pointer(&b[0])), uintptr(after)) })
}

// Mend ends a fault, which like a GPU's otherwise lasts for the process: later calls find the emulator as in a new
// process. It also mends when the test ends.
func Mend(t testing.TB) {
	t.Helper()
	Set(t, "mend", 0, 0)
}

// count calls a counter of the emulator.
func count(t testing.TB, entry string) int {
	n, _, _ := purego.SyscallN(symbol(t, entry))
	return int(n)
}

// Launches returns the number of kernels launched so far.
func Launches(t testing.TB) int { return count(t, "emu_launches") }

// Uploaded returns the bytes copied from the host to the device so far.
func Uploaded(t testing.TB) int { return count(t, "emu_uploaded") }

// Finished returns the number of kernels that have run so far.
func Finished(t testing.TB) int { return count(t, "emu_finished") }

// Violations returns what the strict driver reported in this process since the last call, a line each.
func Violations(t testing.TB) string {
	t.Helper()
	var violations func() string
	purego.RegisterFunc(&violations, symbolOf(t, Strict(t), "strict_violations"))
	return violations()
}

// StrictGPU gives the GPU of the strict driver a compute capability, 75 for 7.5, and cooperative launches or not, until
// the test ends.
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
	lib := try.Get(purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL))(t)
	return try.Get(purego.Dlsym(lib, name))(t)
}
