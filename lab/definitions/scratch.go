package definitions

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
)

// scratch is memory for intermediate values beside floats (composed.Device).
type scratch struct {
	ints     composed.Stack[device.View]
	numbers  composed.Stack[[]int32] // of the host, beside ints
	doubles  composed.Stack[[]float64]
	layouts  []*device.Layout
	layoutAt int
}

// Mark is how much of the scratch memory is in use.
type Mark struct {
	floats, ints, numbers, doubles composed.Place
	layouts                        int
}

// Use begins the use of scratch memory by a kernel. Give ends it: defer d.Give(d.Use()).
func (d *Device) Use() Mark {
	s := &d.scratch
	return Mark{d.Device.Use(), s.ints.Place, s.numbers.Place, s.doubles.Place, s.layoutAt}
}

// Give ends a Use.
func (d *Device) Give(m Mark) {
	s := &d.scratch
	s.ints.Place, s.numbers.Place, s.doubles.Place, s.layoutAt = m.ints, m.numbers, m.doubles, m.layouts
	d.Return(m.floats, recover())
}

func (d *Device) growInts(n int) (device.View, error) {
	b, err := d.Alloc(device.Int32, n)
	if err != nil {
		return device.View{}, err
	}
	return device.ViewOf(b), nil
}

// Filled returns n floats of one value.
func (d *Device) Filled(n int, value float64) device.View {
	v := d.Floats(n)
	device.Do(d, device.Fill{Dst: v, Value: value})
	return v
}

// Host returns n float64 values on the host.
func (d *Device) Host(n int) []float64 {
	c, lo, _ := d.scratch.doubles.Take(n, makeSlice[float64])
	return c[lo : lo+n : lo+n]
}

func makeSlice[T any](n int) ([]T, error) { return make([]T, n), nil }

// Upload copies values of the host to the device.
func (d *Device) Upload(x []float64) device.View {
	v := d.Floats(len(x))
	d.UploadDoubles(v, x)
	return v
}

// Numbers returns n integers. The caller sets them in Host and then calls Send.
func (d *Device) Numbers(n int) device.Ints {
	s := &d.scratch
	c, lo, err := s.ints.Take(n, d.growInts)
	if err != nil {
		composed.Lack(err)
	}
	h, at, _ := s.numbers.Take(n, makeSlice[int32])
	if s.layoutAt == len(s.layouts) {
		s.layouts = append(s.layouts, &device.Layout{})
	}
	l := s.layouts[s.layoutAt]
	s.layoutAt++
	l.Reset()
	return device.Ints{View: c.Slice(lo, lo+n), Host: h[at : at+n : at+n], Layout: l}
}

// Send copies the host's values to the device.
func (d *Device) Send(x device.Ints) device.Ints {
	d.UploadInts(x.View, x.Host)
	return x
}

// Each returns a number n times.
func (d *Device) Each(n, number int) device.Ints {
	x := d.Numbers(n)
	for i := range x.Host {
		x.Host[i] = int32(number)
	}
	return d.Send(x)
}
