package eval

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// pairTiles scores tiles of pairs in parts that fit the memory of the device: where a part does not, its longer side is
// halved, for all that follow. A score does not depend on the parts, except for the rounding of a GPU's library of
// products, which may choose another algorithm for another size. On a device that copies results while it computes, the
// next part is started before the scores of earlier parts have arrived.
type pairTiles struct {
	r                *models.PairRunner
	images, captions *models.EncodedSet
	tileI, tileC     int      // of a part, at most
	usual            tileSize // parts no larger than this free memory by spare first
	capacity         int      // words of the captions of a part, at most; 0 is unknown
	pipelined        bool
	warn             func(error)
	// frees memory of the device that scoring can do without, false if there is none; may be nil
	spare   func() bool
	part    []float32
	pending []pendingPart // oldest first, at most device.FetchSlots
	slot    int           // of the next part
}

// pendingPart was started: its scores [images, captions] go to dst, whose rows have the given width.
type pendingPart struct {
	dst                     []float32
	images, captions, width int
	slot                    int
	done                    func() error // of the last part of a tile, nil otherwise
}

// score computes dst [i1-i0, c1-c0] and then calls done: at once, or while later tiles are scored, or in flush.
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

// tell warns of a full device, once.
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

// do scores a part, or starts it.
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
	err := part.take(p, func(dst []float32) error {
		return p.r.Score(dst, p.images, i, i+part.images, p.captions, c, c+part.captions, p.capacity)
	})
	if err != nil || part.done == nil {
		return err
	}
	return part.done()
}

// collect waits for the oldest part that was started.
func (p *pairTiles) collect() error {
	part := p.pending[0]
	p.pending = append(p.pending[:0], p.pending[1:]...)
	if err := part.take(p, func(dst []float32) error { return p.r.Finish(dst, part.slot) }); err != nil ||
		part.done == nil {
		return err
	}
	return part.done()
}

// flush waits for all parts that were started.
func (p *pairTiles) flush() error {
	for len(p.pending) > 0 {
		if err := p.collect(); err != nil {
			return err
		}
	}
	return nil
}

// take has the scores of a part written to dst.
func (part *pendingPart) take(p *pairTiles, scores func([]float32) error) error {
	n := part.images * part.captions
	if part.captions == part.width {
		return scores(part.dst[:n])
	}
	if cap(p.part) < n {
		p.part = make([]float32, n)
	}
	if err := scores(p.part[:n]); err != nil {
		return err
	}
	for k := range part.images {
		copy(part.dst[k*part.width:][:part.captions], p.part[k*part.captions:][:part.captions])
	}
	return nil
}
