package cuda_test

import (
	"math"
	"slices"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
)

// streamed sends two sets of values to one buffer and returns what kernels behind each of them read.
func streamed(b *bench, n int) (first, second []float32) {
	values := [2][]float32{make([]float32, n), make([]float32, n)}
	for i := range n {
		values[0][i], values[1][i] = float32(i+1), float32(-i-1)
	}
	s := b.Device.(device.Streamer)
	x, zero := b.alloc(device.Float, n), b.alloc(device.Float, n)
	b.Fill(x, math.NaN())
	var read [2]device.View
	for i, v := range values {
		read[i] = b.alloc(device.Float, n)
		host := slices.Clone(v)
		s.StreamFloats(x, host)
		clear(host) // the host's memory is free when the call returns
		b.Add(read[i], x, zero)
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
	for missing := -1; missing < 3; missing++ {
		wrong := 0
		for _, deferred := range []int{0, 1, 2} {
			func() {
				emulator.Set(t, "defer", deferred, 0)
				n := 0
				defer cuda.DropFollow(func() bool { n++; return n == missing+1 })()
				if !right(streamed(newBench(t), 1000)) {
					wrong++
				}
			}()
		}
		// The waits are: for the first values, for the first back buffer to be empty, for the second values.
		if missing < 0 && wrong > 0 {
			t.Errorf("wrong values in %d orders", wrong)
		} else if missing >= 0 && wrong == 0 {
			t.Errorf("without wait %d the values are right in every order of the emulator", missing)
		}
	}
}

// Values are streamed while kernels run, larger ones than the pinned buffers hold too; an upload waits for the kernels.
func TestStreamingDoesNotWaitForKernels(t *testing.T) {
	emulator.Set(t, "defer", 1, 0)
	b := newBench(t)
	const n = 3<<20 + 5 // four pinned buffers
	x, y, host := b.alloc(device.Float, n), b.floats(1, 2), make([]float32, n)
	host[n-1] = 7
	send := b.Device.(device.Streamer).StreamFloats
	send(x, host) // so that there is a back buffer
	for _, c := range []struct {
		name  string
		send  func(device.View, []float32)
		waits bool
	}{{"StreamFloats", send, false}, {"UploadFloats", b.UploadFloats, true}} {
		if err := b.Sync(); err != nil {
			t.Fatal(err)
		}
		before := emulator.Finished(t)
		b.Add(y, y, y)
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
	b := newBench(t)
	s := b.Device.(device.Streamer)
	x := b.floats(1, 2, 3, 4, 5)
	s.StreamFloats(x.Slice(1, 3), []float32{20, 30})
	b.want("two", x, 1, 20, 30, 4, 5)
	s.StreamFloats(x.Slice(0, 4), []float32{-1, -2, -3, -4})
	b.want("four", x, -1, -2, -3, -4, 5)
	s.StreamFloats(x.Slice(4, 5), []float32{9})
	s.StreamFloats(x.Slice(0, 0), nil)
	b.want("one", x, -1, -2, -3, -4, 9)
	y := b.floats(1, 2)
	free, total, err := b.Device.(device.Resident).FreeMemory()
	if err != nil {
		t.Fatal(err)
	}
	emulator.Set(t, "memory", int(total-free)+4, 4<<30)
	s.StreamFloats(y, []float32{3, 4})
	b.want("without room", y, 3, 4)
	if err := b.Sync(); err != nil {
		t.Error(err)
	}
	_, err = b.Device.(device.Recorder).Record(func() { s.StreamFloats(x.Slice(0, 1), []float32{1}) })
	wantError(t, "recording", err, "StreamFloats", "cannot be recorded")
}

// Streaming to a buffer that has a back buffer allocates nothing, and freeing a buffer frees its back buffer.
func TestStreamingAllocatesNothing(t *testing.T) {
	b := newBench(t)
	s, r := b.Device.(device.Streamer), b.Device.(device.Resident)
	free, _, err := r.FreeMemory()
	if err != nil {
		t.Fatal(err)
	}
	x, host := b.alloc(device.Float, 1000), make([]float32, 1000)
	s.StreamFloats(x, host)
	if n := testing.AllocsPerRun(20, func() { s.StreamFloats(x, host) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b.Free(x.Buf)
	if after, _, _ := r.FreeMemory(); after != free {
		t.Errorf("%d bytes free, %d before", after, free)
	}
}
