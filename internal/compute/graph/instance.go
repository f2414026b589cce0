package graph

import (
	"errors"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
)

// Instance holds what all programs of one network on one device share: parameters, inputs and one slab of memory.
type Instance struct {
	Dev    device.Device
	Params *Params

	floats, ints slab
	feed         map[string]*input
	moves        int // of inputs
	gathers      []gather
	nested       *Instance
	items        []int32 // see SetPositions
}

// inner returns the instance of the graphs inside ops: the same device and parameters, with inputs and its own slab.
func (s *Instance) inner() *Instance {
	if s.nested == nil {
		s.nested = s.WithSameParams()
	}
	return s.nested
}

// bind sets an input to memory of an outer instance, with its host values where it is int32.
func (s *Instance) bind(name string, v device.Ints) {
	in := inputOf(s, name)
	in.Ints, in.n, in.external = v, v.N, true
}

// inputOf returns an input by its name.
func inputOf(s *Instance, name string) *input {
	in := s.feed[name]
	if in == nil {
		in = &input{}
		s.feed[name] = in
	}
	return in
}

// Generation changes when memory that programs use has moved.
func (s *Instance) Generation() int {
	n := s.moves + s.floats.generation + s.ints.generation
	if s.nested != nil {
		n += s.nested.Generation()
	}
	return n
}

// NewInstance allocates the parameters of a network on a device. Kernels that the device lacks are composed of other
// kernels.
func NewInstance(dev device.Device, specs []ParamSpec) (*Instance, error) {
	p, err := NewParams(dev, specs)
	if err != nil {
		return nil, err
	}
	return (&Instance{Dev: composed.Over(dev), Params: p}).WithSameParams(), nil
}

// WithSameParams returns an instance with the parameters of s, and with inputs and values of its own.
func (s *Instance) WithSameParams() *Instance {
	return &Instance{Dev: s.Dev, Params: s.Params, ints: slab{dtype: device.Int32}, feed: map[string]*input{}}
}

// Graph returns an empty graph of the instance's precision.
func (s *Instance) Graph() *Graph { return newGraph(s.Dev.Float64()) }

// slab is memory that programs use one after the other. It grows to the largest program; generation tells a program
// that its views have to be computed again.
type slab struct {
	dtype      device.DType
	view       device.View
	generation int
}

func (s *slab) reserve(dev device.Device, n int) error {
	if n <= s.view.N {
		return nil
	}
	old := s.view
	b, err := dev.Alloc(s.dtype, n)
	var full *device.OutOfMemoryError
	if errors.As(err, &full) && old.Present() { // there may be capacity in the place of the old one
		dev.Free(old.Buf)
		old, s.view = device.View{}, device.View{}
		s.generation++
		b, err = dev.Alloc(s.dtype, n)
	}
	if err != nil {
		return fmt.Errorf("allocate %d elements for activations: %w", n, err)
	}
	if old.Present() {
		dev.Free(old.Buf)
	}
	s.view = device.ViewOf(b)
	s.generation++
	return nil
}

// input is the memory of one named graph input, as large as the largest value fed so far.
type input struct {
	device.Ints         // with what kernels are told of the values of an int32 input
	n           int     // elements of the current value
	values      []int32 // of an int32 input
	shared      bool    // the view is the host's own memory
	external    bool    // the view is memory on the device that belongs to somebody else, see Bind
}

// set takes over the host values of an int32 input.
func (in *input) set(host []int32, bounded bool) {
	in.Host, in.Bounded = host, bounded
	if in.Layout == nil {
		in.Layout = &device.Layout{}
	}
	in.Layout.Reset()
}

// shareFrom is the number of values from which an input is read where the host has it, on devices that can: copying the
// regions of a batch costs a few per cent of a training step. Devices with memory of their own may stream it.
const shareFrom = 1 << 16

// inputOf returns the memory of an input with capacity for n elements.
func (s *Instance) inputOf(name string, t device.DType, n int) (*input, error) {
	in := inputOf(s, name)
	s.ungather(in)
	if in.shared || in.external {
		in.View, in.shared, in.external = device.View{}, false, false
	}
	if in.View.N < n {
		b, err := s.Dev.Alloc(t, n)
		if err != nil {
			return nil, fmt.Errorf("allocate input %s: %w", name, err)
		}
		if in.View.Present() {
			s.Dev.Free(in.View.Buf)
		}
		in.View = device.ViewOf(b)
		s.moves++
	}
	in.n = n
	return in, nil
}

// Feed sets a float input. The slice must stay unchanged until the programs that read it have run: a large one may be
// read in place.
func (s *Instance) Feed(name string, values []float32) error {
	return s.FeedPart(name, values, len(values))
}

// upload copies values to an input, large ones beside the kernels of the step before.
func (s *Instance) upload(dst device.View, values []float32) {
	if d, ok := device.As[device.Streamer](s.Dev); ok && len(values) >= shareFrom {
		d.StreamFloats(dst, values)
		return
	}
	s.Dev.UploadFloats(dst, values)
}

// share makes the input name a view of values themselves, if the device can.
func (s *Instance) share(d device.HostViewer, name string, values []float32) bool {
	in := inputOf(s, name)
	if in.external {
		in.View, in.external = device.View{}, false
	}
	var old device.View
	if in.shared {
		old = in.View
	}
	v, ok := d.ViewHost(old, values)
	if !ok {
		return false
	}
	if !in.shared && in.View.Present() {
		s.Dev.Free(in.View.Buf)
	}
	in.View, in.n, in.shared = v, len(values), true
	return true
}

// FeedDoubles sets a float input from float64.
func (s *Instance) FeedDoubles(name string, values []float64) error {
	in, err := s.inputOf(name, device.Float, len(values))
	if err != nil {
		return err
	}
	s.Dev.UploadDoubles(in.View.Slice(0, in.n), values)
	return nil
}

// FeedInts sets an int32 input. The slice is read again when programs run, so it must stay unchanged until then.
func (s *Instance) FeedInts(name string, values []int32) error {
	in, err := s.inputOf(name, device.Int32, len(values))
	if err != nil {
		return err
	}
	in.values = values
	in.set(values, false)
	s.Dev.UploadInts(in.View.Slice(0, in.n), values)
	return nil
}

// FeedBounded is FeedInts for lengths of which programs know only an upper bound, on a device.Recorder. Programs do the
// same work for all lengths with this bound.
func (s *Instance) FeedBounded(name string, values, bound []int32) error {
	if len(bound) != len(values) {
		return fmt.Errorf("input %s: %d values with a bound of %d", name, len(values), len(bound))
	}
	if err := s.FeedInts(name, values); err != nil {
		return err
	}
	s.feed[name].set(bound, true)
	return nil
}

// FeedPart sets the first values of a float input of n elements; the other elements are arbitrary. It is for inputs
// whose rows are counted by another input. Values with capacity for n elements may be read in place, as by Feed.
func (s *Instance) FeedPart(name string, values []float32, n int) error {
	if len(values) > n {
		return fmt.Errorf("input %s: %d values, expected at most %d", name, len(values), n)
	}
	if d, ok := device.As[device.HostViewer](s.Dev); ok && n >= shareFrom && cap(values) >= n && s.share(d, name,
		values[:n]) {
		return nil
	}
	in, err := s.inputOf(name, device.Float, n)
	if err != nil {
		return err
	}
	s.upload(in.View.Slice(0, len(values)), values)
	s.clearBehind(in, len(values))
	return nil
}

// clearBehind sets the elements of an input after the first ones to zero where a sum over rows meets them.
func (s *Instance) clearBehind(in *input, first int) {
	if _, ok := device.As[device.Recorder](s.Dev); ok && first < in.n {
		device.Do(s.Dev, device.Fill{Dst: in.View.Slice(first, in.n)})
	}
}

// SlabBytes returns the memory in bytes of the values that programs compute.
func (s *Instance) SlabBytes() int64 {
	n := 4 * int64(s.floats.view.N+s.ints.view.N)
	if s.nested != nil {
		n += s.nested.SlabBytes()
	}
	return n
}

// feedConst sets an input that is a constant.
func (s *Instance) feedConst(name string, l *leaf) error {
	switch {
	case l.ints != nil:
		return s.FeedInts(name, l.ints)
	case l.floats != nil:
		return s.FeedDoubles(name, l.floats)
	}
	return nil
}

// SetPositions sets the positions in the global batch of the items that are fed; nil, the default, means 0, 1, 2, ….
// Programs read the slice when they are prepared.
func (s *Instance) SetPositions(positions []int32) { s.items = positions }

// lengths are the values of an input or of a constant.
func (s *Instance) lengths(l *leaf) []int32 {
	if l.ints != nil {
		return l.ints
	}
	if in := s.feed[l.node.Name()]; in != nil {
		return in.values
	}
	return nil
}
