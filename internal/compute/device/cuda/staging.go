package cuda

import (
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
)

// staging are pinned buffers between host and device. A large upload alternates between two large buffers: the host
// fills one while the GPU reads the other. Many small buffers hold the inputs of several steps. An upload returns when
// the host's memory may change again.
type staging struct {
	memory unsafe.Pointer
	ring   [2]ring // of large and of small buffers
}

// ring holds buffers that are used in turn.
type ring struct {
	memory []unsafe.Pointer
	event  []driver.Event // when the GPU has read the buffer
	used   []bool
	turn   int
}

const (
	stagingBuffers, stagingBytes = 2, 4 << 20
	smallBuffers, smallBytes     = 8, 256 << 10
)

func (s *staging) open(drv driver.Driver) (err error) {
	if s.memory, err = drv.AllocHost(stagingBuffers*stagingBytes + smallBuffers*smallBytes); err != nil {
		return err
	}
	at := s.memory
	for k, n := range [2]int{stagingBuffers, smallBuffers} {
		r := &s.ring[k]
		r.used = make([]bool, n)
		for range n {
			e, err := drv.NewEvent()
			if err != nil {
				return err
			}
			r.memory, r.event = append(r.memory, at), append(r.event, e)
			at = unsafe.Add(at, [2]int{stagingBytes, smallBytes}[k])
		}
	}
	return nil
}

func (s *staging) close(drv driver.Driver) (first error) {
	for _, r := range s.ring {
		for _, e := range r.event {
			drop(&first, drv.DestroyEvent, e)
		}
	}
	drop(&first, drv.FreeHost, s.memory)
	*s = staging{}
	return first
}

// take waits until the GPU no longer uses the next buffer of at least the given bytes, and returns its index.
func (s *staging) take(d *dev, bytes int) (*ring, int, error) {
	r := &s.ring[0]
	if bytes <= smallBytes {
		r = &s.ring[1]
	}
	r.turn = (r.turn + 1) % len(r.memory)
	i := r.turn
	if r.used[i] {
		r.used[i] = false
		return r, i, d.drv.Wait(r.event[i])
	}
	return r, i, nil
}

// send copies host values to the device in a stream.
func (s *staging) send(d *dev, dst driver.Ptr, src unsafe.Pointer, bytes int, stream driver.Stream) error {
	for at := 0; at < bytes; at += stagingBytes {
		n := min(stagingBytes, bytes-at)
		r, i, err := s.take(d, n)
		if err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(r.memory[i]), n), unsafe.Slice((*byte)(unsafe.Add(src, at)), n))
		if err := d.drv.Upload(dst+driver.Ptr(at), r.memory[i], n, stream); err != nil {
			return err
		}
		if err := d.drv.Record(r.event[i], stream); err != nil {
			return err
		}
		r.used[i] = true
	}
	return nil
}

// backBuffer is device memory for values that are streamed to a buffer. The stream of copies fills it while kernels
// still read the buffer; then the stream of the kernels copies or widens the values into the buffer.
type backBuffer struct {
	ptr         driver.Ptr
	bytes       int
	full, empty driver.Event
	used        bool
}

func (s *backBuffer) close(drv driver.Driver) (first error) {
	drop(&first, drv.Free, s.ptr)
	drop(&first, drv.DestroyEvent, s.full)
	drop(&first, drv.DestroyEvent, s.empty)
	*s = backBuffer{}
	return first
}

// follow is Driver.Follow; tests omit calls.
var follow = func(d *dev, s driver.Stream, e driver.Event) error { return d.drv.Follow(s, e) }

// stream fills a back buffer when the kernels no longer read it. The next work of the kernels' stream waits for that.
func (s *staging) stream(d *dev, c *command) (err error) {
	to := c.back
	for _, e := range [2]*driver.Event{&to.full, &to.empty} {
		if *e == 0 {
			if *e, err = d.drv.NewEvent(); err != nil {
				return err
			}
		}
	}
	if to.used {
		if err := follow(d, d.copies, to.empty); err != nil {
			return err
		}
	}
	if c.pinned {
		err = d.drv.Upload(to.ptr, c.host, c.bytes, d.copies)
	} else {
		err = s.send(d, to.ptr, c.host, c.bytes, d.copies)
	}
	if err != nil {
		return err
	}
	if err := d.drv.Record(to.full, d.copies); err != nil {
		return err
	}
	return follow(d, d.stream, to.full)
}

// release records that the kernels' stream has read the back buffer.
func (to *backBuffer) release(d *dev) error {
	to.used = true
	return d.drv.Record(to.empty, d.stream)
}

func (s *staging) download(d *dev, dst unsafe.Pointer, src driver.Ptr, bytes int) error {
	for at := 0; at < bytes; at += stagingBytes {
		n := min(stagingBytes, bytes-at)
		r, i, err := s.take(d, n)
		if err != nil {
			return err
		}
		if err := d.drv.Download(r.memory[i], src+driver.Ptr(at), n, d.stream); err != nil {
			return err
		}
		if err := d.drv.Synchronize(d.stream); err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, at)), n), unsafe.Slice((*byte)(r.memory[i]), n))
	}
	return nil
}
