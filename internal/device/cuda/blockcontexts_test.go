package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
)

// blockCosines are the cosines and contexts of words and regions, and their exact values with what rounding the
// operands of the contexts may change of each.
type blockCosines struct{ got, want, bound [4][]float64 }

// rounding is the greatest relative error of a value rounded to bfloat16.
const rounding = 1.0 / (1 << 8)

// blockMatch computes block cosines of random nodes. Where the regions cancel, those of an image are x, -x, x/8 and
// the rest has no weight, so that contexts are x/8 but for what was rounded.
func (c *pairCase) blockMatch(b, r, e, blocks int, cancel bool) blockCosines {
	defer c.d.Close()
	words := 0
	for _, n := range c.lengths.Host {
		words += int(n)
	}
	values := func(n int, draw func(i int) float64) ([]float64, device.View) {
		x, v := make([]float64, n), c.place(device.Float, n)
		for i := range x {
			x[i] = float64(float32(draw(i)))
		}
		c.d.UploadDoubles(v, x)
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
		c.d.UploadDoubles(yv, y)
	}
	beta, betaView := values(words*b*r, weight)
	alpha, alphaView := values(words*b*r, weight)
	captions := len(c.lengths.Host)
	a := device.BlockMatchArgs{B: b, R: r, E: e, Blocks: blocks, Lengths: c.lengths, Words: xv, Regions: yv,
		WordAttention: betaView, RegionAttention: alphaView,
		WordMatch: c.out(b * words * blocks), WordNorm: c.out(b * words * blocks),
		RegionMatch: c.out(b * captions * r * blocks), RegionNorm: c.out(b * captions * r * blocks)}
	c.d.BlockMatch(a)
	c.read(a.WordMatch, a.WordNorm, a.RegionMatch, a.RegionNorm)
	if err := c.d.Sync(); err != nil {
		c.t.Fatal(err)
	}
	var s blockCosines
	copy(s.got[:], c.results)
	width := e / blocks
	// one is the cosine of block k of a row with its context of n keys, whose weights are stride apart.
	one := func(to int, row, keys, weights []float64, stride, n, k int) {
		context := make([]float64, width)
		row = row[k*width:][:width]
		var q, size, norm, dot float64
		for j := range n {
			var square float64
			for i, v := range keys[j*e+k*width:][:width] {
				context[i] += weights[j*stride] * v
				square += v * v
			}
			size += weights[j*stride] * math.Sqrt(square)
		}
		for i, v := range context {
			q, norm, dot = q+row[i]*row[i], norm+v*v, dot+v*row[i]
		}
		q, norm = math.Sqrt(q), math.Sqrt(norm)
		if size == 0 {
			s.want[to], s.bound[to] = append(s.want[to], 0), append(s.bound[to], 0)
			s.want[to+1], s.bound[to+1] = append(s.want[to+1], 0), append(s.bound[to+1], 0)
			return
		}
		// Weights and keys are rounded, in the numerator the row too. A context that nearly cancels is exact.
		off := size / norm
		if norm < 0.03*size {
			off = 0
		}
		s.want[to], s.bound[to] = append(s.want[to], dot/(q*norm)), append(s.bound[to], 5.1*rounding*off+1e-5)
		s.want[to+1], s.bound[to+1] = append(s.want[to+1], norm), append(s.bound[to+1],
			2.1*rounding*off*norm+1e-5*norm)
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
		for i, want := range s.want[n] {
			if d := math.Abs(s.got[n][i] - want); !(d <= s.bound[n][i]) {
				t.Errorf("%s: value %d of result %d is %v, want %v, off by %.3g times the bound", what, i, n,
					s.got[n][i], want, d/s.bound[n][i])
				break
			}
		}
	}
}

// Block cosines on tensor cores are those of operands rounded to bfloat16, in every order of the threads; contexts that
// nearly cancel are exact. Sizes beyond what the kernels take are left to the base kernels, whose bits they have.
func TestBlockCosinesOnTensorCores(t *testing.T) {
	for _, c := range []struct {
		b, r, e, blocks int
		lengths         []int32
		same            bool // nothing is left to the tensor cores
		cancel          bool
	}{
		// blocks of the vectors as wide as they may be; as many keys, and more blocks than are taken at once
		{4, 36, 192, 3, []int32{17, 1, 4, 12, 33}, false, false},
		{2, 48, 40, 5, []int32{48, 3}, false, false},
		// rows in parts
		{20, 33, 8, 1, []int32{2, 30, 9, 29, 30, 31, 32, 28, 20, 20, 20, 20, 1}, false, false},
		{1, 1, 16, 2, []int32{1}, false, false},
		{2, 5, 64, 4, []int32{2, 3}, false, true},
		{2, 49, 8, 1, []int32{2, 3}, true, false}, {2, 3, 8, 1, []int32{49}, true, false},
		{2, 3, 72, 1, []int32{2}, true, false}, {2, 3, 24, 2, []int32{2}, true, false},
	} {
		what := fmt.Sprintf("%+v", c)
		emulator.Set(t, "order", 0, 0)
		got := tensorCase(t, cuda.Options{}, c.lengths...).blockMatch(c.b, c.r, c.e, c.blocks, c.cancel)
		got.check(t, what)
		base := tensorCase(t, cuda.Options{BaseKernels: true}, c.lengths...).blockMatch(c.b, c.r, c.e, c.blocks,
			c.cancel)
		if same := slices.EqualFunc(got.got[:], base.got[:], slices.Equal); same != c.same {
			t.Errorf("%s: the bits of the base kernels: %v", what, same)
		}
		emulator.Set(t, "order", 2, 0)
		other := tensorCase(t, cuda.Options{}, c.lengths...).blockMatch(c.b, c.r, c.e, c.blocks, c.cancel)
		if !slices.EqualFunc(other.got[:], got.got[:], slices.Equal) {
			t.Errorf("%s: other bits where threads run in another order", what)
		}
	}
}
