package graph

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
)

// gather fills an input with rows of a table on the device, or with lists if table is nil. It waits until all inputs
// are fed, because uploads without a kernel between them may be one copy.
type gather struct {
	table          device.Table
	values, starts device.View
	to, index      *input
	width          int
}

// gather makes the gathers that wait.
func (s *Instance) gather() {
	for _, g := range s.gathers {
		to, index := g.to.View.Slice(0, g.to.n), g.index.View.Slice(0, g.index.n)
		if g.table != nil {
			device.Do(s.Dev, device.Gather{Dst: to, Table: g.table, Index: index, Width: g.width})
		} else {
			device.Do(s.Dev, device.GatherLists{Dst: to, Values: g.values, Starts: g.starts, Index: index,
				Width: g.width})
		}
	}
	s.gathers = s.gathers[:0]
}

// ungather forgets the gather that an input which is fed again waits for.
func (s *Instance) ungather(in *input) {
	s.gathers = slices.DeleteFunc(s.gathers, func(g gather) bool { return g.to == in })
}

// Bind makes a float input a view of device memory, which programs read without a copy. The memory belongs to the
// caller and must not change until they have run. The next Feed of the input ends the binding. A recording stores
// addresses, so an input of a recorded program must not be bound.
func (s *Instance) Bind(name string, v device.View) {
	in := inputOf(s, name)
	s.ungather(in)
	if in.View.Present() && !in.shared && !in.external {
		s.Dev.Free(in.View.Buf)
	}
	in.View, in.n, in.shared, in.external = v, v.N, false, true
}

// FeedStage is FeedPart for the first values of a stage. The stage must not change before the device has read it
// (device.Streamer.StreamStage).
func (s *Instance) FeedStage(name string, d device.Streamer, from device.Stage, values, n int) error {
	if has := max(len(from.Floats()), len(from.Halves())); values > min(n, has) {
		return fmt.Errorf("input %s: %d values of a stage of %d, expected at most %d", name, values, has, n)
	}
	in, err := s.inputOf(name, device.Float, n)
	if err != nil {
		return err
	}
	d.StreamStage(in.View.Slice(0, values), from, values)
	s.clearBehind(in, values)
	return nil
}

// FeedRows sets the first values of a float input of n elements to rows of a table on the device, each of the given
// width, and the others to zero. Only the numbers of the rows are sent to the device; they must be rows of the table.
func (s *Instance) FeedRows(name string, t device.Table, rows []int32, width, n int) error {
	if len(rows)*width > n {
		return fmt.Errorf("input %s: %d rows of %d values, expected at most %d values", name, len(rows), width, n)
	}
	for _, r := range rows {
		if r < 0 || (int(r)+1)*width > t.Len() {
			return fmt.Errorf("input %s: row %d of %d", name, r, t.Len()/width)
		}
	}
	_, err := gatherLater(s, name, device.Float, n, rows, gather{table: t, width: width})
	return err
}

// gatherLater adds a gather by numbers into an input of n elements, and returns the input.
func gatherLater(s *Instance, name string, t device.DType, n int, numbers []int32, g gather) (in *input, err error) {
	if g.to, err = s.inputOf(name, t, n); err != nil {
		return nil, err
	}
	if g.index, err = s.inputOf(name+".index", device.Int32, len(numbers)); err != nil {
		return nil, err
	}
	s.Dev.UploadInts(g.index.View.Slice(0, len(numbers)), numbers)
	s.gathers = append(s.gathers, g)
	return g.to, nil
}

// FeedLists sets an int32 input [n, width] to lists that lie on the device one after the other
// (device.GatherLists), of which only the numbers are sent there. host is the same on the host, and read like the
// values of FeedInts.
func (s *Instance) FeedLists(name string, values, starts device.View, lists []int32, width int, host []int32) error {
	if len(host) != len(lists)*width {
		return fmt.Errorf("input %s: %d lists of %d values, %d values on the host", name, len(lists), width, len(host))
	}
	for _, k := range lists {
		if k < 0 || int(k)+1 >= starts.N {
			return fmt.Errorf("input %s: list %d of %d", name, k, starts.N-1)
		}
	}
	g := gather{values: values, starts: starts, width: width}
	in, err := gatherLater(s, name, device.Int32, len(host), lists, g)
	if err != nil {
		return err
	}
	in.set(host, false)
	return nil
}

// MemoryNeeded returns the bytes that compiling a graph for the nodes of retain would allocate for its values: 0 if the
// memory of earlier programs is large enough.
func (s *Instance) MemoryNeeded(g *Graph, retain ...*Node) (int64, error) {
	pl, err := newPlan(g.expr, retain, nil)
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
