package cuda

import (
	"slices"

	"vsetrain/internal/compute/device/cuda/driver"
)

// side is the stream of async collectives, which run concurrently with the following kernels. It waits for the event
// fork; the stream of the kernels waits for the event of a collective.
type side struct {
	on      *dev
	stream  driver.Stream
	fork    driver.Event
	back    []driver.Event
	pending []written // by collectives that may be running, in order
	rooms   []*region // see room
}

// written is what a collective writes, and the event after an async one.
type written struct {
	to, end driver.Ptr
	event   int
	then    func() // moves the results to their place; nil if they are there
}

// open makes the stream, on the thread of the context.
func (s *side) open(d *dev) (err error) {
	s.on = d
	if s.stream, err = d.drv.NewStream(); err == nil {
		s.fork, err = d.drv.NewEvent()
	}
	return err
}

// close releases what open and the commands made, on the thread of the context.
func (s *side) close(drv driver.Driver) (first error) {
	for _, r := range s.rooms {
		drop(&first, drv.Free, r.ptr)
	}
	for _, e := range append(s.back, s.fork) {
		drop(&first, drv.DestroyEvent, e)
	}
	drop(&first, drv.DestroyStream, s.stream)
	return first
}

// turn is the number of an event that no pending collective has.
func (s *side) turn() int {
	if n := len(s.pending); n > 0 {
		return s.pending[n-1].event + 1
	}
	return 0
}

// append notes what the last collective of the stream writes.
func (s *side) append(w written) {
	w.event = s.turn()
	s.pending = append(s.pending, w)
	c := s.on.next()
	c.kind, c.slot = commandAsync, w.event
}

// room is memory for the next collective of the stream.
func (s *side) room(bytes int) driver.Ptr {
	for len(s.rooms) <= s.turn() {
		s.rooms = append(s.rooms, &region{})
	}
	return s.on.room(s.rooms[s.turn()], bytes)
}

// join makes later commands wait for async collectives, up to the last that writes to [from, to), or for all if that is
// empty.
func (s *side) join(from, to driver.Ptr) {
	for i, w := range slices.Backward(s.pending) {
		if from == to || w.to < to && from < w.end {
			c := s.on.next()
			c.kind, c.slot = commandWait, w.event
			for k := range i + 1 {
				s.arrive(&s.pending[k])
			}
			s.pending = append(s.pending[:0], s.pending[i+1:]...)
			return
		}
	}
}

// arrive moves what was written to its place.
func (s *side) arrive(w *written) {
	if w.then != nil {
		s.on.bf16.note(w.to, int(w.end-w.to)/4) // the kernel writes no more
		w.then()
	}
}

// execute does a command, on the thread of the context.
func (s *side) execute(c *command) error {
	d := s.on.drv
	if c.kind == commandFork {
		if err := d.Record(s.fork, s.on.stream); err != nil {
			return err
		}
		return d.Follow(s.stream, s.fork)
	}
	for len(s.back) <= c.slot {
		e, err := d.NewEvent()
		if err != nil {
			return err
		}
		s.back = append(s.back, e)
	}
	if c.kind == commandAsync {
		return d.Record(s.back[c.slot], s.stream)
	}
	return d.Follow(s.on.stream, s.back[c.slot])
}
