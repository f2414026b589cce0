package devicetest

import "vsetrain/internal/device"

// plainKernel is a call of a kernel that has no argument struct.
type plainKernel struct {
	declare func(*device.Checker)
	call    func()
}

// plainKernels lists them by name. A kernel that takes views and is neither here nor has a struct fails testSizes.
func plainKernels(d device.Device) map[string]plainKernel {
	var v [4]device.View
	sizes := func() *device.Ints { return &device.Ints{Host: []int32{2, 2}} }
	counts := sizes()
	kernels := map[string]plainKernel{
		"Add": {func(c *device.Checker) { c.Binary(&v[0], &v[1], &v[2]) }, func() { d.Add(v[0], v[1], v[2]) }},
		"Multiply": {func(c *device.Checker) { c.Binary(&v[0], &v[1], &v[2]) },
			func() { d.Multiply(v[0], v[1], v[2]) }},
		"Scale": {func(c *device.Checker) { c.Scale(&v[0], &v[1], &v[2]) }, func() { d.Scale(v[0], v[1], v[2]) }},
		"Activate": {func(c *device.Checker) { c.Activate(device.Abs, &v[0], &v[1]) },
			func() { d.Activate(device.Abs, v[0], v[1]) }},
		"ActivateGrad": {func(c *device.Checker) { c.ActivateGrad(device.Abs, &v[0], &v[1], &v[2], &v[3]) },
			func() { d.ActivateGrad(device.Abs, v[0], v[1], v[2], v[3]) }},
		"ColumnSum": {func(c *device.Checker) { c.ColumnSum(&v[0], &v[1], 3, 2) },
			func() { d.ColumnSum(v[0], v[1], 3, 2) }},
		"Combine": {func(c *device.Checker) {
			v[2] = device.View{Buf: foreign{}}
			c.Combine(&v[0], &v[1], &v[2])
		}, func() { d.Combine(v[0], v[1], v[2], 1, 1) }},
		"SwapAxes": {func(c *device.Checker) { c.SwapAxes(&v[0], &v[1], 2, 3, 2) },
			func() { d.SwapAxes(v[0], v[1], 2, 3, 2) }},
		"SegmentMeans": {func(c *device.Checker) { c.SegmentMeans(&v[0], &v[1], counts, 3) },
			func() { d.SegmentMeans(v[0], v[1], *counts, 3) }},
		"SegmentMeansGrad": {func(c *device.Checker) { c.SegmentMeans(&v[0], &v[1], counts, 3) },
			func() { d.SegmentMeansGrad(v[1], v[0], *counts, 3) }},
		"UnpackWords": {func(c *device.Checker) { c.UnpackWords(&v[0], &v[1], counts, 3) },
			func() { d.UnpackWords(v[0], v[1], *counts, 3, false) }},
		"SumSquares": {func(c *device.Checker) { c.SumSquares(&v[0], &v[1]) }, func() { d.SumSquares(v[0], v[1]) }},
		"ClipCoefficient": {func(c *device.Checker) { c.ClipCoefficient(&v[0], &v[1], &v[2]) },
			func() { d.ClipCoefficient(v[0], v[1], v[2], 1) }},
		"UploadFloats": {func(c *device.Checker) { c.Host("dst", &v[0], device.Float, 3) },
			func() { d.UploadFloats(v[0], make([]float32, 3)) }},
		"UploadDoubles": {func(c *device.Checker) { c.Host("dst", &v[0], device.Float, 3) },
			func() { d.UploadDoubles(v[0], make([]float64, 3)) }},
		"UploadInts": {func(c *device.Checker) { c.Host("dst", &v[0], device.Int32, 3) },
			func() { d.UploadInts(v[0], make([]int32, 3)) }},
		"DownloadFloats": {func(c *device.Checker) { c.Host("src", &v[0], device.Float, 3) },
			func() { d.DownloadFloats(make([]float32, 3), v[0]) }},
		"DownloadDoubles": {func(c *device.Checker) { c.Host("src", &v[0], device.Float, 3) },
			func() { d.DownloadDoubles(make([]float64, 3), v[0]) }},
		"DownloadInts": {func(c *device.Checker) { c.Host("src", &v[0], device.Int32, 3) },
			func() { d.DownloadInts(make([]int32, 3), v[0]) }},
		"Fill": {func(c *device.Checker) { c.Fill(&v[0]) }, func() { d.Fill(v[0], 1) }},
		"Copy": {func(c *device.Checker) { c.Copy(&v[0], &v[1]) }, func() { d.Copy(v[0], v[1]) }},
	}
	adam, factored := device.AdamArgs{}, device.Factored{N: 2, O: 3, I: 4}
	kernels["AdamFactored"] = plainKernel{func(c *device.Checker) { c.AdamFactored(&adam, &factored) },
		func() { d.AdamFactored(adam, factored) }}
	kernels["SumSquaresFactored"] = plainKernel{func(c *device.Checker) { c.SumSquaresFactored(&v[0], &factored) },
		func() { d.SumSquaresFactored(v[0], factored) }}
	if r, ok := d.(device.Recorder); ok {
		drop := device.DropoutArgs{Rate: 0.5}
		kernels["DropoutPadded"] = plainKernel{func(c *device.Checker) { c.DropoutPadded(&drop, counts, 2, 0) },
			func() { r.DropoutPadded(drop, *counts, 2, 0) }}
		kernels["Guard"] = plainKernel{func(c *device.Checker) { c.Guard(&v[0], &v[1], v[2:3]) },
			func() { r.Guard(v[0], v[1], v[2]) }}
		kernels["Fetch"] = plainKernel{func(c *device.Checker) { c.Fetch(v[:2]) }, func() { r.Fetch(0, v[:2]...) }}
	}
	if s, ok := d.(device.Streamer); ok {
		kernels["StreamFloats"] = plainKernel{func(c *device.Checker) { c.Host("dst", &v[0], device.Float, 3) },
			func() { s.StreamFloats(v[0], make([]float32, 3)) }}
		kernels["StreamStage"] = plainKernel{func(c *device.Checker) { c.Host("dst", &v[0], device.Float, 3) }, func() {
			stage, err := s.NewStage(4, true)
			if err != nil {
				panic(err)
			}
			defer s.FreeStage(stage)
			s.StreamStage(v[0], stage, 3)
		}}
	}
	if r, ok := d.(device.Resident); ok {
		kernels["Gather"] = plainKernel{func(c *device.Checker) { c.Gather(&v[0], &v[1], 2) }, func() {
			t, err := r.NewTable(8, false)
			if err != nil {
				panic(err)
			}
			defer r.FreeTable(t)
			r.Gather(v[0], t, v[1], 2)
		}}
		kernels["GatherLists"] = plainKernel{func(c *device.Checker) { c.GatherLists(&v[0], &v[1], &v[2], &v[3], 2) },
			func() { r.GatherLists(v[0], v[1], v[2], v[3], 2) }}
	}
	for name, k := range kernels { // each declaration begins without views
		kernels[name] = plainKernel{func(c *device.Checker) {
			v, *counts = [4]device.View{}, *sizes()
			k.declare(c)
		}, k.call}
	}
	return kernels
}
