package cuda_test

import (
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// Small uploads come to the GPU together and to their places, more than one call of the kernel takes: before a kernel
// that reads them and after one that still reads what was there. The host's memory may change at once, and of two
// uploads to one place the later one stays.
func TestUploadsTogether(t *testing.T) {
	emulator.Set(t, "defer", 1, 0)
	b := newBench(t, cuda.Options{})
	var to, sums []device.View
	for i := range 23 {
		to, sums = append(to, b.alloc(device.Float, 2*i)), append(sums, b.alloc(device.Float, 2*i))
	}
	zero := b.alloc(device.Float, 64)
	for round := range 3 {
		for i, v := range to {
			host := make([]float32, v.N)
			for k := range host {
				host[k] = float32(100*i + k + round)
			}
			b.UploadFloats(v, host)
			clear(host)
		}
		b.UploadFloats(to[5].Slice(1, 3), []float32{-1, -2})
		for i, v := range to {
			if v.N > 0 {
				device.Do(b.Device, device.Add{Dst: sums[i], A: v, B: zero.Slice(0, v.N)})
			}
		}
		for i, v := range sums {
			want := make([]float32, v.N)
			for k := range want {
				want[k] = float32(100*i + k + round)
			}
			if i == 5 {
				want[1], want[2] = -1, -2
			}
			if i > 0 {
				b.want("sum", v, want...)
			}
		}
	}
}

// What reads or overwrites an upload that waits comes after it: copies, fills, downloads, recordings, and the end of
// its memory. A large upload does not overtake a small one.
func TestUploadsThatWait(t *testing.T) {
	b := newBench(t, cuda.Options{})
	r := b.Device.(device.Recorder)
	x, y, z := b.alloc(device.Float, 2), b.alloc(device.Float, 2), b.alloc(device.Float, 2)
	large := b.alloc(device.Float, 1<<18)
	device.Do(b.Device, device.Add{Dst: z, A: x, B: y})
	rec := try.Get(r.Record(func() { device.Do(b.Device, device.Add{Dst: z, A: x, B: y}) }))(t)
	b.UploadFloats(x, []float32{1, 2})
	b.UploadFloats(y, []float32{10, 20})
	r.Replay(rec)
	b.UploadFloats(x, []float32{3, 4}) // which the replay does not see
	b.UploadFloats(y, []float32{30, 40})
	b.want("replayed", z, 11, 22)
	r.Replay(rec)
	b.want("replayed again", z, 33, 44)

	b.UploadFloats(x, []float32{5, 6})
	b.UploadFloats(y, []float32{7, 8})
	device.Do(b.Device, device.Fill{Dst: x, Value: 9})
	device.Do(b.Device, device.Copy{Dst: z, Src: y})
	b.want("filled", x, 9, 9)
	b.want("copied", z, 7, 8)

	b.UploadFloats(large.Slice(0, 2), []float32{1, 2})
	b.UploadFloats(z, []float32{1, 2})
	values := slices.Repeat([]float32{3}, large.N)
	b.UploadFloats(large, values)
	b.want("large", large, values...)

	gone := try.Get(b.Alloc(device.Float, 2))(t)
	b.UploadFloats(device.ViewOf(gone), []float32{1, 2})
	b.UploadFloats(z, []float32{math.MaxFloat32, 2})
	b.Free(gone)
	b.want("beside memory that is freed", z, math.MaxFloat32, 2)
}

// Uploads without a kernel in between are one copy and one kernel, and so is what is fetched.
func TestUploadsAreOne(t *testing.T) {
	b := newBench(t, cuda.Options{})
	d := b.Device
	x, y, z := b.alloc(device.Float, 2), b.alloc(device.Int32, 3), b.alloc(device.Float, 9)
	try.Do(t, d.Sync())
	names, _, err := cuda.Launched(d, func() {
		d.UploadFloats(x, make([]float32, 2))
		d.UploadInts(y, make([]int32, 3))
		d.UploadFloats(z, make([]float32, 9))
		d.(device.Recorder).Fetch(0, x, z, x)
		try.Get(d.(device.Recorder).Fetched(0))(t)
	})
	want := []string{"host copy", "copy_parts", "copy_parts", "host copy"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("three uploads and a fetch: %q, %v, expected %q", names, err, want)
	}
	names, _, err = cuda.Launched(d, func() {
		d.UploadFloats(z.Slice(0, 5), make([]float32, 5))
		d.UploadFloats(z.Slice(4, 6), make([]float32, 2)) // blocks have no order
		try.Do(t, d.Sync())
	})
	if err != nil || !slices.Equal(names, []string{"host copy", "host copy"}) {
		t.Errorf("two uploads to one place: %q, %v", names, err)
	}
}
