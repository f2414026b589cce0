package selftest

import (
	"maps"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// launchedBy is how often a selftest launches each kernel of a GPU, which computes nothing here; and which of them the
// GPU bars.
func launchedBy(t *testing.T) (launches map[string]int, barred map[string]string) {
	launches, barred = map[string]int{}, map[string]string{}
	library := emulator.Strict(t)
	for _, v := range variants {
		if v.kind != "cuda" {
			continue
		}
		var d tested
		worlds := []*devicetest.World{nil}
		if v.ranks > 0 {
			d.job = devicetest.Worlds(v.ranks)
			worlds = d.job
		}
		for _, w := range worlds {
			o := v.options(w)
			if o.Driver = library; v.blas {
				o.BLAS = []string{library}
			}
			d.devices = append(d.devices, try.Get(cuda.Open(o))(t))
		}
		for _, family := range (&Request{Kind: "cuda"}).Tested(v.name) {
			if d.job != nil {
				devicetest.TouchTogether(d.job, d.devices)
			} else {
				devicetest.Touch(d.devices[0], family)
			}
		}
		for name, n := range d.launches() {
			launches[name] += n
		}
		maps.Copy(barred, d.barred())
		try.Do(t, d.close())
	}
	return launches, barred
}

// contextForms is how many kernels of similarity contexts are for GPUs with another size of shared memory.
const contextForms = 4

// A selftest launches every kernel that there is, or says why the GPU does not start it. A kernel that no family
// launches is named here.
func TestSelftestLaunchesEveryKernel(t *testing.T) { launchesEveryKernel(t, 90, true, contextForms) }

// The same on GPUs of other sizes, older ones, and those that start no blocks which wait for each other.
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
