package graph

import "vsetrain/internal/device"

// Lend makes a float input a view of memory on the device, which is read where it lies: it belongs to the caller and must stay as it is until the programs that
// read it have run. The next Feed of the input ends the loan. Recordings keep addresses, so what a program reads that is recorded must not be lent.
func (s *Session) Lend(name string, v device.View) {
	in := s.feed[name]
	if in == nil {
		in = &input{}
		s.feed[name] = in
	}
	if in.view.Present() && !in.shared && !in.lent {
		s.Dev.Free(in.view.Buf)
	}
	in.view, in.n, in.shared, in.lent = v, v.N, false, true
}

// Need returns the bytes that compiling the part of a graph that keep needs would allocate for its values: 0 where the memory of programs compiled before is
// large enough.
func (s *Session) Need(g *Graph, keep ...*Node) (int64, error) {
	pl, err := newPlan(g.expr, keep, nil)
	if err != nil {
		return 0, err
	}
	bytes := int64(0)
	for t, slab := range map[device.DType]*slab{device.Float: &s.floats, device.Int32: &s.ints} {
		if n := pl.size[t]; n > slab.view.N {
			bytes += 4 * int64(n)
		}
	}
	return bytes, nil
}
