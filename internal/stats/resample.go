package stats

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
)

// Units are the sampling units of an experiment: row u of Values [units, Width] holds the outcomes of unit u, whole
// numbers such as the number of answered queries of image u, in Width columns. Units must be independent; the outcomes
// of a unit need not be.
type Units struct {
	Width  int
	Values []int32
}

func (u Units) count() int { return len(u.Values) / u.Width }

func (u Units) check(resamples int) error {
	if u.Width < 1 || len(u.Values) == 0 || len(u.Values)%u.Width != 0 {
		return fmt.Errorf("resampling: %d values are not one or more units of %d", len(u.Values), u.Width)
	}
	if resamples < 1 {
		return fmt.Errorf("resampling: expected at least one resample, found %d", resamples)
	}
	return nil
}

// Sums returns the sums of the columns over all units.
func (u Units) Sums() []int64 {
	sums := make([]int64, u.Width)
	for i, v := range u.Values {
		sums[i%u.Width] += int64(v)
	}
	return sums
}

// grain is the number of resamples in a piece of work.
const grain = 64

// Bootstrap draws resamples: as many units as there are, with replacement. It returns the column sums of the resamples
// [resamples, Width]. Draw j of resample r only depends on (seed, r, j), so results do not depend on the pool, which
// may be nil. A draw is a random 32-bit word scaled to the n units: their probabilities differ from 1/n by less than
// 2^-32.
//
// Source: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), chapters 6 and 13.
func (u Units) Bootstrap(pool *par.Pool, seed uint64, resamples int) ([]int64, error) {
	if err := u.check(resamples); err != nil {
		return nil, err
	}
	n, w := u.count(), u.Width
	sums, p := make([]int64, resamples*w), newPacked(u)
	key := philox.NewKey(seed, "bootstrap")
	pool.For(par.Chunks(resamples, grain), par.Func(func(_, chunk int) {
		lo, hi := par.Range(resamples, par.Chunks(resamples, grain), chunk)
		draws, sum := make([]uint32, n), make([]uint64, p.size)
		for r := lo; r < hi; r++ {
			key.Words(draws, uint64(r), 0)
			clear(sum)
			for _, d := range draws {
				p.add(sum, int(uint64(d)*uint64(n)>>32))
			}
			p.unpack(sums[r*w:(r+1)*w], sum, n)
		}
	}))
	return sums, nil
}

// SignFlips tests, for each column of differences between two systems, whether the systems differ. If they do not, the
// difference of each unit is equally likely to have either sign. It returns the two-sided p-values
//
//	p = (1 + #{r: |T_r| >= |T|}) / (1 + resamples)
//
// where T is the sum of a column, and T_r the sum of resample r, in which every unit flips the sign of all its columns
// with probability 1/2. This is the paired permutation test. It is exact for any distribution, and never returns 0.
// Draws only depend on (seed, r, unit).
//
// Source: R. A. Fisher, The Design of Experiments (1935), section 21; B. Phipson, G. K. Smyth, Permutation p-values
// should never be zero (2010).
func (u Units) SignFlips(pool *par.Pool, seed uint64, resamples int) ([]float64, error) {
	if err := u.check(resamples); err != nil {
		return nil, err
	}
	n, w := u.count(), u.Width
	total, pack := u.Sums(), newPacked(u)
	chunks := par.Chunks(resamples, grain)
	extreme := make([]int64, chunks*w)
	key := philox.NewKey(seed, "permutation")
	pool.For(chunks, par.Func(func(_, chunk int) {
		lo, hi := par.Range(resamples, chunks, chunk)
		sum, unflipped, count := make([]uint64, pack.size), make([]int64, w), extreme[chunk*w:(chunk+1)*w]
		draws := make([]uint32, (n+31)/32)
		for r := lo; r < hi; r++ {
			key.Words(draws, uint64(r), 0)
			clear(sum) // over the units that keep their sign; the others have the rest of the total
			units := 0
			for word, mask := range draws {
				if left := n - 32*word; left < 32 {
					mask &= 1<<left - 1
				}
				units += bits.OnesCount32(mask)
				for ; mask != 0; mask &= mask - 1 {
					pack.add(sum, 32*word+bits.TrailingZeros32(mask))
				}
			}
			pack.unpack(unflipped, sum, units)
			for c := range unflipped {
				if abs(2*unflipped[c]-total[c]) >= abs(total[c]) {
					count[c]++
				}
			}
		}
	}))
	p := make([]float64, w)
	for c := range p {
		reached := int64(1)
		for chunk := range chunks {
			reached += extreme[chunk*w+c]
		}
		p[c] = float64(reached) / float64(resamples+1)
	}
	return p, nil
}

// Interval is a confidence interval.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Percentile returns the interval between the quantiles (1 - level) / 2 and (1 + level) / 2 of bootstrap values. It
// sorts the values.
func Percentile(values []float64, level float64) Interval {
	slices.Sort(values)
	return Interval{quantile(values, (1-level)/2), quantile(values, (1+level)/2)}
}

// quantile interpolates linearly between sorted values, as NumPy does: the smallest is quantile 0, the largest 1.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(math.Floor(at))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func abs(v int64) int64 { return max(v, -v) }
