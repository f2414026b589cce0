package selftest

import (
	"maps"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/compute/device/cuda/null"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
)

// withoutBLAS hides the cuBLAS of a driver.
type withoutBLAS struct{ driver.Driver }

// launchedBy is how often a selftest launches each kernel of a GPU, which computes nothing here; and which of them the
// GPU bars.
func launchedBy(t *testing.T, gpu driver.Info) (launches map[string]int, barred map[string]string) {
	launches, barred = map[string]int{}, map[string]string{}
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
			if o.On = null.New(gpu); !v.blas {
				o.On = withoutBLAS{o.On}
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

// A selftest launches every kernel that there is, or says why the GPU does not start it. A kernel that no family
// launches is named here.
func TestSelftestLaunchesEveryKernel(t *testing.T) { launchesEveryKernel(t, "h100", infoOf("h100"), 0) }

// The same on GPUs of other sizes, older ones, and those that start no blocks which wait for each other.
func TestSelftestOnOtherGPUs(t *testing.T) {
	launchesEveryKernel(t, "T4", driver.Info{Major: 7, Minor: 5, Multiprocessors: 40, Together: true,
		MaxSharedBytesPerBlock: 64 << 10}, 0)
	launchesEveryKernel(t, "a100", infoOf("a100"), 0)
	launchesEveryKernel(t, "rtx4090", infoOf("rtx4090"), 0)
	apart := infoOf("h100")
	apart.Together = false
	launchesEveryKernel(t, "h100 without blocks that wait", apart, 8)
	t.Setenv("VSETRAIN_KERNELS", "base")
	launchesEveryKernel(t, "h100 with base kernels", infoOf("h100"), 37)
}

func infoOf(name string) driver.Info {
	g := model.GPUs[name]
	return driver.Info{Major: g.Major, Minor: g.Minor, Multiprocessors: g.Multiprocessors, Together: true,
		MaxSharedBytesPerBlock: g.Shared}
}

func launchesEveryKernel(t *testing.T, name string, gpu driver.Info, barred int) {
	t.Helper()
	gpu.Memory = 4 << 30
	launches, reasons := launchedBy(t, gpu)
	n := 0
	for _, k := range slices.Sorted(maps.Keys(launches)) {
		if launches[k] > 0 {
			continue
		}
		if n++; reasons[k] == "" {
			t.Errorf("%s: nothing launches %s", name, k)
		}
	}
	if n != barred {
		t.Errorf("%s: %d of %d kernels are not launched, expected %d: %v", name, n, len(launches), barred, reasons)
	}
}
