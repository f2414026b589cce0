package models

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// Encoded values in device memory. Evaluation scores every image with every caption, so the values are copied to the
// device once, if they fit, instead of for every tile.

// MakeResident copies the values of images or captions [lo, hi) of a set to the device, in place of the values of an
// earlier call. capacity is the largest capacity of the tiles that will read them. If the device has too little memory,
// the error is a device.OutOfMemoryError and nothing of the set is resident.
func (r *PairRunner) MakeResident(s *EncodedSet, lo, hi, capacity int) error {
	p := s.resident
	if p == nil {
		p = &residentRows{}
		s.resident = p
	}
	p.lo, p.hi = lo, hi
	if p.values == nil {
		p.values, p.words = make([]device.View, len(s.Values)), make([]device.View, len(s.Words))
	}
	put := func(to *device.View, rows []float32, size int) error {
		if to.N < size {
			if to.Present() {
				r.Model.Instance.Dev.Free(to.Buf)
				*to = device.View{}
			}
			b, err := r.Model.Instance.Dev.Alloc(device.Float, size)
			if err != nil {
				r.Evict(s)
				return fmt.Errorf("encoded values on the device: %w", err)
			}
			*to = device.ViewOf(b)
		}
		r.Model.Instance.Dev.UploadFloats(to.Slice(0, len(rows)), rows)
		return nil
	}
	for k := range s.Values {
		v := &s.Values[k]
		if err := put(&p.values[k], v.rows(lo, hi), (hi-lo)*v.Width); err != nil {
			return err
		}
	}
	for k := range s.Words { // a tile of any first caption reads capacity rows
		v := &s.Words[k]
		if err := put(&p.words[k], v.rows(s.First[lo], s.First[hi]),
			(s.First[hi]-s.First[lo]+capacity)*v.Width); err != nil {
			return err
		}
	}
	return nil
}

// Evict frees the copies that MakeResident made on the device.
func (r *PairRunner) Evict(s *EncodedSet) {
	if s.resident == nil {
		return
	}
	for _, views := range [2][]device.View{s.resident.values, s.resident.words} {
		for _, v := range views {
			if v.Present() {
				r.Model.Instance.Dev.Free(v.Buf)
			}
		}
	}
	s.resident = nil
}

// Bytes returns the device memory that the values of a tile would take in addition to the memory in use.
func (r *PairRunner) Bytes(images, captions *EncodedSet, ni, nc, capacity int) (bytes int64, err error) {
	g := r.Model.Instance.Graph()
	err = graph.Build(func() (err error) {
		bytes, err = r.Model.Instance.MemoryNeeded(g, r.nodes(g, tileShape{ni, nc, capacity}, images, captions))
		return err
	})
	return bytes, r.Model.explain(err)
}

// Fetcher is the part of device.Recorder that Start needs.
type Fetcher interface {
	Fetch(slot int, views ...device.View)
	Fetched(slot int) ([]float32, error)
}

// fetcher returns the device as a Fetcher, or nil.
func (r *PairRunner) fetcher() Fetcher {
	f, _ := device.As[Fetcher](r.Model.Instance.Dev)
	return f
}

// Start begins Score on a device that is a Fetcher and does not wait: Finish of the same slot returns the scores. There
// are device.FetchSlots slots. After an error nothing was started.
func (r *PairRunner) Start(slot int, images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, capacity int) error {
	e, err := r.feed(images, i0, i1, captions, c0, c1, capacity)
	if err != nil {
		return err
	}
	err = e.prog.RunAll()
	if d, ok := device.As[device.ScratchChecker](r.Model.Instance.Dev); ok && err == nil {
		err = d.ScratchError()
	}
	if err != nil {
		return r.Model.explain(err)
	}
	r.fetcher().Fetch(slot, e.prog.View(e.values[0]))
	return nil
}

// Finish waits for the scores of a slot and copies them to dst.
func (r *PairRunner) Finish(dst []float32, slot int) error {
	x, err := r.fetcher().Fetched(slot)
	if err != nil {
		return r.Model.explain(err)
	}
	if len(x) != len(dst) {
		return fmt.Errorf("network %s: %d scores, expected %d", r.Model.Options.Network, len(x), len(dst))
	}
	copy(dst, x)
	return nil
}
