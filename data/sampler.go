package data

import (
	"fmt"
	"sync"

	"vsetrain/internal/compute/philox"
)

// Sampler returns the captions of iteration i of epoch e: consecutive pieces of a uniform random permutation of the
// caption indices, which (seed, "shuffle", epoch) determines. It has no position, so resuming needs only (epoch,
// iteration). It is safe for concurrent use.
type Sampler struct {
	n, batch, batches int
	key               philox.Key
	shuffle           bool
	repeat            int // see Repeat; 0 is all
	// arrange reorders the captions of an epoch; nil keeps the order
	arrange func(order []int32) []int32

	mu    sync.Mutex
	cache [2]permutation // the last two epochs, since workers run ahead of an epoch's end
}

type permutation struct {
	epoch int
	order []int32
}

// NewSampler samples n captions in batches of the given size. Without shuffle every epoch is in file order. An
// incomplete last batch of an epoch is kept unless dropLast is set.
func NewSampler(n, batch int, seed uint64, shuffle, dropLast bool) (*Sampler, error) {
	if n < 1 || batch < 1 {
		return nil, fmt.Errorf("sampler: %d captions in batches of %d; both must be at least 1", n, batch)
	}
	s := &Sampler{n: n, batch: batch, key: philox.NewKey(seed, "shuffle"), shuffle: shuffle}
	s.batches = n / batch
	if !dropLast && n%batch != 0 {
		s.batches++
	}
	if s.batches == 0 {
		return nil, fmt.Errorf("sampler: %d captions do not fill one batch of %d; use a smaller batch", n, batch)
	}
	return s, nil
}

// smallest returns the number of captions of the smallest batch of an epoch.
func (s *Sampler) smallest() int {
	if s.batches*s.batch > s.n {
		return s.n % s.batch
	}
	return s.batch
}

// BatchesPerEpoch returns the number of iterations of an epoch.
func (s *Sampler) BatchesPerEpoch() int { return s.batches }

// Repeat makes all iterations repeat the first n iterations of epoch 0.
func (s *Sampler) Repeat(n int) error {
	if n < 1 || n > s.batches {
		return fmt.Errorf("sampler: repeat %d batches of an epoch of %d", n, s.batches)
	}
	s.repeat = n
	return nil
}

// Batch returns the caption indices of iteration i of an epoch, both from 0. The slice must not be changed.
func (s *Sampler) Batch(epoch, i int) []int32 {
	if s.repeat > 0 {
		epoch, i = 0, i%s.repeat
	}
	lo := i * s.batch
	return s.order(epoch)[lo:min(lo+s.batch, s.n)]
}

func (s *Sampler) order(epoch int) []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shuffle {
		epoch = 0
	}
	for _, p := range s.cache {
		if p.order != nil && p.epoch == epoch {
			return p.order
		}
	}
	order := upTo(s.n)
	if s.shuffle {
		s.key.Stream(uint64(epoch)).Perm(order)
	}
	if s.arrange != nil {
		order = s.arrange(order)
	}
	s.cache[0], s.cache[1] = s.cache[1], permutation{epoch, order}
	return order
}
