package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/emulator"
	"vsetrain/internal/philox"
)

// decoderCase is a decoder whose input weights see one more value than its contexts.
type decoderCase struct {
	h, r    int
	lengths []int32
	words   []int32 // of the captions, where the dropout of contexts is that of padded sequences
	rate    float64
}

// decoderArgs are the arguments of a decoder.
func (c *pairCase) decoderArgs(s decoderCase) device.DecoderArgs {
	h, r, b, rows := s.h, s.r, len(s.lengths), 0
	for _, n := range s.lengths {
		rows += int(n)
	}
	scaled := func(n int, by float64) device.View {
		x, v := make([]float64, n), c.place(device.Float, n)
		for i := range x {
			x[i] = by * c.rng.Norm()
		}
		c.d.UploadDoubles(v, x)
		return v
	}
	ints := func(x []int32) device.Ints {
		v := device.Ints{View: c.place(device.Int32, len(x)), Host: x}
		c.d.UploadInts(v.View, x)
		return v
	}
	small := 1 / math.Sqrt(float64(h))
	a := device.DecoderArgs{R: r, H: h, A: h, E: h, Lengths: c.lengths, Keys: scaled(b*r*h, 1),
		Regions: scaled(b*r*h, 1), Initial: scaled(b*h, 1), Score: scaled(h, 3*small),
		Attend: scaled(h*(2*h), small), LDAttend: 2 * h,
		WHH: scaled(3*h*h, small), WIH: scaled(3*h*(h+1), small), LDWIH: h + 1, BHH: scaled(3*h, small),
		Gates: scaled(rows*4*h, 1), Prev: c.out(rows * h), Context: c.out(rows * h), Weights: c.out(rows * r),
		Query: c.out(rows * h), States: c.out(rows * h), DStates: scaled(rows*h, 1), DInitial: c.out(b * h),
		DQuery: c.out(rows * h), DKeys: c.out(b * r * h), DRegions: c.out(b * r * h), DVector: c.out(b * h)}
	if s.rate > 0 {
		a.Drop = device.Drops{Rate: s.rate, Key: philox.NewKey(3, "context"), Step: ints([]int32{5, 0})}
	}
	if s.words != nil {
		a.WordLengths = ints(s.words)
	}
	return a
}

// decoder runs all steps of a decoder and their gradient, all at once or one behind the other, and returns what they
// write.
func (c *pairCase) decoder(s decoderCase, atOnce bool) [][]float64 {
	defer c.d.Close()
	a, steps := c.decoderArgs(s), c.d.(device.Decoding)
	if !atOnce {
		c.decoderSteps(&a)
	} else if !steps.DecoderSteps(a) {
		c.t.Fatalf("%+v: the steps are left to the caller", s)
	}
	c.read(a.Gates)
	if !atOnce {
		c.decoderStepsGrad(&a)
	} else if !steps.DecoderStepsGrad(a) {
		c.t.Fatalf("%+v: the steps of the gradient are left to the caller", s)
	}
	c.read(a.Gates, a.Prev, a.Context, a.Weights, a.Query, a.States, a.DInitial, a.DQuery, a.DKeys, a.DRegions,
		a.DVector)
	if err := c.d.Sync(); err != nil {
		c.t.Fatal(err)
	}
	return c.results
}

// decoderPart is what a step of a decoder works on.
type decoderPart struct {
	t, n, start int
	a           *device.DecoderArgs
}

// rows are those of the step.
func (p decoderPart) rows(v device.View, width int) device.View {
	return v.Slice(p.start*width, (p.start+p.n)*width)
}

func (p decoderPart) attention() device.AttentionArgs {
	a := p.a
	return device.AttentionArgs{B: p.n, R: a.R, H: a.A, E: a.E, Keys: a.Keys, Query: p.rows(a.Query, a.A),
		Vector: a.Score, Values: a.Regions, Weights: p.rows(a.Weights, a.R)}
}

func (c *pairCase) drop(p decoderPart, v device.View) {
	drop := device.DropoutArgs{Rate: p.a.Drop.Rate, Key: p.a.Drop.Key, Step: p.a.Drop.Step, X: v, Y: v}
	switch {
	case drop.Rate == 0:
	case p.a.WordLengths.Present():
		c.d.(device.Recorder).DropoutPadded(drop, p.a.WordLengths, p.a.E, p.t)
	default:
		drop.First = p.start * p.a.E
		c.d.Dropout(drop)
	}
}

// decoderSteps follows the comment of DecoderArgs from top to bottom, decoderStepsGrad from bottom to top.
func (c *pairCase) decoderSteps(a *device.DecoderArgs) {
	h, pack := a.H, a.Lengths.Packing()
	before, hidden := a.Initial, c.out(len(a.Lengths.Host)*3*h)
	for t := range pack.Steps() {
		p := decoderPart{t, pack.Active(t), pack.Start(t), a}
		at, gates := p.attention(), p.rows(a.Gates, 4*h)
		at.Context = p.rows(a.Context, a.E)
		c.d.Gemm(device.GemmArgs{TransB: true, M: p.n, N: a.A, K: h, Alpha: 1, A: before, B: a.Attend, LDB: a.LDAttend,
			C: at.Query})
		c.d.AdditiveAttention(at)
		c.drop(p, at.Context)
		c.d.Gemm(device.GemmArgs{TransB: true, M: p.n, N: 3 * h, K: a.E, Alpha: 1, Beta: 1, A: at.Context, B: a.WIH,
			LDB: a.LDWIH, C: gates, LDC: 4 * h})
		c.d.Gemm(device.GemmArgs{TransB: true, M: p.n, N: 3 * h, K: h, Alpha: 1, A: before, B: a.WHH, C: hidden,
			Bias: a.BHH})
		now := p.rows(a.States, h)
		c.d.GRUCell(device.GRUCellArgs{N: p.n, H: h, Gates: gates, Hidden: hidden, Before: before, Y: now,
			Prev: p.rows(a.Prev, h)})
		before = now
	}
}

func (c *pairCase) decoderStepsGrad(a *device.DecoderArgs) {
	h, pack := a.H, a.Lengths.Packing()
	dContext := c.out(len(a.Lengths.Host) * a.E)
	for _, v := range []device.View{a.DInitial, a.DKeys, a.DRegions, a.DVector} {
		c.d.Fill(v, 0)
	}
	for t := pack.Steps() - 1; t >= 0; t-- {
		p := decoderPart{t, pack.Active(t), pack.Start(t), a}
		gates, carry := p.rows(a.Gates, 4*h), a.DInitial.Slice(0, p.n*h)
		c.d.GRUCellGrad(device.GRUCellArgs{N: p.n, H: h, Gates: gates, Prev: p.rows(a.Prev, h),
			DY: p.rows(a.DStates, h), Carry: carry})
		c.d.Gemm(device.GemmArgs{M: p.n, N: h, K: 3 * h, Alpha: 1, Beta: 1, A: gates.Slice(h, gates.N), LDA: 4 * h,
			B: a.WHH, C: carry})
		at := p.attention()
		at.DContext, at.DQuery = dContext.Slice(0, p.n*a.E), p.rows(a.DQuery, a.A)
		at.DKeys, at.DValues, at.DVector = a.DKeys, a.DRegions, a.DVector
		c.d.Gemm(device.GemmArgs{M: p.n, N: a.E, K: 2 * h, Alpha: 1, A: gates.Slice(h, gates.N), LDA: 4 * h, B: a.WIH,
			LDB: a.LDWIH, C: at.DContext})
		c.d.Gemm(device.GemmArgs{M: p.n, N: a.E, K: h, Alpha: 1, Beta: 1, A: gates, LDA: 4 * h,
			B: a.WIH.Slice(2*h*a.LDWIH, a.WIH.N), LDB: a.LDWIH, C: at.DContext})
		c.drop(p, at.DContext)
		c.d.AdditiveAttentionGrad(at)
		c.d.Gemm(device.GemmArgs{M: p.n, N: h, K: a.A, Alpha: 1, Beta: 1, A: at.DQuery, B: a.Attend, LDB: a.LDAttend,
			C: carry})
	}
}

// oneUlp is how far results may be from those of the steps one behind the other, by their size. Both round the operands
// of products to bfloat16; sums differ in their order, by 2⁻²² or so. Where that makes one operand round to the other
// of its neighbours, it changes by 2⁻⁸ of itself, and a sum by no more than 2⁻⁸ of the largest operand, as its weight
// is below 1.
const oneUlp = 1. / 256

// The steps of a decoder as one kernel give what the steps one behind the other give, and the same bits however blocks
// divide the sequences and in every order of the threads.
func TestDecoderOnTensorCores(t *testing.T) {
	for _, s := range []decoderCase{
		{h: 32, r: 3, lengths: []int32{3, 2, 1}},
		{h: 64, r: 36, lengths: slices.Repeat([]int32{3}, 18),
			words: append([]int32{3, 2, 2}, slices.Repeat([]int32{1}, 15)...), rate: 0.25},
		{h: 96, r: 13, lengths: append([]int32{3, 2}, slices.Repeat([]int32{1}, 38)...), rate: 0.5},
	} {
		var first [][]float64
		for n, v := range []struct{ blocks, order int }{{0, 0}, {1, 1}, {0, 2}} {
			what := fmt.Sprintf("%+v, %+v", s, v)
			emulator.Set(t, "multiprocessors", 32, 4)
			emulator.Set(t, "order", v.order, 0)
			o := cuda.Options{Limits: cuda.Limits{StepBlocks: v.blocks}}
			got := tensorCase(t, o, s.lengths...).decoder(s, true)
			if n > 0 {
				if !slices.EqualFunc(got, first, slices.Equal) {
					t.Errorf("%s: other bits", what)
				}
				continue
			}
			first, o.BaseKernels = got, true
			for i, want := range tensorCase(t, o, s.lengths...).decoder(s, false) {
				size, most := 0.0, 0.0
				for k, v := range want {
					size = max(size, math.Abs(v))
					if d := math.Abs(got[i][k] - v); !(d <= most) {
						most = d
					}
				}
				if !(most <= oneUlp*size) || size == 0 {
					t.Errorf("%s: result %d is off by %.3g of %.3g", what, i, most, size)
				}
			}
		}
	}
}

// Other sizes and other GPUs are left to the caller, and nothing has been started then.
func TestDecoderLeftToTheCaller(t *testing.T) {
	for what, c := range map[string]struct {
		h, r, a             int
		base                bool
		cooperative, blocks int
	}{
		"as it should be":           {h: 32, r: 3, a: 32, cooperative: 1, blocks: 16},
		"40 units":                  {h: 40, r: 3, a: 40, cooperative: 1, blocks: 16},
		"544 units":                 {h: 544, r: 3, a: 544, cooperative: 1, blocks: 64},
		"65 regions":                {h: 32, r: 65, a: 32, cooperative: 1, blocks: 16},
		"another size of attention": {h: 32, r: 3, a: 31, cooperative: 1, blocks: 16},
		"base kernels":              {h: 32, r: 3, a: 32, base: true, cooperative: 1, blocks: 16},
		"no cooperative launch":     {h: 32, r: 3, a: 32, cooperative: 0, blocks: 16},
		"fewer multiprocessors":     {h: 64, r: 3, a: 64, cooperative: 1, blocks: 0},
	} {
		emulator.Set(t, "cooperative", c.cooperative, 1)
		emulator.Set(t, "multiprocessors", c.blocks, 4)
		s := decoderCase{h: c.h, r: c.r, lengths: []int32{2, 1}}
		p := tensorCase(t, cuda.Options{BaseKernels: c.base}, s.lengths...)
		args := p.decoderArgs(s)
		args.A = c.a
		p.read(args.Gates)
		before, steps := emulator.Launches(t), p.d.(device.Decoding)
		forward := steps.DecoderSteps(args)
		if err := p.d.Sync(); err != nil {
			t.Fatal(err)
		}
		started := emulator.Launches(t) != before
		if want := what == "as it should be"; forward != want || started != want {
			t.Errorf("%s: all steps at once: %v, kernels were started: %v, want %v", what, forward, started, want)
		}
		if what != "as it should be" && steps.DecoderStepsGrad(args) {
			t.Errorf("%s: all steps of the gradient at once", what)
		}
		p.d.Close()
	}
}
