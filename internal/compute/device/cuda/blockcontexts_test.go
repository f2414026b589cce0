package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// blockCosines are the cosines and contexts of words and regions, and what their formulas give.
type blockCosines struct {
	got  [4][]float64
	want [4][]approx
}

// blockMatch computes block cosines of random nodes, and follows the formulas of blockcontexts.cuh with every rounding
// of the kernels: weights, keys and their norms are operands, rounded by round, and with roundsRows so are the rows
// that contexts are multiplied by; everything else is float32. Where the regions cancel, the regions of an image are x,
// -x, x/8 and the rest has no weight, so that contexts are x/8 but for what was rounded.
func (c *pairCase) blockMatch(b, r, e, blocks int, cancel bool, round func(float64) float64,
	roundsRows bool) blockCosines {
	defer c.Close()
	words := device.Total(c.lengths.Host)
	values := func(n int, draw func(i int) float64) ([]float64, device.View) {
		x, v := make([]float64, n), c.alloc(device.Float, n)
		for i := range x {
			x[i] = float64(float32(draw(i)))
		}
		c.UploadDoubles(v, x)
		return x, v
	}
	normal := func(int) float64 { return c.rng.Norm() }
	weight := func(i int) float64 {
		v := c.rng.Norm()
		switch k := i % r; {
		case !cancel:
			return v * v
		case k < 2:
			return 1
		case k == 2:
			return 0.001
		}
		return 0
	}
	x, xv := values(words*e, normal)
	y, yv := values(b*r*e, normal)
	if cancel {
		for i := range y {
			switch k, first := i/e%r, i/e/r*r*e+i%e; k {
			case 1:
				y[i] = -y[first]
			case 2:
				y[i] = y[first] / 8
			}
		}
		c.UploadDoubles(yv, y)
	}
	beta, betaView := values(words*b*r, weight)
	alpha, alphaView := values(words*b*r, weight)
	captions := len(c.lengths.Host)
	a := device.BlockMatch{B: b, R: r, E: e, Blocks: blocks, Lengths: c.lengths, Words: xv, Regions: yv,
		WordAttention: betaView, RegionAttention: alphaView,
		WordMatch: c.nan(b * words * blocks), WordNorm: c.nan(b * words * blocks),
		RegionMatch: c.nan(b * captions * r * blocks), RegionNorm: c.nan(b * captions * r * blocks)}
	device.Do(c.Device, a)
	c.read(a.WordMatch, a.WordNorm, a.RegionMatch, a.RegionNorm)
	try.Do(c.TB, c.Sync())
	var s blockCosines
	copy(s.got[:], c.results)
	width := e / blocks
	root := func(x sum) approx { return x.total().through(math.Sqrt, 1) }
	of := func(x float64) approx { return approx{v: x} }
	// one is the cosine of block k of a row with its context of n keys, whose weights are stride apart.
	one := func(to int, row, keys, weights []float64, stride, n, k int) {
		var q, size, dot, square sum
		exact, context := make([]float64, width), make([]sum, width)
		row = row[k*width:][:width]
		for j := range n {
			var length sum
			weight := of(weights[j*stride])
			for i, v := range keys[j*e+k*width:][:width] {
				exact[i] += weight.v * v
				context[i].add(weight.as(round), of(v).as(round))
				length.add(of(v), of(v))
			}
			size.add(weight.as(round), root(length).as(round))
		}
		for i, v := range row {
			x, by := context[i].total(), of(v)
			if roundsRows {
				by = by.as(round)
			}
			q.add(of(v), of(v))
			dot.add(x, by)
			square.add(x, x)
		}
		s1, s2, d := square.total(), size.total(), dot.total()
		least := 1e-3 * s2.v * s2.v
		if off := 2e-3*s2.v*s2.e + 1e-6*least + s1.e; s2.v > 0 && math.Abs(s1.v-least) <= off {
			c.Fatalf("a context of squared norm %v and size %v: in doubt whether it is formed again", s1.v, s2.v)
		}
		if s1.v < least { // the kernel forms the context in float64
			s1, d = approx{}, approx{}
			for i, v := range exact {
				s1.v += v * v
				d.v += v * row[i]
			}
			s1, d = s1.rounded(1), d.rounded(1)
		}
		norm := s1.through(func(x float64) float64 { return math.Sqrt(max(0, x)) }, 1)
		cosine := approx{}
		if norm.v > 0 {
			lengths := root(q).times(norm)
			cosine = d.times(lengths.through(func(x float64) float64 { return 1 / x }, 1))
		}
		s.want[to], s.want[to+1] = append(s.want[to], cosine), append(s.want[to+1], norm)
	}
	for i := range b {
		for w := range words {
			for k := range blocks {
				one(0, x[w*e:], y[i*r*e:], beta[(w*b+i)*r:], 1, r, k)
			}
		}
		first := 0
		for _, n := range c.lengths.Host {
			for j := range r {
				for k := range blocks {
					one(2, y[(i*r+j)*e:], x[first*e:], alpha[first*b*r+i*r+j:], b*r, int(n), k)
				}
			}
			first += int(n)
		}
	}
	return s
}

func (s *blockCosines) check(t *testing.T, what string) {
	t.Helper()
	for n := range s.want {
		within(t, fmt.Sprintf("%s: result %d", what, n), s.got[n], s.want[n])
	}
}

// Block cosines on tensor cores are cosines of operands rounded to bfloat16 or TF32, in every order of the threads;
// contexts that nearly cancel are exact. Sizes beyond what the kernels take are left to the base kernels, whose bits
// they have.
func TestBlockCosinesOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		b, r, e, blocks int
		lengths         []int32
		same            bool // nothing is left to the tensor cores
		cancel          bool
	}{
		// blocks of the vectors as wide as they may be; as many keys, and more blocks than are taken at once
		{2, 36, 192, 3, []int32{17, 1, 4, 33}, false, false},
		{2, 48, 40, 5, []int32{48, 3}, false, false},
		// rows in parts
		{20, 33, 8, 1, []int32{2, 30, 9, 32, 28, 1}, false, false},
		{1, 1, 16, 2, []int32{1}, false, false},
		{2, 5, 64, 4, []int32{2, 3}, false, true},
		{2, 49, 8, 1, []int32{2, 3}, true, false}, {2, 3, 8, 1, []int32{49}, true, false},
		{2, 3, 72, 1, []int32{2}, true, false}, {2, 3, 24, 2, []int32{2}, true, false},
	} {
		for precision, round := range map[string]func(float64) float64{cuda.BF16: bfloat16, cuda.TF32: tf32} {
			what := fmt.Sprintf("%s: %+v", precision, c)
			on := func(base bool, order int) blockCosines {
				emulator.Set(t, "order", order, 0)
				return tensorCase(t, cuda.Options{Precision: precision, BaseKernels: base}, c.lengths...).
					blockMatch(c.b, c.r, c.e, c.blocks, c.cancel, round, precision == cuda.BF16)
			}
			got, base, other := on(false, 0), on(true, 0), on(false, 2)
			if same := slices.EqualFunc(got.got[:], base.got[:], slices.Equal); same != c.same {
				t.Errorf("%s: the bits of the base kernels: %v", what, same)
			} else if !same {
				got.check(t, what)
			}
			if !slices.EqualFunc(other.got[:], got.got[:], slices.Equal) {
				t.Errorf("%s: other bits where threads run in another order", what)
			}
		}
	}
}
