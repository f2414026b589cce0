package devicetest

import "vsetrain/internal/compute/device"

// transfer is a copy between host and device: it checks one view, named dst or src, and is not a kernel.
type transfer struct {
	name, view string
	t          device.DType
	call       func(v device.View)
}

// transfers lists the transfers of a device.
func transfers(d device.Device) []transfer {
	all := []transfer{
		{"UploadFloats", "dst", device.Float, func(v device.View) { d.UploadFloats(v, make([]float32, 3)) }},
		{"UploadDoubles", "dst", device.Float, func(v device.View) { d.UploadDoubles(v, make([]float64, 3)) }},
		{"UploadInts", "dst", device.Int32, func(v device.View) { d.UploadInts(v, make([]int32, 3)) }},
		{"DownloadFloats", "src", device.Float, func(v device.View) { d.DownloadFloats(make([]float32, 3), v) }},
		{"DownloadDoubles", "src", device.Float, func(v device.View) { d.DownloadDoubles(make([]float64, 3), v) }},
		{"DownloadInts", "src", device.Int32, func(v device.View) { d.DownloadInts(make([]int32, 3), v) }},
	}
	if s, ok := device.As[device.Streamer](d); ok {
		all = append(all, transfer{"StreamFloats", "dst", device.Float,
			func(v device.View) { s.StreamFloats(v, make([]float32, 3)) }},
			transfer{"StreamStage", "dst", device.Float, func(v device.View) {
				stage, err := s.NewStage(4, true)
				if err != nil {
					panic(err)
				}
				defer s.FreeStage(stage)
				s.StreamStage(v, stage, 3)
			}})
	}
	return all
}
