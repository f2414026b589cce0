package placement_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/placement"
	"vsetrain/lab/emulator"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// More memory than there is: the error says what takes less.
func TestOutOfMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("allocates more than the address space of Linux has")
	}
	dev, err := placement.Open(device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, "", nil)
	try.Do(t, err)
	defer dev.Close()
	_, err = dev.Alloc(device.Float, 1<<48)
	try.Fails(t, placement.Explain(err, device.DefaultOptions(), ""), "device: cpu: allocate", "train.batch",
		"model.embed_dim", "docs/faq.md")
}

// device.kind auto takes the GPU if there is one, the CPU otherwise, and says so.
func TestAutoChooses(t *testing.T) {
	o := device.DefaultOptions()
	choose := func() (string, placement.Choice) {
		t.Helper()
		d, c, err := placement.Choose(o, "")
		try.Do(t, err)
		defer d.Close()
		return d.Name(), c
	}
	want := func(name string, c placement.Choice, device, reason string) {
		t.Helper()
		if !strings.HasPrefix(name, device) || !strings.Contains(c.Reason, reason) {
			t.Errorf("auto chose %s because %q, expected %s and %q", name, c.Reason, device, reason)
		}
	}
	name, c := choose()
	want(name, c, "cpu", runtest.NoDriver)
	runtest.OnEmulator(t, true)
	if name, c = choose(); c.Warnings != nil {
		t.Errorf("warnings %v with cuBLAS", c.Warnings)
	}
	want(name, c, "cuda", "chose the GPU")
	if name, _ = choose(); !strings.Contains(name, "cuBLAS") {
		t.Errorf("device %s", name)
	}
	path := os.Getenv("VSETRAIN_CUBLAS")
	t.Setenv("VSETRAIN_CUBLAS", "")
	if name, c = choose(); strings.Contains(name, "own products") && (len(c.Warnings) == 0 ||
		!strings.Contains(c.Warnings[0].Error(), "cuBLAS not found")) {
		t.Errorf("%s: warnings %v", name, c.Warnings)
	}
	t.Setenv("VSETRAIN_CUBLAS", path)
	o.Precision = "fp64"
	name, c = choose()
	want(name, c, "cpu", "fp64")
	o.Precision, o.Index = "fp32", 3
	_, _, err := placement.Choose(o, "")
	try.Fails(t, err, "GPU 3 does not exist", "lists 1", "device.index")
	emulator.Set(t, "devices", 4, 1)
	name, c = choose()
	want(name, c, "cuda", "chose the GPU")
	o.Index = 0
	emulator.Set(t, "no_device", 1, 0)
	name, c = choose()
	want(name, c, "cpu", "finds no GPU")
	if c.Warnings != nil {
		t.Errorf("without a GPU: warnings %v", c.Warnings)
	}
	emulator.Set(t, "no_device", 0, 0)
	// a GPU is there
	for setting, says := range map[string]string{"version": "is for CUDA 0.0",
		"capability": "has compute capability 0.0"} {
		emulator.Set(t, setting, 0, map[string]int{"version": 13000, "capability": 90}[setting])
		name, c = choose()
		want(name, c, "cpu", says)
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), "a GPU is there and cannot be used, so "+
			"the CPU computes: ") {
			t.Errorf("%s: warnings %v", setting, c.Warnings)
		}
		emulator.Set(t, setting, map[string]int{"version": 13000, "capability": 90}[setting], 0)
	}
	emulator.Set(t, "version", 13000, 13000)
	emulator.Set(t, "capability", 90, 90)
	emulator.Set(t, "stub", 1, 0)
	if name, c = choose(); c.Warnings != nil {
		t.Errorf("with a stub: warnings %v", c.Warnings)
	}
	want(name, c, "cpu", "from LD_LIBRARY_PATH")
	emulator.Set(t, "stub", 0, 0)
	emulator.Set(t, "no_blas", 1, 0)
	if name, c = choose(); !strings.Contains(name, "own products") || len(c.Warnings) != 1 ||
		!strings.Contains(c.Warnings[0].Error(), "no cuBLAS starts") {
		t.Errorf("with a cuBLAS that does not start: %s, warnings %v", name, c.Warnings)
	}
	emulator.Set(t, "no_device", 1, 0)
	o.Kind = "cuda"
	_, _, err = placement.Choose(o, "")
	try.Fails(t, err, "finds no GPU", "set device.kind to auto or cpu")
}
