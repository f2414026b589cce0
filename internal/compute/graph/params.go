package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// ParamSpec is one stored tensor of a network.
type ParamSpec struct {
	Name  string // stored name with its part: "img.fc.weight"
	Shape []int
	State bool   // running statistics: stored and used, never optimised
	Twice bool   // listed twice in the optimiser, so counted twice in the norm of the gradients and updated twice
	Group string // optimiser group, "" for the default one
	// Within is the closed range, possibly infinite, to which the values are clamped after every update. It is set for
	// the scalars that a loss learns, which have no weight decay, and nil for the parameters of a network.
	Within *[2]float64
}

// Size returns the number of elements.
func (s ParamSpec) Size() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Params is the flat memory of all parameters of a network on a device: the values, and for training the gradients in
// the same layout. Optimised parameters come first, then state. Every tensor starts at a multiple of 64 bytes.
type Params struct {
	Specs  []ParamSpec
	dev    device.Device
	offset map[string]int
	index  map[string]int
	opt    int // elements of optimised parameters, padding included
	total  int
	values device.View
	grads  device.View
}

// ParamAlign is the number of elements at whose multiples parameters start; the padding between them stays zero.
const ParamAlign = 16

// NewParams lays the parameters out and allocates their values, zeroed.
func NewParams(dev device.Device, specs []ParamSpec) (*Params, error) {
	p := &Params{dev: dev, offset: map[string]int{}, index: map[string]int{}}
	layOut := func(state bool) {
		for _, s := range specs {
			if s.State != state {
				continue
			}
			p.offset[s.Name] = p.total
			p.index[s.Name] = len(p.Specs)
			p.Specs = append(p.Specs, s)
			p.total += (s.Size() + ParamAlign - 1) / ParamAlign * ParamAlign
		}
	}
	layOut(false)
	p.opt = p.total
	layOut(true)
	if len(p.index) != len(specs) {
		return nil, fmt.Errorf("two parameters of the network have the same name")
	}
	b, err := dev.Alloc(device.Float, p.total)
	if err != nil {
		return nil, fmt.Errorf("allocate %d parameters: %w", p.total, err)
	}
	p.values = device.ViewOf(b)
	return p, nil
}

// AllocGrads allocates the gradients and Spare, zeroed.
func (p *Params) AllocGrads() error {
	if p.grads.Present() {
		return nil
	}
	b, err := p.dev.Alloc(device.Float, p.opt+ParamAlign)
	if err != nil {
		return fmt.Errorf("allocate gradients of %d parameters: %w", p.opt, err)
	}
	p.grads = device.ViewOf(b)
	return nil
}

// Count returns the number of parameters, state excluded.
func (p *Params) Count() int {
	n := 0
	for _, s := range p.Specs {
		if !s.State {
			n += s.Size()
		}
	}
	return n
}

// OptimisedSize returns the length of the flat optimised range, padding included.
func (p *Params) OptimisedSize() int { return p.opt }

// Values returns the flat optimised range; Grads the gradients of the same layout.
func (p *Params) Values() device.View { return p.values.Slice(0, p.opt) }

// State returns the flat range of what is stored and never optimised.
func (p *Params) State() device.View { return p.values.Slice(p.opt, p.total) }

// Grads returns the flat gradients.
func (p *Params) Grads() device.View { return p.grads.Slice(0, p.opt) }

// Spare returns ParamAlign scalars after the gradients.
func (p *Params) Spare() device.View { return p.grads.Slice(p.opt, p.opt+ParamAlign) }

// Freeze declares that no parameter will change (device.Freezer).
func (p *Params) Freeze() {
	if h, ok := device.As[device.Freezer](p.dev); ok {
		h.Freeze(p.values.Buf)
	}
}

// Spec returns the description of a parameter.
func (p *Params) Spec(name string) (ParamSpec, bool) {
	i, ok := p.index[name]
	if !ok {
		return ParamSpec{}, false
	}
	return p.Specs[i], true
}

// Value returns the view of one parameter.
func (p *Params) Value(name string) device.View {
	i, ok := p.index[name]
	if !ok {
		fail("the network has no parameter %q", name)
	}
	o := p.offset[name]
	return p.values.Slice(o, o+p.Specs[i].Size())
}

// Range returns where a parameter lies in the flat layout.
func (p *Params) Range(name string) (lo, hi int) {
	v := p.Value(name)
	return v.Off, v.Off + v.N
}

// Grad returns the view of the gradient of one parameter.
func (p *Params) Grad(name string) device.View {
	lo, hi := p.Range(name)
	return p.grads.Slice(lo, hi)
}
