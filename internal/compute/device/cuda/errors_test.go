package cuda_test

import (
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// Open reports what is wrong with the machine or the options.
func TestOpenErrors(t *testing.T) {
	path := emulator.Library(t)
	fail := func(o cuda.Options, words ...string) {
		t.Helper()
		try.Refuses(cuda.Open(o))(t, words...)
	}
	fail(cuda.Options{Driver: "/nowhere/libcuda.so.1"}, "load the CUDA driver", "/nowhere/libcuda.so.1")
	fail(cuda.Options{Driver: "libc.so.6"}, "libc.so.6 has no cu", "older than CUDA")
	fail(cuda.Options{Driver: path, Index: 3}, "GPU 3 does not exist", "lists 1")
	fail(cuda.Options{Driver: path, Precision: "fp64"}, `precision "fp64" on cuda`, "fp32, tf32 or bf16")
	emulator.Set(t, "version", 11020, 13000)
	fail(cuda.Options{Driver: path}, "is for CUDA 11.2", "11.4 or later")
	emulator.Set(t, "version", 13000, 13000)
	emulator.Set(t, "no_device", 1, 0)
	fail(cuda.Options{Driver: path}, "finds no GPU, or it is older than the GPU", "CUDA_ERROR_NO_DEVICE")
}

// On a full GPU an allocation fails with an error that says how much was wanted and is free; the device works on.
func TestFullGPU(t *testing.T) {
	b := newBench(t, cuda.Options{})
	emulator.Set(t, "memory", 8_000_000, 4<<30)
	try.Refuses(b.Alloc(device.Float, 5_000_000))(t, "allocate 20.0 MB", "of 8.0 MB are free",
		"CUDA_ERROR_OUT_OF_MEMORY")
	b.nan(1000)
	try.Do(t, b.Sync())
}

// After a fault in a kernel, every Sync returns an error with the name of the kernel; nothing is computed, and
// downloads are NaN.
func TestFaultInAKernel(t *testing.T) {
	b := &bench{t, open(t, cuda.Options{})}
	ids := device.Ints{View: b.ints(0, 1<<20), Host: []int32{0, 1}} // the host does not know the bad id
	out := b.floats(0, 0, 0, 0, 0, 0)
	device.Do(b.Device, device.GatherWords{Words: ids, Lengths: b.known(2), L: 2, V: 4, D: 3,
		Table: b.alloc(device.Float, 12), Out: out})
	for range 2 {
		try.Fails(t, b.Sync(), "kernel gather_words", "CUDA_ERROR_ILLEGAL_ADDRESS", "reads 4 bytes")
	}
	for i, v := range b.doubles(out) {
		if v == v {
			t.Errorf("element %d is %v after the fault", i, v)
		}
	}
	b.Close()
	// The fault lasts for the process.
	try.Refuses(cuda.Open(cuda.Options{Driver: emulator.Library(t)}))(t, "CUDA_ERROR_ILLEGAL_ADDRESS")
	emulator.Mend(t)
	try.Do(t, newBench(t, cuda.Options{}).Sync())
}

// A fault that is seen late is attributed to the work since the host last saw all work done: to one kernel, or to a
// range of kernels.
func TestLateFaultIsNarrowedDown(t *testing.T) {
	const bad = "node 7: rows"
	for _, c := range []struct {
		before, after, fetch bool
		says                 []string
		not                  string
	}{
		{says: []string{"the GPU failed at kernel gather_table in node 7: rows", "CUDA_ERROR_ILLEGAL_ADDRESS"},
			not: "LAUNCH_BLOCKING"},
		{before: true, says: []string{"from kernel add in node 6: sum to kernel gather_table in node 7: rows",
			"CUDA_LAUNCH_BLOCKING=1"}, not: "device.capture"},
		{after: true, says: []string{"from kernel gather_table in node 7: rows to kernel add in node 8: sum"},
			not: "device.capture"},
		{before: true, fetch: true, says: []string{"the GPU failed at kernel gather_table in node 7: rows"},
			not: "node 6"},
	} {
		b := newBench(t, cuda.Options{})
		emulator.Set(t, "defer", 1, 0)
		at, r := b.Device.(device.Namer).At, b.Device.(device.Resident)
		x, index := b.floats(1, 2), b.ints(1<<20) // a row beyond the table
		table := try.Get(r.NewTable(4, false))(t)
		at("node 5: sum, seen done")
		device.Do(b.Device, device.Add{Dst: x, A: x, B: x})
		try.Do(t, b.Sync())
		at("")
		if c.before {
			at("node 6: sum")
			device.Do(b.Device, device.Add{Dst: x, A: x, B: x})
		}
		if c.fetch {
			b.Device.(device.Recorder).Fetch(0, x)
		}
		at(bad)
		device.Do(b.Device, device.Gather{Dst: x, Table: table, Index: index, Width: 2})
		if c.after {
			at("node 8: sum")
			device.Do(b.Device, device.Add{Dst: x, A: x, B: x})
		}
		if c.fetch {
			try.Get(b.Device.(device.Recorder).Fetched(0))(t)
		}
		err := b.Sync()
		try.Fails(t, err, c.says...)
		if err != nil && strings.Contains(err.Error(), c.not) {
			t.Errorf("%v: says %q", err, c.not)
		}
		b.Close()
		emulator.Mend(t)
	}
	b := newBench(t, cuda.Options{})
	emulator.Set(t, "defer", 1, 0)
	b.Device.(device.Namer).At(bad)
	device.Do(b.Device, device.GatherWords{Words: device.Ints{View: b.ints(1 << 20), Host: []int32{0}},
		Lengths: b.known(1), L: 1, V: 2, D: 2, Table: b.floats(1, 2, 3, 4), Out: b.floats(0, 0)})
	try.Fails(t, b.Sync(), "it was work in node 7: rows, from kernel pack_starts to "+
		"kernel gather_words")
	emulator.Mend(t)
}

// The error of a recording names the node at its beginning, and says how to find the kernel.
func TestFaultInARecording(t *testing.T) {
	for _, deferred := range []int{0, 1} {
		b := newBench(t, cuda.Options{})
		emulator.Set(t, "defer", deferred, 0)
		n, r := b.Device.(device.Namer), b.Device.(device.Recorder)
		x := b.floats(1, 2)
		n.At("training step of vsepp")
		rec := try.Get(r.Record(func() {
			n.At("node 1: sum")
			device.Do(b.Device, device.Add{Dst: x, A: x, B: x})
			n.At("")
		}))(t)
		emulator.Set(t, "lose", 1, 0)
		r.Replay(rec)
		try.Fails(t, b.Sync(), "recorded training step of vsepp", "device.capture: never",
			"CUDA_LAUNCH_BLOCKING=1")
		b.Close()
		emulator.Mend(t)
	}
}
