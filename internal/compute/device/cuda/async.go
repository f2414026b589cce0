package cuda

import (
	"slices"

	"vsetrain/internal/compute/device/cuda/driver"
)

// side is the stream of collectives that run beside the kernels that follow them, until these wait. What it waits for,
// and what waits for each of its collectives, are events.
type side struct {
	on      *dev
	stream  driver.Stream
	fork    driver.Event
	back    []driver.Event
	pending []written // what may run there, in order
	rooms   []*region // where it comes to first, see room
}

// written is what a collective writes, and the event after one that runs in the background.
type written struct {
	to, end driver.Ptr
	event   int
	then    func() // brings it there from where it was sent; nil where that is the place
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
func (s *side) close(keep func(error)) {
	for _, r := range s.rooms {
		if r.ptr != 0 {
			keep(s.on.drv.Free(r.ptr))
		}
	}
	for _, e := range append(s.back, s.fork) {
		if e != 0 {
			keep(s.on.drv.DestroyEvent(e))
		}
	}
	if s.stream != 0 {
		keep(s.on.drv.DestroyStream(s.stream))
	}
}

// turn is a number that nothing pending has.
func (s *side) turn() int {
	if n := len(s.pending); n > 0 {
		return s.pending[n-1].event + 1
	}
	return 0
}

// append says what the collective writes that was given to the stream.
func (s *side) append(w written) {
	w.event = s.turn()
	s.pending = append(s.pending, w)
	c := s.on.next()
	c.kind, c.slot = commandAsync, w.event
}

// room is memory for the collective that is given to the stream next.
func (s *side) room(bytes int) driver.Ptr {
	for len(s.rooms) <= s.turn() {
		s.rooms = append(s.rooms, &region{})
	}
	return s.on.room(s.rooms[s.turn()], bytes)
}

// join has what follows wait for what runs in the background, up to the last that writes to [from, to); of no memory
// for all.
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

// arrive brings what was written to its place.
func (s *side) arrive(w *written) {
	if w.then != nil {
		s.on.bf16.note(w.to, int(w.end-w.to)/4) // the kernel writes no more than that
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
