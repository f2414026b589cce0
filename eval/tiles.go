package eval

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// pairTiles scores tiles of pairs in parts that fit in device memory: if a part does not fit, the longer side of all
// further parts is halved. A score does not depend on the parts, except for rounding: a GPU's matrix product library
// may choose another algorithm for another size. On a device that copies results while it computes, the next part
// starts before the scores of earlier parts have arrived.
type pairTiles struct {
	r                *models.PairRunner
	images, captions *models.EncodedSet
	tileI, tileC     int      // largest part
	usual            tileSize // before a part becomes smaller than this, spare frees memory
	capacity         int      // largest number of words in the captions of a part; 0 is unknown
	pipelined        bool
	warn             func(error)
	// spare frees device memory that scoring can do without; false if there is none. It may be nil.
	spare   func() bool
	part    []float32
	pending []pendingPart // oldest first, at most device.FetchSlots
	slot    int           // of the next part
}

// pendingPart is a part that was started. Its scores [images, captions] go to dst, whose rows have the given width.
type pendingPart struct {
	dst                     []float32
	images, captions, width int
	slot                    int
	done                    func() error // for the last part of a tile, nil otherwise
}

// score computes dst [i1-i0, c1-c0] and then calls done: immediately, while later tiles are scored, or in flush.
func (p *pairTiles) score(dst []float32, i0, i1, c0, c1 int, done func() error) error {
	for {
		err := p.parts(dst, i0, i1, c0, c1, done)
		if err == nil || !isFull(err) {
			return err
		}
		if e := p.flush(); e != nil {
			return e
		}
		switch spare := p.spare; {
		case p.tileI <= p.usual.images && p.tileC <= p.usual.captions && spare != nil && spare():
		case p.tileI == 1 && p.tileC == 1:
			return fmt.Errorf("score one image with one caption: %w", err)
		case p.tileC >= p.tileI:
			p.tileC /= 2
		default:
			p.tileI /= 2
		}
		p.tell(err)
		p.capacity = 0
	}
}

// tell warns once that the device is out of memory.
func (p *pairTiles) tell(err error) {
	if p.warn != nil {
		p.warn(fmt.Errorf("pairs are scored in smaller tiles than usual, which takes longer: %w", err))
		p.warn = nil
	}
}

func (p *pairTiles) parts(dst []float32, i0, i1, c0, c1 int, done func() error) error {
	if p.capacity == 0 {
		first := p.captions.First
		for c := 0; c < p.captions.N; c += p.tileC {
			p.capacity = max(p.capacity, first[min(p.captions.N, c+p.tileC)]-first[c])
		}
	}
	for i := i0; i < i1; i += p.tileI {
		for c := c0; c < c1; c += p.tileC {
			in, cn := min(p.tileI, i1-i), min(p.tileC, c1-c)
			part := pendingPart{dst: dst[(i-i0)*(c1-c0)+c-c0:], images: in, captions: cn, width: c1 - c0}
			if i+in == i1 && c+cn == c1 {
				part.done = done
			}
			if err := p.do(part, i, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// do scores a part; a pipelined device only starts it.
func (p *pairTiles) do(part pendingPart, i, c int) error {
	if p.pipelined {
		if len(p.pending) == device.FetchSlots {
			if err := p.collect(); err != nil {
				return err
			}
		}
		if err := p.r.Start(p.slot, p.images, i, i+part.images, p.captions, c, c+part.captions,
			p.capacity); err != nil {
			return err
		}
		part.slot = p.slot
		p.slot = (p.slot + 1) % device.FetchSlots
		p.pending = append(p.pending, part)
		return nil
	}
	return part.take(p, func(dst []float32) error {
		return p.r.Score(dst, p.images, i, i+part.images, p.captions, c, c+part.captions, p.capacity)
	})
}

// collect waits for the oldest pending part.
func (p *pairTiles) collect() error {
	part := p.pending[0]
	p.pending = append(p.pending[:0], p.pending[1:]...)
	return part.take(p, func(dst []float32) error { return p.r.Finish(dst, part.slot) })
}

// flush waits for all pending parts.
func (p *pairTiles) flush() error {
	for len(p.pending) > 0 {
		if err := p.collect(); err != nil {
			return err
		}
	}
	return nil
}

// take copies the scores of a part to dst.
func (part *pendingPart) take(p *pairTiles, scores func([]float32) error) error {
	n := part.images * part.captions
	if part.captions == part.width {
		if err := scores(part.dst[:n]); err != nil {
			return err
		}
	} else {
		p.part = slices.Grow(p.part[:0], n)[:n]
		if err := scores(p.part); err != nil {
			return err
		}
		for k := range part.images {
			copy(part.dst[k*part.width:][:part.captions], p.part[k*part.captions:])
		}
	}
	if part.done == nil {
		return nil
	}
	return part.done()
}
