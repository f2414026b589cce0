package composed

import "vsetrain/internal/compute/device"

// scratch is memory for the intermediate values of kernels, taken and given back as a stack. Chunks stay, so that the
// second run of a kernel finds the memory of the first.
type scratch struct {
	dev      device.Device
	floats   stack[device.View]
	ints     stack[device.View]
	numbers  stack[[]int32]   // of the host, beside ints
	doubles  stack[[]float64] // of the host
	layouts  []*device.Layout
	layoutAt int
	lacked   error
}

// stack hands out parts of chunks.
type stack[Chunk any] struct {
	chunks   []Chunk
	sizes    []int
	at, used int
}

const leastChunk = 1 << 14 // elements

// take returns the chunk and the place in it of n elements; grow makes a chunk.
func (s *stack[Chunk]) take(n int, grow func(n int) (Chunk, error)) (c Chunk, lo int, err error) {
	for s.at < len(s.chunks) && s.sizes[s.at]-s.used < n {
		s.at, s.used = s.at+1, 0
	}
	if s.at == len(s.chunks) {
		size := max(n, leastChunk)
		c, err := grow(size)
		if err != nil {
			return c, 0, err
		}
		s.chunks, s.sizes = append(s.chunks, c), append(s.sizes, size)
	}
	lo = s.used
	s.used += n
	return s.chunks[s.at], lo, nil
}

// mark is how much of the scratch memory is in use.
type mark struct{ floats, ints, numbers, doubles, layouts, floatsAt, intsAt, numbersAt, doublesAt int }

// use is called at the beginning of a kernel, give at its end:
//
//	defer d.give(d.use())
func (d *Device) use() mark {
	s := &d.scratch
	return mark{s.floats.used, s.ints.used, s.numbers.used, s.doubles.used, s.layoutAt,
		s.floats.at, s.ints.at, s.numbers.at, s.doubles.at}
}

// lack is the panic of a kernel that finds no memory: it ends where the kernel began, and Sync tells.
type lack struct{ err error }

func (d *Device) give(m mark) {
	s := &d.scratch
	s.floats.used, s.ints.used, s.numbers.used, s.doubles.used, s.layoutAt = m.floats, m.ints, m.numbers, m.doubles,
		m.layouts
	s.floats.at, s.ints.at, s.numbers.at, s.doubles.at = m.floatsAt, m.intsAt, m.numbersAt, m.doublesAt
	if r := recover(); r != nil {
		l, ok := r.(lack)
		if !ok {
			panic(r)
		}
		s.lacked = l.err
	}
}

// floats returns memory of n floats; what it holds is arbitrary.
func (d *Device) floats(n int) device.View {
	c, lo, err := d.scratch.floats.take(n, d.scratch.growFloats)
	if err != nil {
		panic(lack{err})
	}
	return c.Slice(lo, lo+n)
}

func (s *scratch) growFloats(n int) (device.View, error) { return s.grow(device.Float, n) }
func (s *scratch) growInts(n int) (device.View, error)   { return s.grow(device.Int32, n) }

func (s *scratch) grow(t device.DType, n int) (device.View, error) {
	b, err := s.dev.Alloc(t, n)
	if err != nil {
		return device.View{}, err
	}
	return device.Of(b), nil
}

// filled returns n floats of one value.
func (d *Device) filled(n int, value float64) device.View {
	v := d.floats(n)
	device.Do(d, device.Fill{Dst: v, Value: value})
	return v
}

// host returns n float64 of the host.
func (d *Device) host(n int) []float64 {
	c, lo, _ := d.scratch.doubles.take(n, makeSlice[float64])
	return c[lo : lo+n : lo+n]
}

func makeSlice[T any](n int) ([]T, error) { return make([]T, n), nil }

// upload copies values of the host to the device.
func (d *Device) upload(x []float64) device.View {
	v := d.floats(len(x))
	d.UploadDoubles(v, x)
	return v
}

// numbers returns n integers, to be set in Host and then sent.
func (d *Device) numbers(n int) device.Ints {
	s := &d.scratch
	c, lo, err := s.ints.take(n, s.growInts)
	if err != nil {
		panic(lack{err})
	}
	h, at, _ := s.numbers.take(n, makeSlice[int32])
	if s.layoutAt == len(s.layouts) {
		s.layouts = append(s.layouts, &device.Layout{})
	}
	l := s.layouts[s.layoutAt]
	s.layoutAt++
	l.Reset()
	return device.Ints{View: c.Slice(lo, lo+n), Host: h[at : at+n : at+n], Layout: l}
}

// send copies the host's values to the device.
func (d *Device) send(x device.Ints) device.Ints {
	d.UploadInts(x.View, x.Host)
	return x
}

// each returns n times the same number.
func (d *Device) each(n, number int) device.Ints {
	x := d.numbers(n)
	for i := range x.Host {
		x.Host[i] = int32(number)
	}
	return d.send(x)
}

// release frees everything.
func (s *scratch) release() {
	for _, c := range append(s.floats.chunks, s.ints.chunks...) {
		s.dev.Free(c.Buf)
	}
	*s = scratch{dev: s.dev}
}
