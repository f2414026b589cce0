package cuda_test

import (
	"fmt"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/emulator"
	"vsetrain/internal/compute/device/devicetest"
)

// ranked is the GPU of a rank.
func ranked(t *testing.T, m *emulator.Meeting) device.Device {
	t.Helper()
	rank, _ := m.Rank()
	lib := emulator.Library(t)
	d, err := cuda.Open(cuda.Options{Driver: lib, NCCL: []string{lib}, Index: rank})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.(device.Joiner).Join(m); err != nil {
		t.Fatal(err)
	}
	return composed.Over(d)
}

// Collectives of GPUs are what they are of processors: of items that are dealt in turn, of one value each or of several
// rows, of none, and of more than a piece of the emulated NCCL; whichever stream goes ahead.
func TestCollectives(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			emulator.Ranks(t, n, func(m *emulator.Meeting) {
				d := ranked(t, m)
				for deferred := range 3 {
					emulator.Set(t, "defer", deferred, 0)
					for _, deal := range []device.Deal{{Items: 7, Width: 3}, {Items: n, Width: 5},
						{Items: 9, Width: 100_000},
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
