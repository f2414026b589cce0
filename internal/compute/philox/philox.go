// Package philox is the counter-based random generator behind every random decision of vsetrain:
// initial weights, shuffling, dropout, augmentation and the synthetic world.
//
// A draw is a pure function of (seed, purpose, step, index), so resuming a run, changing the number of threads
// or skipping work changes nothing. The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011.
//
// Why not math/rand/v2: its generators have a state that advances with every draw, so a value depends on all draws
// before it. No Go library has counter-based streams with names.
package philox

import (
	"hash/fnv"
	"math"
	"math/bits"
)

const (
	mul0, mul1   = 0xD2511F53, 0xCD9E8D57
	weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85
	rounds       = 10
)

// Key selects one independent family of draws.
type Key struct{ K0, K1 uint32 }

// NewKey derives the key of a purpose ("init/fc.weight", "shuffle", "dropout/3", ...) under a run seed.
func NewKey(seed uint64, purpose string) Key {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	z := mix(mix(seed) ^ h.Sum64())
	return Key{uint32(z), uint32(z >> 32)}
}

// mix is the finaliser of SplitMix64.
func mix(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Block returns the four 32-bit words at counter (index, step).
func (k Key) Block(step, index uint64) [4]uint32 {
	c0, c1, c2, c3 := uint32(index), uint32(index>>32), uint32(step), uint32(step>>32)
	k0, k1 := k.K0, k.K1
	for range rounds { // scalars, because the compiler keeps arrays in memory
		p0, p1 := mul0*uint64(c0), mul1*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0 += weyl0
		k1 += weyl1
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Stream reads the words of one step in order; it implements math/rand/v2.Source.
type Stream struct {
	key   Key
	step  uint64
	index uint64
	buf   [4]uint32
	used  int
	spare float64
	has   bool
}

// Stream returns the sequence of draws of a step (an epoch, a sample, a layer ...).
func (k Key) Stream(step uint64) *Stream { return &Stream{key: k, step: step, used: 4} }

// Uint32 returns the next word.
func (s *Stream) Uint32() uint32 {
	if s.used == 4 {
		s.buf = s.key.Block(s.step, s.index)
		s.index++
		s.used = 0
	}
	v := s.buf[s.used]
	s.used++
	return v
}

// Uint64 returns the next two words.
func (s *Stream) Uint64() uint64 { return uint64(s.Uint32())<<32 | uint64(s.Uint32()) }

// Float64 returns a uniform draw in [0, 1) with 53 bits.
func (s *Stream) Float64() float64 { return float64(s.Uint64()>>11) * 0x1p-53 }

// IntN returns a uniform draw in [0, n); n must be positive.
func (s *Stream) IntN(n int) int {
	if n <= 0 {
		panic("philox: IntN of a non-positive number")
	}
	// Lemire's multiply-shift with rejection.
	un := uint64(n)
	hi, lo := bits.Mul64(s.Uint64(), un)
	if lo < un {
		for t := -un % un; lo < t; {
			hi, lo = bits.Mul64(s.Uint64(), un)
		}
	}
	return int(hi)
}

// Norm returns a standard normal draw (Marsaglia's polar method).
func (s *Stream) Norm() float64 {
	if s.has {
		s.has = false
		return s.spare
	}
	for {
		x, y := 2*s.Float64()-1, 2*s.Float64()-1
		r := x*x + y*y
		if r < 1 && r > 0 {
			f := math.Sqrt(-2 * math.Log(r) / r)
			s.spare, s.has = y*f, true
			return x * f
		}
	}
}

// Perm fills p with a uniform random permutation of 0..len(p)-1.
func (s *Stream) Perm(p []int32) {
	for i := range p {
		j := s.IntN(i + 1)
		p[i] = p[j]
		p[j] = int32(i)
	}
}
