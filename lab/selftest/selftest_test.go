package selftest

import (
	"maps"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// launchedBy returns how often a selftest launches each kernel of a GPU, which computes nothing here, and which kernels
// it bars.
func launchedBy(t *testing.T) (launches map[string]int, barred map[string]string) {
	launches, barred = map[string]int{}, map[string]string{}
	library := emulator.Strict(t)
	for _, v := range variants {
		if v.kind != "cuda" {
			continue
		}
		d, _, err := v.open(func(w *devicetest.World) (device.Device, string, error) {
			o := v.options(w)
			if o.Driver = library; v.blas {
				o.BLAS = []string{library}
			}
			d, err := cuda.Open(o)
			return d, "", err
		})
		try.Do(t, err)
		for _, family := range (&Request{Kind: "cuda"}).Tested(v.name) {
			devicetest.Touch(d.job, d.devices, family)
		}
		for name, n := range d.launches() {
			launches[name] += n
		}
		maps.Copy(barred, d.barred())
		try.Do(t, d.close())
	}
	return launches, barred
}

// contextForms is the number of kernels of similarity contexts for GPUs with another size of shared memory.
const contextForms = 4

// A selftest launches every kernel, or says why the GPU cannot start it.
func TestSelftestLaunchesEveryKernel(t *testing.T) { launchesEveryKernel(t, 90, true, contextForms) }

// The same on other GPUs, with base kernels, and without kernels whose blocks wait for each other.
func TestSelftestOnOtherGPUs(t *testing.T) {
	launchesEveryKernel(t, 75, true, 0)
	for _, capability := range []int{80, 120} {
		launchesEveryKernel(t, capability, true, contextForms)
	}
	launchesEveryKernel(t, 90, false, contextForms+8)
	t.Setenv("VSETRAIN_KERNELS", "base")
	launchesEveryKernel(t, 90, true, 39)
}

// launchesEveryKernel wants all kernels for the GPU of a capability launched, but for that many that it bars.
func launchesEveryKernel(t *testing.T, capability int, together bool, barred int) {
	t.Helper()
	emulator.StrictGPU(t, capability, together)
	launches, reasons := launchedBy(t)
	n := 0
	for _, k := range slices.Sorted(maps.Keys(launches)) {
		if launches[k] > 0 {
			continue
		}
		if n++; reasons[k] == "" {
			t.Errorf("sm_%d: nothing launches %s", capability, k)
		}
	}
	if n != barred {
		t.Errorf("sm_%d, blocks that wait for each other %v: %d of %d kernels are not launched, expected %d: %v",
			capability, together, n, len(launches), barred, reasons)
	}
}
