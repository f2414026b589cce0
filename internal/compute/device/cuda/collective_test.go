package cuda_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// ranked is the GPU of a rank.
func ranked(t *testing.T, m *emulator.Meeting) device.Device {
	t.Helper()
	rank, _ := m.Rank()
	lib := emulator.Library(t)
	d := try.Get(cuda.Open(cuda.Options{Driver: lib, NCCL: []string{lib}, Index: rank}))(t)
	t.Cleanup(func() { d.Close() })
	try.Do(t, d.(device.Joiner).Join(m))
	return composed.Over(d)
}

// Collectives of GPUs give the same results as on processors: for items dealt in turn, of one value or of several rows,
// for no rows, and for more values than a piece of the emulated NCCL; whichever stream runs ahead.
func TestCollectives(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			emulator.Ranks(t, n, func(m *emulator.Meeting) {
				d := ranked(t, m)
				for deferred := range 3 {
					emulator.Set(t, "defer", deferred, 0)
					for _, deal := range []device.Shard{{Items: 7, Width: 3}, {Items: n, Width: 5},
						{Items: 9, Width: 20_000},
						{Width: 2, Lengths: device.Ints{Host: []int32{5, 4, 4, 0, 1}}},
						{Width: 16, Lengths: device.Ints{Host: []int32{5, 4, 4}[:n]}},
						{Width: 16, Lengths: device.Ints{Host: []int32{4, 4, 4}[:n]}}} {
						deal.Rank, deal.Ranks = m.Rank()
						if err := devicetest.Collectives(d, deal); err != nil {
							t.Errorf("rank %d, %d items of %v rows of %d: %v", deal.Rank, deal.Items, deal.Lengths.Host,
								deal.Width, err)
						}
					}
				}
			})
		})
	}
}

// The results of async collectives are there after Wait, also in a recording. A recording without Wait fails.
func TestAsync(t *testing.T) {
	emulator.Ranks(t, 2, func(m *emulator.Meeting) {
		d := ranked(t, m)
		rec, _ := device.As[device.Recorder](d)
		var v [5]device.View
		for i := range v {
			b := try.Get(d.Alloc(device.Float, 1000))(t)
			v[i] = device.ViewOf(b)
		}
		x, y, z, first, second := v[0], v[1], v[2], v[3], v[4]
		step := func(joins bool) func() {
			return func() {
				device.Do(d, device.Combine{Dst: z, A: x, Alpha: 1, B: y, Beta: 1})
				device.Do(d, device.AllReduce{X: z, Async: true})
				device.Do(d, device.Combine{Dst: y, A: x, Alpha: 1, B: y, Beta: 0}) // beside it
				device.Do(d, device.AllReduce{X: y})                                // after it
				device.Do(d, device.AllReduce{X: first, Async: true})
				device.Do(d, device.AllReduce{X: second, Async: true})
				device.Do(d, device.Wait{X: second})
				device.Do(d, device.Combine{Dst: first, A: first, Alpha: 0.5})
				device.Do(d, device.Combine{Dst: second, A: second, Alpha: 0.5, B: first, Beta: 1})
				device.Do(d, device.AllReduce{X: second, Async: true})
				if joins {
					device.Do(d, device.Wait{})
				}
				device.Do(d, device.Combine{Dst: x, A: z, Alpha: 0.25, B: y, Beta: 0.25})
				device.Do(d, device.Combine{Dst: x, A: x, Alpha: 1, B: second, Beta: 1})
			}
		}
		check := func(what string) {
			got := make([]float32, 1000)
			d.DownloadFloats(got, x)
			try.Do(t, d.Sync())
			for i, v := range got {
				if v != 11.25 {
					t.Fatalf("%s: value %d is %v, expected 11.25", what, i, v)
				}
			}
		}
		for deferred := range 3 {
			emulator.Set(t, "defer", deferred, 0)
			start := func() {
				device.Do(d, device.Fill{Dst: x, Value: 1})
				device.Do(d, device.Fill{Dst: y, Value: 0.5})
				device.Do(d, device.Fill{Dst: first, Value: 2})
				device.Do(d, device.Fill{Dst: second, Value: 3})
			}
			start()
			step(true)()
			check(fmt.Sprintf("deferred %d", deferred))
			r := try.Get(rec.Record(step(true)))(t)
			for range 2 {
				start()
				rec.Replay(r)
				check(fmt.Sprintf("deferred %d, replayed", deferred))
			}
		}
		if _, err := rec.Record(func() { device.Do(d, device.AllReduce{X: x, Async: true}) }); err == nil ||
			!strings.Contains(err.Error(), "CUDA_ERROR_STREAM_CAPTURE_UNJOINED") {
			t.Errorf("a recording without Join: %v", err)
		}
	})
}

// If ranks make different calls, or calls of different sizes, the error says what each rank called.
func TestRanksDisagree(t *testing.T) {
	emulator.Ranks(t, 2, func(m *emulator.Meeting) {
		d := ranked(t, m)
		b := try.Get(d.Alloc(device.Float, 8))(t)
		x, want :=
			device.ViewOf(b), "rank 0 calls ncclAllReduce of 8 values as call 1, rank 1 ncclBroadcast of 5 values"
		if rank, _ := m.Rank(); rank == 0 {
			device.Do(d, device.AllReduce{X: x})
		} else {
			device.Do(d, device.Broadcast{X: x.Slice(0, 5)})
		}
		try.Fails(t, d.Sync(), want)
	})
}

// If a rank does not come to a collective, the error of a waiting rank names the collective.
func TestRankThatDoesNotCome(t *testing.T) {
	emulator.Ranks(t, 2, func(m *emulator.Meeting) {
		d := ranked(t, m)
		x := device.ViewOf(try.Get(d.Alloc(device.Float, 8))(t))
		device.Do(d, device.AllReduce{X: x})
		try.Do(t, d.Sync())
		if rank, _ := m.Rank(); rank == 0 {
			gpu, _ := device.As[device.Joiner](d)
			cuda.SetTimeout(gpu.(device.Device), 100*time.Millisecond)
			device.Do(d, device.AllReduce{X: x})
			try.Fails(t, d.Sync(), "the GPU has not answered for 100ms: it is at AllReduce of all ranks")
		}
		m.Wait()
	})
}

// A rank that waits for a lost rank gets an error.
func TestLostRank(t *testing.T) {
	emulator.Ranks(t, 2, func(m *emulator.Meeting) {
		d := ranked(t, m)
		if rank, _ := m.Rank(); rank == 1 {
			os.Exit(0)
		}
		b, err := d.Alloc(device.Float, 8)
		if err == nil { // the other is still there, or was not missed yet
			device.Do(d, device.AllReduce{X: device.ViewOf(b)})
			err = d.Sync()
		}
		const want = "another rank is gone, and the collectives with it were aborted"
		try.Fails(t, err, want)
	})
}
