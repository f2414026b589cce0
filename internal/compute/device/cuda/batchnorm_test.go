package cuda_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/null"
	"vsetrain/internal/house/try"
)

// Batch normalisation of the sizes of the networks gives every multiprocessor of a large GPU three blocks or more, in
// both directions.
func TestBatchNormFillsTheGPU(t *testing.T) {
	d, err := cuda.Open(cuda.Options{On: null.New(driver.Info{Major: 9, Multiprocessors: 132, Memory: 10 << 30})})
	try.Do(t, err)
	defer d.Close()
	view := func(n int) device.View {
		b := try.Get(d.Alloc(device.Float, n))(t)
		return device.Of(b)
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
		calls, err := d.(cuda.Profiler).Profile(false, func() error {
			device.Do(d, a)
			device.DoGrad(d, a)
			return nil
		})
		if err != nil || len(calls) != 4 {
			t.Fatalf("%s: %d calls, want 4: %v", network, len(calls), err)
		}
		for _, c := range calls {
			if blocks := c.Launch.Grid[0] * c.Launch.Grid[1]; blocks < 3*132 {
				t.Errorf("%s: %s has %d blocks of %d threads", network, c.Kernel, blocks, c.Launch.Threads)
			}
		}
	}
}
