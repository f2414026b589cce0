package ranks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/devicetest"
	"vsetrain/internal/compute/device/toy"
	"vsetrain/internal/compute/gemm"
)

func open(t *testing.T, w World, precision string) device.Device {
	d, err := cpu.New(cpu.Options{Threads: 1, Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	own, err := New(d, w)
	if err != nil {
		t.Fatal(err)
	}
	return composed.Over(own)
}

// Collectives of items that are dealt in turn are right: of one value each or of several rows, of none, and of more
// than a piece.
func TestCollectives(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.FP64} {
		for n := 1; n <= 4; n++ {
			for _, deal := range []device.Deal{{Items: 7, Width: 3}, {Items: 5, Width: 1}, {Items: 9, Width: 100_000},
				{Width: 2, Lengths: device.Ints{Host: []int32{5, 4, 4, 0, 1}}},
				{Width: 9000, Lengths: device.Ints{Host: []int32{50, 30, 29, 28, 2, 1, 1}}}} {
				deal.Ranks = n
				devicetest.Ranks(n, func(w *devicetest.World) {
					d, deal := open(t, w, precision), deal
					deal.Rank, _ = w.Rank()
					if err := collectives(d, deal); err != nil {
						t.Errorf("%s, rank %d of %d, %d items of %v rows of %d: %v", precision, deal.Rank, n,
							deal.Items, deal.Lengths.Host, deal.Width, err)
					}
				})
			}
		}
	}
}

// collectives compares the kernels with their definition: value k of all is k, and k + 1000·rank for a sum.
func collectives(d device.Device, deal device.Deal) error {
	all, own := deal.Values()
	var want []float64 // of this rank
	at := 0
	deal.Each(func(rank, n int) {
		for k := at; k < at+n && rank == deal.Rank; k++ {
			want = append(want, float64(k))
		}
		at += n
	})
	count := func(n int, plus float64) []float64 {
		x := make([]float64, n)
		for k := range x {
			x[k] = float64(k) + plus
		}
		return x
	}
	view := func(x []float64) device.View {
		b, err := d.Alloc(device.Float, max(1, len(x)))
		if err != nil {
			panic(err)
		}
		v := device.Of(b).Slice(0, len(x))
		d.UploadDoubles(v, x)
		return v
	}
	equal := func(what string, v device.View, want []float64) error {
		x := make([]float64, v.N)
		d.DownloadDoubles(x, v)
		if err := d.Sync(); err != nil {
			return err
		}
		if !slices.Equal(x, want) {
			return fmt.Errorf("%s: %d values, expected %d: %.20v, expected %.20v", what, len(x), len(want), x[:min(9,
				len(x))], want[:min(9, len(want))])
		}
		return nil
	}
	x, y := view(want), view(make([]float64, all))
	device.Do(d, device.AllGather{Deal: deal, X: x, Y: y})
	if err := equal("AllGather", y, count(all, 0)); err != nil {
		return err
	}
	dx := view(make([]float64, own))
	device.DoGrad(d, device.AllGather{Deal: deal, DX: dx, DY: y})
	if err := equal("AllGatherGrad", dx, want); err != nil {
		return err
	}
	ranked := view(count(all, 1000*float64(deal.Rank)))
	device.Do(d, device.ReduceScatter{Deal: deal, X: ranked, Y: dx})
	r := float64(deal.Ranks)
	summed := make([]float64, own)
	for i, v := range want {
		summed[i] = r*v + 1000*r*(r-1)/2
	}
	if err := equal("ReduceScatter", dx, summed); err != nil {
		return err
	}
	if !d.Wide() {
		summed = make([]float64, own)
		for i, v := range want {
			for rank := range deal.Ranks {
				summed[i] = float64(float32(summed[i]) + gemm.RoundBF16(float32(v+1000*float64(rank))))
			}
			if deal.Ranks == 1 {
				summed[i] = v
			}
		}
		device.Do(d, device.ReduceScatter{Deal: deal, BF16: true, X: ranked, Y: dx})
		if err := equal("ReduceScatter in bf16", dx, summed); err != nil {
			return err
		}
	}
	device.Do(d, device.Broadcast{Root: deal.Ranks - 1, X: ranked})
	if err := equal("Broadcast", ranked, count(all, 1000*(r-1))); err != nil {
		return err
	}
	for _, behind := range []bool{false, true} {
		same := view([]float64{1, float64(deal.Rank)})
		device.Do(d, device.Fill{Dst: y})
		device.Do(d, device.AllReduce{Behind: behind, X: same})
		device.Do(d, device.AllGather{Deal: deal, Behind: behind, X: x, Y: y})
		device.Do(d, device.Join{})
		if err := errors.Join(equal("AllReduce", same, []float64{r, r * (r - 1) / 2}),
			equal("AllGather", y, count(all, 0))); err != nil {
			return fmt.Errorf("behind %v: %w", behind, err)
		}
	}
	job, _ := device.As[device.Ranked](d)
	job.Wait()
	return d.Sync()
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
			device.Do(d, device.AllReduce{X: device.Of(b)})
		}
		if err := d.Sync(); err == nil || !strings.HasPrefix(err.Error(), "rank 0 of 2: another rank has ended") {
			t.Errorf("%v", err)
		}
		if _, err := New(toy.New(), w); err == nil || !strings.Contains(err.Error(), "set device.kind to cpu") {
			t.Errorf("a device without memory of the host: %v", err)
		}
	})
}
