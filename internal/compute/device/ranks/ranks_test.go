package ranks

import (
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/reference"
	"vsetrain/lab/try"
)

func open(t *testing.T, w World, precision string) device.Device {
	d := try.Get(cpu.New(cpu.Options{Threads: 1, Precision: precision}))(t)
	t.Cleanup(func() { d.Close() })
	own := try.Get(New(d, w))(t)
	return composed.Over(own)
}

// Collectives of items that are dealt in turn are right: of one value each or of several rows, of none, and of more
// than a piece.
func TestCollectives(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.FP64} {
		for n := 1; n <= 4; n++ {
			for _, deal := range []device.Shard{{Items: 7, Width: 3}, {Items: 5, Width: 1}, {Items: 9, Width: 100_000},
				{Width: 2, Lengths: device.Ints{Host: []int32{5, 4, 4, 0, 1}}},
				{Width: 9000, Lengths: device.Ints{Host: []int32{50, 30, 29, 28, 2, 1, 1}}}} {
				deal.Ranks = n
				devicetest.Ranks(n, func(w *devicetest.World) {
					d, deal := open(t, w, precision), deal
					deal.Rank, _ = w.Rank()
					if err := devicetest.Collectives(d, deal); err != nil {
						t.Errorf("%s, rank %d of %d, %d items of %v rows of %d: %v", precision, deal.Rank, n,
							deal.Items, deal.Lengths.Host, deal.Width, err)
					}
				})
			}
		}
	}
}

// A rank that is alone in a collective has an error, and makes no other afterwards; one without host memory is refused.
func TestFailures(t *testing.T) {
	devicetest.Ranks(2, func(w *devicetest.World) {
		rank, _ := w.Rank()
		if rank == 1 {
			return
		}
		d := open(t, w, cpu.FP32)
		b, err := d.Alloc(device.Float, 3)
		if err != nil {
			t.Error(err)
			return
		}
		for range 2 {
			device.Do(d, device.AllReduce{X: device.ViewOf(b)})
		}
		if err := d.Sync(); err == nil || !strings.HasPrefix(err.Error(), "rank 0 of 2: another rank has ended") {
			t.Errorf("%v", err)
		}
		try.Refuses(New(reference.New(), w))(t, "set device.kind to cpu")
	})
}
