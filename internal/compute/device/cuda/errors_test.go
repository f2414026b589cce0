package cuda_test

import (
	"math"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

func wantError(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		try.Fails(t, err, w)
	}
}

// What is wrong with a machine or with the options is said when the device is opened.
func TestOpenErrors(t *testing.T) {
	path := emulator.Library(t)
	fail := func(what string, o cuda.Options, words ...string) {
		t.Helper()
		d, err := cuda.Open(o)
		if err == nil {
			d.Close()
		}
		wantError(t, what, err, words...)
	}
	fail("no library", cuda.Options{Driver: "/nowhere/libcuda.so.1"}, "load the CUDA driver", "/nowhere/libcuda.so.1")
	fail("no driver", cuda.Options{Driver: "libc.so.6"}, "libc.so.6 has no cu", "older than CUDA")
	fail("index", cuda.Options{Driver: path, Index: 3}, "GPU 3 does not exist", "lists 1")
	fail("precision", cuda.Options{Driver: path, Precision: "fp64"}, `precision "fp64" on cuda`, "fp32, tf32 or bf16")
	emulator.Set(t, "version", 11020, 13000)
	fail("old driver", cuda.Options{Driver: path}, "is for CUDA 11.2", "11.4 or later")
	emulator.Set(t, "version", 13000, 13000)
	emulator.Set(t, "no_device", 1, 0)
	fail("no GPU", cuda.Options{Driver: path}, "finds no GPU, or it is older than the GPU", "CUDA_ERROR_NO_DEVICE")
}

// A full GPU is an error of the allocation, which says how much was wanted and is free; the device works on.
func TestFullGPU(t *testing.T) {
	d := open(t, cuda.Options{})
	defer d.Close()
	emulator.Set(t, "memory", 8_000_000, 4<<30)
	_, err := d.Alloc(device.Float, 5_000_000)
	wantError(t, "20 MB of 8", err, "allocate 20.0 MB", "of 8.0 MB are free", "CUDA_ERROR_OUT_OF_MEMORY")
	b := try.Get(d.Alloc(device.Float, 1000))(t)
	device.Do(d, device.Fill{Dst: device.ViewOf(b), Value: 3})
	try.Do(t, d.Sync())
}

// A fault in a kernel comes back from Sync with the name of the kernel, from every later Sync too; nothing is computed
// after it and downloads are NaN.
func TestFaultInAKernel(t *testing.T) {
	d := open(t, cuda.Options{})
	words := []int32{0, 1}
	buffer := func(t0 device.DType, n int) device.View {
		b := try.Get(d.Alloc(t0, n))(t)
		return device.ViewOf(b)
	}
	ids, lengths := device.Ints{View: buffer(device.Int32, 2), Host: words}, device.Ints{View: buffer(device.Int32, 1),
		Host: []int32{2}}
	d.UploadInts(ids.View, []int32{0, 1 << 20}) // the device holds what the host does not know of
	d.UploadInts(lengths.View, lengths.Host)
	out := buffer(device.Float, 6)
	device.Do(d, device.GatherWords{Words: ids, Lengths: lengths, L: 2, V: 4, D: 3, Table: buffer(device.Float, 12),
		Out: out})
	for range 2 {
		wantError(t, "word id beyond the table", d.Sync(), "kernel gather_words", "CUDA_ERROR_ILLEGAL_ADDRESS",
			"reads 4 bytes")
	}
	got := make([]float32, 6)
	d.DownloadFloats(got, out)
	for i, v := range got {
		if !math.IsNaN(float64(v)) {
			t.Errorf("element %d is %v after the fault", i, v)
		}
	}
	d.Close()
	_, err := cuda.Open(cuda.Options{Driver: emulator.Library(t)}) // a fault lasts for the process
	wantError(t, "after a fault", err, "CUDA_ERROR_ILLEGAL_ADDRESS")
	emulator.Mend(t)
	next := open(t, cuda.Options{})
	defer next.Close()
	try.Do(t, next.Sync())
}

// A fault that is seen late is attributed to the work since the host last saw all done: to one kernel, or to those
// between two.
func TestLateFaultIsNarrowedDown(t *testing.T) {
	const bad = "node 7: rows"
	for _, c := range []struct {
		before, behind, fetch bool
		says                  []string
		not                   string
	}{
		{says: []string{"the GPU failed at kernel gather_table in node 7: rows", "CUDA_ERROR_ILLEGAL_ADDRESS"},
			not: "LAUNCH_BLOCKING"},
		{before: true, says: []string{"from kernel add in node 6: sum to kernel gather_table in node 7: rows",
			"CUDA_LAUNCH_BLOCKING=1"}, not: "device.capture"},
		{behind: true, says: []string{"from kernel gather_table in node 7: rows to kernel add in node 8: sum"},
			not: "device.capture"},
		{before: true, fetch: true, says: []string{"the GPU failed at kernel gather_table in node 7: rows"},
			not: "node 6"},
	} {
		b := newBench(t)
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
		if c.behind {
			at("node 8: sum")
			device.Do(b.Device, device.Add{Dst: x, A: x, B: x})
		}
		if c.fetch {
			try.Get(b.Device.(device.Recorder).Fetched(0))(t)
		}
		err := b.Sync()
		wantError(t, "a bad row", err, c.says...)
		if err != nil && strings.Contains(err.Error(), c.not) {
			t.Errorf("%v: says %q", err, c.not)
		}
		b.Device.Close()
		emulator.Mend(t)
	}
	b := newBench(t)
	emulator.Set(t, "defer", 1, 0)
	b.Device.(device.Namer).At(bad)
	device.Do(b.Device, device.GatherWords{Words: device.Ints{View: b.ints(1 << 20), Host: []int32{0}},
		Lengths: device.Ints{View: b.ints(1), Host: []int32{1}}, L: 1, V: 2, D: 2,
		Table: b.floats(1, 2, 3, 4), Out: b.floats(0, 0)})
	wantError(t, "several kernels of a node", b.Sync(), "it was work in node 7: rows, from kernel pack_starts to "+
		"kernel gather_words")
	emulator.Mend(t)
}

// A recording is named by what was said before it was made, with the way to find the node.
func TestFaultInARecording(t *testing.T) {
	for _, deferred := range []int{0, 1} {
		b := newBench(t)
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
		wantError(t, "a lost GPU", b.Sync(), "recorded training step of vsepp", "device.capture: never",
			"CUDA_LAUNCH_BLOCKING=1")
		b.Device.Close()
		emulator.Mend(t)
	}
}
