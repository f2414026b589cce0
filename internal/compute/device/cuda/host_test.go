package cuda_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/emulator"
	"vsetrain/internal/compute/device/devicetest"
	"vsetrain/internal/house/try"
)

func warningsOf(d device.Device) string { return strings.Join(d.(device.Warner).Warnings(), "; ") }

// A driver that claims to start blocks which wait for each other, and does not, gets recurrences step by step.
func TestBlocksThatAreNotStartedTogether(t *testing.T) {
	emulator.Set(t, "cooperative", 3, 1)
	d := open(t, cuda.Options{Precision: cuda.BF16})
	defer d.Close()
	m := devicetest.Measure(d, "BiGRU", devicetest.RoundsBF16)
	n := d.(cuda.Launcher).Launches()
	if len(m.Failures) > 0 || n["gru_tensor_steps"] > 0 || n["gru_tensor_step"] == 0 {
		t.Errorf("%v; all steps %d times, one %d times", m.Failures, n["gru_tensor_steps"], n["gru_tensor_step"])
	}
	if w := warningsOf(d); strings.Count(w, "recurrences are computed step by step") != 1 {
		t.Error(w)
	}
}

// Products with a bias whose address or sizes the kernels of cuBLAS do not take go the plain way, without a word; a
// product that cuBLAS fails at all the same does so with a warning.
func TestBiasesThatCUBLASFailsAt(t *testing.T) {
	d := open(t, cuda.Options{BLAS: []string{"emulated"}})
	defer d.Close()
	if m := devicetest.Measure(d, "Gemm", 0); len(m.Failures) > 0 || warningsOf(d) != "" {
		t.Errorf("%v; %s", m.Failures, warningsOf(d))
	}
	emulator.Set(t, "no_bias", 2, 0)
	if m := devicetest.Measure(d, "Gemm", 0); len(m.Failures) > 0 ||
		strings.Count(warningsOf(d), "cuBLAS does not add a bias") != 1 {
		t.Errorf("%v; %s", m.Failures, warningsOf(d))
	}
}

// A GPU that does not answer is at some kernel.
func TestGPUThatHangs(t *testing.T) {
	var said []string
	d := open(t, cuda.Options{Hung: func(what string) { said = append(said, what) }, HungAfter: 20 * time.Millisecond})
	defer d.Close()
	b := &bench{t, d}
	v := b.floats(1, 2, 3)
	device.Do(d, device.Combine{Dst: v, A: v, Alpha: 2})
	cuda.Stall(d, 100*time.Millisecond)
	try.Do(t, d.Sync())
	// It may have taken long to open.
	said = slices.DeleteFunc(said, func(s string) bool { return strings.Contains(s, "at no kernel") })
	if !slices.Equal(said, []string{"the GPU has not answered for 20ms: it is at kernel combine"}) {
		t.Errorf("%q", said)
	}
}

// What the driver's compiler says of PTX is in the error.
func TestErrorOfTheCompiler(t *testing.T) {
	d := try.Get(driver.Open(emulator.Library(t)))(t)
	c := try.Get(d.Retain(0))(t)
	try.Do(t, d.SetCurrent(c))
	if _, err := d.LoadModule([]byte("no PTX")); err == nil ||
		!strings.Contains(err.Error(), "the driver's compiler says: ptxas application ptx input, line 1; fatal") {
		t.Error(err)
	}
}
