package eval

import (
	"errors"
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/models"
)

// pairTiles scores tiles of pairs in parts that fit the memory of the device: where a part does not, its longer side is halved, for all that follow. A score
// does not depend on the parts.
type pairTiles struct {
	m                *models.Model
	images, captions *models.EncodedSet
	tileI, tileC     int // of a part, at most
	room             int // words of the captions of a part, at most; 0 is unknown
	warn             func(error)
	part             []float32
}

// score computes dst [i1-i0, c1-c0].
func (p *pairTiles) score(dst []float32, i0, i1, c0, c1 int) error {
	for {
		err := p.parts(dst, i0, i1, c0, c1)
		var full *device.Full
		if err == nil || !errors.As(err, &full) {
			return err
		}
		if p.tileI == 1 && p.tileC == 1 {
			return fmt.Errorf("score one image with one caption: %w", err)
		}
		if p.warn != nil {
			p.warn(fmt.Errorf("pairs are scored in smaller tiles than usual, which takes longer: %w", err))
			p.warn = nil
		}
		if p.tileC >= p.tileI {
			p.tileC /= 2
		} else {
			p.tileI /= 2
		}
		p.room = 0
	}
}

func (p *pairTiles) parts(dst []float32, i0, i1, c0, c1 int) error {
	if p.room == 0 {
		first := p.captions.First
		for c := 0; c < p.captions.N; c += p.tileC {
			p.room = max(p.room, first[min(p.captions.N, c+p.tileC)]-first[c])
		}
	}
	if i1-i0 <= p.tileI && c1-c0 <= p.tileC {
		return p.m.ScorePairs(dst, p.images, i0, i1, p.captions, c0, c1, p.room)
	}
	for i := i0; i < i1; i += p.tileI {
		for c := c0; c < c1; c += p.tileC {
			in, cn := min(p.tileI, i1-i), min(p.tileC, c1-c)
			if cap(p.part) < in*cn {
				p.part = make([]float32, p.tileI*p.tileC)
			}
			part := p.part[:in*cn]
			if err := p.m.ScorePairs(part, p.images, i, i+in, p.captions, c, c+cn, p.room); err != nil {
				return err
			}
			for k := range in {
				copy(dst[(i-i0+k)*(c1-c0)+c-c0:][:cn], part[k*cn:(k+1)*cn])
			}
		}
	}
	return nil
}
