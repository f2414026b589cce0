package cuda_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/files/half"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// sender returns a way to stream values to a view: from memory that is free when the call returns, or from stages.
func sender(b *bench, from string) func(x device.View, values []float32) {
	s := b.Device.(device.Streamer)
	if from == "memory" {
		return func(x device.View, values []float32) {
			host := slices.Clone(values)
			s.StreamFloats(x, host)
			clear(host)
		}
	}
	return func(x device.View, values []float32) {
		stage, err := s.NewStage(len(values)+1, from == "halves")
		if err != nil {
			b.Fatal(err)
		}
		copy(stage.Floats(), values)
		halves := make([]byte, 2*len(values))
		half.Encode(halves, values)
		for i := range stage.Halves()[:min(len(values), len(stage.Halves()))] {
			stage.Halves()[i] = binary.LittleEndian.Uint16(halves[2*i:])
		}
		s.StreamStage(x, stage, len(values))
	}
}

// streamed sends two sets of values to one buffer and returns what kernels after each of them read.
func streamed(b *bench, n int, from string) (first, second []float32) {
	values := [2][]float32{make([]float32, n), make([]float32, n)}
	for i := range n {
		values[0][i], values[1][i] = float32(i+1), float32(-i-1)
	}
	send := sender(b, from)
	x, zero := b.alloc(device.Float, n), b.alloc(device.Float, n)
	device.Do(b.Device, device.Fill{Dst: x, Value: math.NaN()})
	var read [2]device.View
	for i, v := range values {
		read[i] = b.alloc(device.Float, n)
		send(x, v)
		device.Do(b.Device, device.Add{Dst: read[i], A: x, B: zero})
	}
	first, second = make([]float32, n), make([]float32, n)
	b.DownloadFloats(first, read[0])
	b.DownloadFloats(second, read[1])
	return first, second
}

func right(first, second []float32) bool {
	for i := range first {
		if first[i] != float32(i+1) || second[i] != float32(-i-1) {
			return false
		}
	}
	return true
}

// Kernels read what was streamed before them, neither older nor newer values, in whatever order the two streams work;
// and without either of the events between the streams there is an order in which they do not.
func TestStreamedValuesAreThoseBefore(t *testing.T) {
	for k := range 12 {
		missing, from, wrong := k%4-1, []string{"memory", "floats", "halves"}[k/4], 0
		for _, deferred := range []int{0, 1, 2} {
			func() {
				emulator.Set(t, "defer", deferred, 0)
				n := 0
				defer cuda.DropFollow(func() bool { n++; return n == missing+1 })()
				if !right(streamed(newBench(t, cuda.Options{}), 1000, from)) {
					wrong++
				}
			}()
		}
		// The waits are: for the first values, for the first back buffer to be empty, for the second values.
		if missing < 0 && wrong > 0 {
			t.Errorf("%s: wrong values in %d orders", from, wrong)
		} else if missing >= 0 && wrong == 0 {
			t.Errorf("%s: without wait %d the values are right in every order of the emulator", from, missing)
		}
	}
}

// Values are streamed while kernels run, larger ones than the pinned buffers hold too; an upload waits for the kernels.
func TestStreamingDoesNotWaitForKernels(t *testing.T) {
	emulator.Set(t, "defer", 1, 0)
	b := newBench(t, cuda.Options{})
	const n = 3<<20 + 5 // four pinned buffers
	x, y, host := b.alloc(device.Float, n), b.floats(1, 2), make([]float32, n)
	host[n-1] = 7
	s := b.Device.(device.Streamer)
	stage := try.Get(s.NewStage(n, true))(t)
	stage.Halves()[n-1] = 0x4700 // 7
	s.StreamFloats(x, host)      // so that there is a back buffer
	s.StreamStage(x, stage, n)   // and the module of the kernel is loaded
	for _, c := range []struct {
		name  string
		send  func(device.View, []float32)
		waits bool
	}{{"StreamFloats", s.StreamFloats, false}, {"UploadFloats", b.UploadFloats, true},
		{"StreamStage", func(x device.View, _ []float32) { s.StreamStage(x, stage, n) }, false}} {
		try.Do(t, b.Sync())
		before := emulator.Finished(t)
		device.Do(b.Device, device.Add{Dst: y, A: y, B: y})
		c.send(x, host)
		if ran := emulator.Finished(t) > before; ran != c.waits {
			t.Errorf("%s: the kernel before it has run: %v, want %v", c.name, ran, c.waits)
		}
		b.want("the last value", x.Slice(n-1, n), 7)
	}
}

// Values that come in parts, shorter and longer than before, into any place of a buffer; where the GPU has no room for
// a second copy they are uploaded.
func TestStreamedParts(t *testing.T) {
	b := newBench(t, cuda.Options{})
	s := b.Device.(device.Streamer)
	for _, from := range []string{"memory", "floats", "halves"} {
		send := sender(b, from)
		x := b.floats(1, 2, 3, 4, 5, 6, 7, 8, 9)
		send(x.Slice(1, 3), []float32{20, 30})
		b.want("two", x, 1, 20, 30, 4, 5, 6, 7, 8, 9)
		send(x.Slice(0, 4), []float32{-1, -2, -3, -4})
		b.want("four", x, -1, -2, -3, -4, 5, 6, 7, 8, 9)
		send(x.Slice(4, 5), []float32{9})
		send(x.Slice(0, 0), nil)
		b.want("one", x, -1, -2, -3, -4, 9, 6, 7, 8, 9)
		send(x, []float32{1, 0.5, -0.25, 65504, 0x1p-24, 0, 3, 2048, -7})
		b.want("all", x, 1, 0.5, -0.25, 65504, 0x1p-24, 0, 3, 2048, -7)
		y := b.floats(1, 2)
		free, total, err := b.Device.(device.Resident).FreeMemory()
		try.Do(t, err)
		emulator.Set(t, "memory", int(total-free)+3, 4<<30)
		send(y, []float32{3, 4})
		b.want("without room", y, 3, 4)
		if err := b.Sync(); err != nil {
			t.Error(err)
		}
		emulator.Set(t, "memory", 4<<30, 4<<30)
	}
	x, r := b.floats(1), b.Device.(device.Recorder)
	stage := try.Get(s.NewStage(1, true))(t)
	for what, call := range map[string]func(){"StreamFloats": func() { s.StreamFloats(x, []float32{1}) },
		"StreamStage": func() { s.StreamStage(x, stage, 1) }, "NewStage": func() { s.NewStage(1, true) }} {
		_, err := r.Record(call)
		try.Fails(t, err, what, "cannot be recorded")
	}
}

// A stage that changes before the GPU has read it is found by the emulator; one that changes after Fetched is not.
func TestStageOverwritten(t *testing.T) {
	for _, early := range []bool{true, false} {
		b := newBench(t, cuda.Options{})
		s, r := b.Device.(device.Streamer), b.Device.(device.Recorder)
		emulator.Set(t, "defer", 1, 0)
		x := b.alloc(device.Float, 8)
		stage, err := s.NewStage(8, true)
		try.Do(t, err)
		for round := range uint16(3) {
			for i := range stage.Halves() {
				stage.Halves()[i] = 0x3c00 + round
			}
			s.StreamStage(x, stage, 8)
			r.Fetch(0, x)
			if early && round == 1 {
				if _, _, err := b.Device.(device.Resident).FreeMemory(); err != nil { // the driver has the copy
					t.Fatal(err)
				}
				stage.Halves()[7] = 0x4700
			}
			if _, err = r.Fetched(0); err != nil {
				break
			}
		}
		if early {
			try.Fails(t, err, "memory of the host was overwritten before it was copied")
			emulator.Mend(t)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// Stages that the host or the device does not have.
func TestStagesThatAreNot(t *testing.T) {
	b := newBench(t, cuda.Options{})
	s := b.Device.(device.Streamer)
	x := b.floats(1, 2, 3)
	stage, err := s.NewStage(2, false)
	if err != nil || len(stage.Floats()) != 2 || stage.Halves() != nil {
		t.Fatal(stage, err)
	}
	panics := func(want string, call func()) {
		t.Helper()
		defer func() {
			if r := fmt.Sprint(recover()); !strings.Contains(r, want) {
				t.Errorf("panic %q, want %q", r, want)
			}
		}()
		call()
	}
	panics("3 values of a stage of 2", func() { s.StreamStage(x, stage, 3) })
	s.FreeStage(stage)
	panics("does not have", func() { s.StreamStage(x.Slice(0, 2), stage, 2) })
	if _, err := s.NewStage(0, true); err == nil {
		t.Error("a stage without values")
	}
	emulator.Set(t, "no_pinned", 1, 0)
	_, err = s.NewStage(2, true)
	try.Fails(t, err, "pinned memory", "OUT_OF_MEMORY")
	if err := b.Sync(); err != nil { // which is not a failure of the device
		t.Error(err)
	}
}

// Streaming to a buffer that has a back buffer allocates nothing, and freeing a buffer frees its back buffer.
func TestStreamingAllocatesNothing(t *testing.T) {
	b := newBench(t, cuda.Options{})
	s, r := b.Device.(device.Streamer), b.Device.(device.Resident)
	stage := try.Get(s.NewStage(1000, true))(t)
	free, _, err := r.FreeMemory()
	try.Do(t, err)
	x, host := b.alloc(device.Float, 1000), make([]float32, 1000)
	s.StreamFloats(x, host)
	if n := testing.AllocsPerRun(20, func() { s.StreamFloats(x, host); s.StreamStage(x, stage, 1000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b.Free(x.Buf)
	if after, _, _ := r.FreeMemory(); after != free {
		t.Errorf("%d bytes free, %d before", after, free)
	}
}
