package cuda_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// Batch normalisation of the sizes of the networks gives every multiprocessor of a large GPU three blocks or more, in
// both directions.
func TestBatchNormFillsTheGPU(t *testing.T) {
	d := try.Get(cuda.Open(cuda.Options{Driver: emulator.Strict(t)}))(t)
	defer d.Close()
	view := func(n int) device.View {
		b := try.Get(d.Alloc(device.Float, n))(t)
		return device.ViewOf(b)
	}
	for network, a := range map[string]device.BatchNorm{
		"vseinf": {Outer: 128 * 36, C: 512, Inner: 1}, "vsrn": {Outer: 128 * 36, C: 2048, Inner: 1},
		"saf": {Outer: 128, C: 36, Inner: 1024},
	} {
		n := a.Outer * a.C * a.Inner
		a.Train, a.Eps = true, 1e-5
		a.X, a.Y, a.DY, a.DX = view(n), view(n), view(n), view(n)
		for _, v := range []*device.View{&a.Weight, &a.Bias, &a.RunningMean, &a.RunningVar, &a.Mean, &a.InvStd,
			&a.DWeight,
			&a.DBias} {
			*v = view(a.C)
		}
		names, launches, err := cuda.Launched(d, func() {
			device.Do(d, a)
			device.DoGrad(d, a)
		})
		if err != nil || len(names) != 4 {
			t.Fatalf("%s: %q, want 4 launches: %v", network, names, err)
		}
		for i, l := range launches {
			if blocks := l.Grid[0] * l.Grid[1]; blocks < 3*132 {
				t.Errorf("%s: %s has %d blocks of %d threads", network, names[i], blocks, l.Threads)
			}
		}
	}
}

// Over ranks each image lacks rows of the longest of all, also the only image of a rank: of four values and two padding
// rows the mean is 2.
func TestBatchNormOfOneImage(t *testing.T) {
	emulator.Ranks(t, 2, func(m *emulator.Meeting) {
		d := ranked(t, m)
		view := func(values ...float32) device.View {
			v := device.ViewOf(try.Get(d.Alloc(device.Float, len(values)))(t))
			d.UploadFloats(v, values)
			return v
		}
		rank, _ := m.Rank()
		x, counts := [][]float32{{6}, {1, 2, 3}}[rank], [][]int32{{1}, {2, 1}}[rank]
		a := device.BatchNorm{Outer: len(x), C: 1, Inner: 1, Pads: rank, Eps: 1e-5, Train: true, X: view(x...),
			Y: view(x...), Weight: view(1), Bias: view(0), RunningMean: view(0), RunningVar: view(1), Mean: view(0),
			InvStd: view(0), Pad: view(0), Counts: device.Ints{Host: counts}}
		device.Do(d, a)
		var mean [1]float32
		d.DownloadFloats(mean[:], a.Mean)
		if err := d.Sync(); err != nil || mean[0] != 2 {
			t.Errorf("rank %d: the mean is %v: %v", rank, mean[0], err)
		}
	})
}
