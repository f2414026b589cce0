package cuda

import (
	"unsafe"

	"vsetrain/internal/device/cuda/driver"
)

// staging are pinned buffers between host and device. An upload copies piece by piece into one of them and goes on with the other while the
// GPU fetches the first; it returns when the host's memory may change again.
type staging struct {
	memory [stagingBuffers]unsafe.Pointer
	event  [stagingBuffers]driver.Event // when the GPU has read the buffer
	used   [stagingBuffers]bool
	turn   int
}

const (
	stagingBuffers = 2
	stagingBytes   = 4 << 20
)

func (s *staging) open(drv driver.Driver) (err error) {
	for i := range s.memory {
		if s.memory[i], err = drv.AllocHost(stagingBytes); err != nil {
			return err
		}
		if s.event[i], err = drv.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

func (s *staging) close(drv driver.Driver) (first error) {
	for i := range s.memory {
		if s.event[i] != 0 {
			if err := drv.DestroyEvent(s.event[i]); err != nil && first == nil {
				first = err
			}
		}
		if s.memory[i] != nil {
			if err := drv.FreeHost(s.memory[i]); err != nil && first == nil {
				first = err
			}
		}
	}
	*s = staging{}
	return first
}

// take returns the next buffer when the GPU has finished with it.
func (s *staging) take(d *dev) (int, error) {
	s.turn = (s.turn + 1) % stagingBuffers
	i := s.turn
	if s.used[i] {
		s.used[i] = false
		return i, d.drv.Wait(s.event[i])
	}
	return i, nil
}

func (s *staging) upload(d *dev, dst driver.Ptr, src unsafe.Pointer, bytes int) error {
	for at := 0; at < bytes; at += stagingBytes {
		n := min(stagingBytes, bytes-at)
		i, err := s.take(d)
		if err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(s.memory[i]), n), unsafe.Slice((*byte)(unsafe.Add(src, at)), n))
		if err := d.drv.Upload(dst+driver.Ptr(at), s.memory[i], n, d.stream); err != nil {
			return err
		}
		if err := d.drv.Record(s.event[i], d.stream); err != nil {
			return err
		}
		s.used[i] = true
	}
	return nil
}

func (s *staging) download(d *dev, dst unsafe.Pointer, src driver.Ptr, bytes int) error {
	for at := 0; at < bytes; at += stagingBytes {
		n := min(stagingBytes, bytes-at)
		i, err := s.take(d)
		if err != nil {
			return err
		}
		if err := d.drv.Download(s.memory[i], src+driver.Ptr(at), n, d.stream); err != nil {
			return err
		}
		if err := d.drv.Synchronize(d.stream); err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, at)), n), unsafe.Slice((*byte)(s.memory[i]), n))
	}
	return nil
}
