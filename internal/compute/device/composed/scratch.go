package composed

import "vsetrain/internal/compute/device"

// scratch is memory for the intermediate values of kernels, used as a stack. Its chunks stay allocated, so that the
// second run of a kernel reuses the memory of the first.
type scratch struct {
	dev    device.Device
	floats Stack[device.View]
	lacked error
}

// Stack hands out parts of chunks. To return parts, set Place to its earlier value.
type Stack[Chunk any] struct {
	Place
	Chunks []Chunk
	sizes  []int
}

// Place is how much of a stack is in use.
type Place struct{ at, used int }

const leastChunk = 1 << 14 // elements

// Take returns a chunk and the place of n free elements in it. grow allocates a chunk.
func (s *Stack[Chunk]) Take(n int, grow func(n int) (Chunk, error)) (c Chunk, lo int, err error) {
	for s.at < len(s.Chunks) && s.sizes[s.at]-s.used < n {
		s.Place = Place{s.at + 1, 0}
	}
	if s.at == len(s.Chunks) {
		size := max(n, leastChunk)
		c, err := grow(size)
		if err != nil {
			return c, 0, err
		}
		s.Chunks, s.sizes = append(s.Chunks, c), append(s.sizes, size)
	}
	lo = s.used
	s.used += n
	return s.Chunks[s.at], lo, nil
}

// Use is called at the beginning of a kernel, Give at its end:
//
//	defer d.Give(d.Use())
func (d *Device) Use() Place { return d.scratch.floats.Place }

// Give is described at Use.
func (d *Device) Give(p Place) { d.Return(p, recover()) }

// Return is Give for a caller that recovers by itself.
func (d *Device) Return(p Place, recovered any) {
	d.scratch.floats.Place = p
	if recovered != nil {
		l, ok := recovered.(lack)
		if !ok {
			panic(recovered)
		}
		d.scratch.lacked = l.err
	}
}

// lack is the panic of a kernel that finds no memory. Give recovers it, and Sync returns the error.
type lack struct{ err error }

// Lack ends a kernel that finds no memory.
func Lack(err error) { panic(lack{err}) }

// Floats returns memory of n floats with arbitrary contents.
func (d *Device) Floats(n int) device.View {
	c, lo, err := d.scratch.floats.Take(n, d.scratch.grow)
	if err != nil {
		Lack(err)
	}
	return c.Slice(lo, lo+n)
}

func (s *scratch) grow(n int) (device.View, error) {
	b, err := s.dev.Alloc(device.Float, n)
	if err != nil {
		return device.View{}, err
	}
	return device.ViewOf(b), nil
}

// release frees everything.
func (s *scratch) release() {
	for _, c := range s.floats.Chunks {
		s.dev.Free(c.Buf)
	}
	*s = scratch{dev: s.dev}
}
