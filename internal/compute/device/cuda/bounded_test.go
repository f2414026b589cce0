package cuda_test

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// Kernels of recorded steps, for which the host knows only upper bounds of lengths (device.Ints, Bounded), give the
// same results as with exact lengths. What they write after the last word is zero if they promise that, whatever memory
// held there.
//
// Three long captions among short ones: the sum of their squares exceeds the sum for the bounds.

var (
	boundedLengths = []int32{12, 12, 12, 1, 1, 1, 1, 1}
	lengthBound    = []int32{12, 5, 5, 5, 5, 4, 4, 4}
)

const boundedImages, boundedRegions, boundedWords, boundedSquares, boundedWidth = 3, 4, 41, 437, 8

// boundedCase is one run of kernels, with exact lengths or with bounds.
type boundedCase struct {
	*bench
	lengths  device.Ints
	capacity int // words according to the host
	rng      *philox.Stream
	reads    []func() // of results, when all kernels have run
	results  []boundedResult
}

type boundedResult struct {
	name   string
	values []float64 // of the words
	after  []float64
	zero   bool
}

func newBoundedCase(t *testing.T, o cuda.Options, bounded bool) *boundedCase {
	c := &boundedCase{bench: newBench(t, o), rng: philox.NewKey(5, "loose").Stream(0), capacity: boundedWords}
	c.lengths = device.Ints{View: c.ints(boundedLengths...), Host: boundedLengths}
	if bounded {
		c.lengths.Host, c.lengths.Bounded, c.capacity = lengthBound, true, 0
		for _, n := range lengthBound {
			c.capacity += int(n)
		}
	}
	return c
}

func (c *boundedCase) draw(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(0.3 * c.rng.Norm())
	}
	return x
}

// flat is an input without words.
func (c *boundedCase) flat(n int) device.View { return c.floats(c.draw(n)...) }

// rows is an input of the given width, for each image: extra rows, a row for each word, and then rows of the value
// after.
func (c *boundedCase) rows(images, extra, width int, after float32) device.View {
	var all []float32
	for range images {
		all = append(all, c.draw((boundedWords+extra)*width)...)
		for range (c.capacity - boundedWords) * width {
			all = append(all, after)
		}
	}
	return c.floats(all...)
}

// out is a result like rows.
func (c *boundedCase) out(name string, images, extra, width int, zero bool) (v device.View) {
	per := (c.capacity + extra) * width
	v = c.nan(images * per)
	c.reads = append(c.reads, func() {
		x, r := c.doubles(v), boundedResult{name: name, zero: zero}
		for i := range images {
			r.values = append(r.values, x[i*per:][:(boundedWords+extra)*width]...)
			r.after = append(r.after, x[i*per+(boundedWords+extra)*width:(i+1)*per]...)
		}
		c.results = append(c.results, r)
	})
	return v
}

// sum is a result of n values without rows.
func (c *boundedCase) sum(name string, n int) device.View { return c.part(name, n, n) }

// part is sum with memory for more values.
func (c *boundedCase) part(name string, n, capacity int) (v device.View) {
	v = c.nan(capacity)
	c.reads = append(c.reads, func() {
		c.results = append(c.results, boundedResult{name: name, values: c.doubles(v.Slice(0, n))})
	})
	return v
}

// squares is the number of weights between the words of captions that memory has room for.
func (c *boundedCase) squares() int { return c.capacity * c.capacity }

const (
	garbage = 0.25 // finite
	zeros   = 0
)

var nothing = float32(math.NaN())

var boundedKernels = map[string]func(c *boundedCase){
	"embeddings": func(c *boundedCase) {
		const v, p, k, d = 6, 12, 2, boundedWidth
		ids := make([]int32, len(boundedLengths)*12)
		for i := range ids {
			ids[i] = int32(c.rng.IntN(v))
		}
		a := device.Embed{Words: device.Ints{View: c.ints(ids...), Host: ids}, Lengths: c.lengths, L: 12, V: v,
			P: p, K: k, D: d, Word: c.flat(v * d), Position: c.flat(p * d), Type: c.flat(k * d)}
		a.Out = c.out("rows", 1, 0, d, true)
		device.Do(c.Device, a)
		a.Out = c.rows(1, 0, d, zeros)
		a.Word = c.sum("words", v*d)
		a.Position = c.sum("positions", p*d)
		a.Type = c.sum("types", k*d)
		device.DoGrad(c.Device, a)
	},
	"self-attention": func(c *boundedCase) { c.selfAttention(boundedWidth) },
	"words of packed captions": func(c *boundedCase) {
		for _, back := range []bool{false, true} {
			dst := c.out(fmt.Sprint("back ", back), 1, 0, 3, true)
			device.Do(c.Device, device.UnpackWords{Dst: dst, Src: c.rows(1, 0, 3, nothing), Lengths: c.lengths, D: 3,
				Back: back})
		}
	},
	"means": func(c *boundedCase) {
		dst := c.sum("means", len(boundedLengths)*3)
		device.Do(c.Device, device.SegmentMeans{Means: dst, Rows: c.rows(1, 0, 3, nothing), Counts: c.lengths, D: 3})
		dx := c.out("dx", 1, 0, 3, true)
		device.DoGrad(c.Device, device.SegmentMeans{Rows: dx, Means: c.flat(len(boundedLengths) * 3),
			Counts: c.lengths, D: 3})
	},
	"gated pool": func(c *boundedCase) {
		const d = boundedWidth
		n := len(boundedLengths) * d
		a := device.GatedPool{D: d, Counts: c.lengths, L: c.rows(1, 0, d, nothing), X: c.rows(1, 0, d, nothing),
			G: c.flat(n), W: c.flat(d), Weights: c.nan(c.capacity), DOut: c.flat(n)}
		a.Out = c.sum("out", n)
		device.Do(c.Device, a)
		a.DL = c.out("dl", 1, 0, d, true)
		a.DX = c.out("dx", 1, 0, d, true)
		a.DG = c.sum("dg", n)
		a.DW = c.sum("dw", n)
		device.DoGrad(c.Device, a)
	},
	"attention of words":       func(c *boundedCase) { c.attention(false) },
	"attention of regions":     func(c *boundedCase) { c.attention(true) },
	"similarities":             func(c *boundedCase) { c.similarities(false) },
	"similarities with filter": func(c *boundedCase) { c.similarities(true) },
	"reasoning":                func(c *boundedCase) { c.reason(false) },
	"reasoning of captions":    func(c *boundedCase) { c.reason(true) },
	"filtration": func(c *boundedCase) {
		const b, s = boundedImages, 5
		n := len(boundedLengths)
		a := device.Filtrate{B: b, S: s, Train: true, Eps: 1e-5, Momentum: 0.1, Lengths: c.lengths,
			X: c.rows(b, n, s, garbage), Logits: c.rows(b, n, 1, garbage), Gamma: c.flat(1), Beta: c.flat(1),
			RunningMean: c.floats(0), RunningVar: c.floats(1), Weights: c.nan(b * (c.capacity + n)), Mean: c.nan(n),
			InvStd: c.nan(n), Norms: c.nan(b * n)}
		a.Out, a.RunningMean, a.RunningVar = c.sum("out", b*n*s), c.sum("mean", 1), c.sum("variance", 1)
		device.Do(c.Device, device.Fill{Dst: a.RunningMean})
		device.Do(c.Device, device.Fill{Dst: a.RunningVar, Value: 1})
		device.Do(c.Device, a)
		a.DOut, a.DSums, a.DLogits = c.flat(b*n*s), c.sum("dsums", b*n*s), c.nan(b*(c.capacity+n))
		a.DBias, a.DGamma, a.DBeta = c.sum("dbias", 1), c.sum("dgamma", 1), c.sum("dbeta", 1)
		device.DoGrad(c.Device, a)
	},
	"block match": func(c *boundedCase) { c.blockMatch(2) },
	"mixing, means and weights of nodes": func(c *boundedCase) {
		const b, k, h = boundedImages, 1, 4
		n := len(boundedLengths) * b * h
		weights := c.nan(c.squares())
		c.UploadFloats(weights.Slice(0, boundedSquares), c.draw(boundedSquares))
		m := device.MixNodes{B: b, K: k, H: h, Lengths: c.lengths, X: c.rows(b, 0, h, nothing), Weights: weights,
			Y: c.out("mixed", b, 0, h, true)}
		device.Do(c.Device, m)
		m.DY, m.DX, m.DWeights = c.rows(b, 0, h, nothing), c.out("dx", b, 0, h, true),
			c.part("dweights", boundedSquares, c.squares())
		device.DoGrad(c.Device, m)
		a := device.MeanNodes{B: b, H: h, Lengths: c.lengths, X: c.rows(b, 0, h, nothing),
			Y: c.sum("means", n)}
		device.Do(c.Device, a)
		a.DY, a.DX = c.flat(n), c.out("dx of means", b, 0, h, true)
		device.DoGrad(c.Device, a)
		g := device.WordGraph{E: boundedWidth, Lambda: 2, Lengths: c.lengths,
			Words: c.rows(1, 0, boundedWidth, zeros), Weights: c.part("graph", boundedSquares, c.squares()),
			Sparse: true}
		edges, start := []int32{11, 0, 3, 9, 0, 5}, []int32{0, 0, 2, 3, 3, 3, 3, 3, 3}
		g.Edges, g.EdgeStart = device.Ints{View: c.ints(edges...), Host: edges}, device.Ints{View: c.ints(start...),
			Host: start}
		device.Do(c.Device, g)
		g.DWeights, g.DWords = c.nan(c.squares()), c.out("dwords", 1, 0, boundedWidth, true)
		c.UploadFloats(g.DWeights.Slice(0, boundedSquares), c.draw(boundedSquares))
		device.DoGrad(c.Device, g)
	},
}

func (c *boundedCase) blockMatch(blocks int) {
	const b, r, e = boundedImages, boundedRegions, boundedWidth
	n := len(boundedLengths) * b * r * blocks
	a := device.BlockMatch{B: b, R: r, E: e, Blocks: blocks, Lengths: c.lengths, Words: c.rows(1, 0, e, zeros),
		Regions: c.flat(b * r * e), WordAttention: c.rows(1, 0, b*r, zeros),
		RegionAttention: c.rows(1, 0, b*r, zeros), WordNorm: c.nan(b * c.capacity * blocks), RegionNorm: c.nan(n)}
	a.WordMatch, a.RegionMatch = c.out("words", b, 0, blocks, true), c.sum("regions", n)
	device.Do(c.Device, a)
	a.DWordMatch, a.DRegionMatch = c.rows(b, 0, blocks, zeros), c.flat(n)
	a.DWords, a.DRegions = c.out("dwords", 1, 0, e, true), c.sum("dregions", b*r*e)
	a.DWordAttention, a.DRegionAttention = c.out("dbeta", 1, 0, b*r, true), c.out("dalpha", 1, 0, b*r, true)
	device.DoGrad(c.Device, a)
}

func (c *boundedCase) attention(overWords bool) {
	const wide = boundedImages * boundedRegions
	a := device.PairAttention{B: boundedImages, R: boundedRegions, Lambda: 9, OverWords: overWords,
		Lengths: c.lengths, Scores: c.rows(1, 0, wide, zeros)}
	a.Weights = c.out("weights", 1, 0, wide, true)
	device.Do(c.Device, a)
	a.DWeights = c.rows(1, 0, wide, garbage)
	a.DScores = c.out("dscores", 1, 0, wide, true)
	device.DoGrad(c.Device, a)
}

func (c *boundedCase) similarities(filtered bool) {
	const b, e, s = boundedImages, boundedWidth, 5
	n := len(boundedLengths)
	nodes := c.out("nodes", b, n, s, false)
	local := device.Similarities{B: b, R: boundedRegions, E: e, S: s, Lengths: c.lengths,
		Images: c.flat(b * boundedRegions * e), Weights: c.rows(1, 0, b*boundedRegions, zeros),
		Rows: c.rows(1, 0, e, zeros), W: c.flat(s * e), Bias: c.flat(s), Nodes: nodes, Norms: c.nan(b * c.capacity),
		Contexts: c.nan(b * c.capacity)}
	global := device.Similarities{Global: true, B: b, E: e, S: s, Lengths: c.lengths, Images: c.flat(b * e),
		Rows: c.flat(n * e), W: c.flat(s * e), Bias: c.flat(s), Nodes: nodes, Norms: c.nan(b * n)}
	if filtered {
		local.Filter = device.Filter{W: c.flat(s), Bias: c.flat(1), Logits: c.out("logits", b, n, 1, false)}
		global.Filter = local.Filter
	}
	device.Do(c.Device, local)
	device.Do(c.Device, global)
	if f := &local.Filter; filtered {
		f.Weights, f.DSums, f.DLogits = c.rows(b, n, 1, nothing), c.flat(b*n*s), c.rows(b, n, 1, nothing)
		global.Filter = *f
		f.DW, global.Filter.DW = c.sum("filter dw", s), c.sum("global filter dw", s)
	} else {
		local.DNodes = c.rows(b, n, s, zeros)
		global.DNodes = local.DNodes
	}
	local.DImages, local.DRows = c.sum("dregions", b*boundedRegions*e), c.out("dwords", 1, 0, e, true)
	local.DWeights, local.DW, local.DBias = c.out("dweights", 1, 0, b*boundedRegions, true),
		c.sum("dw", s*e), c.sum("dbias", s)
	global.DImages, global.DRows = c.sum("dimages", b*e), c.sum("dcaptions", n*e)
	global.DW, global.DBias = c.sum("global dw", s*e), c.sum("global dbias", s)
	device.DoGrad(c.Device, local)
	device.DoGrad(c.Device, global)
}

func (c *boundedCase) reason(first bool) {
	const b, s = boundedImages, 5
	n := len(boundedLengths)
	a := device.GraphReason{B: b, S: s, First: first, Lengths: c.lengths, X: c.rows(b, n, s, garbage), M: c.flat(s * s),
		V: c.flat(s), W: c.flat(s * s), Bias: c.flat(s)}
	if first {
		a.Out, a.DOut = c.sum("out", b*n*s), c.flat(b*n*s)
	} else {
		a.Out, a.DOut, a.Y = c.out("out", b, n, s, false), c.rows(b, n, s, zeros), c.nan(b*(c.capacity+n)*s)
	}
	device.Do(c.Device, a)
	a.DX, a.DM, a.DV = c.out("dx", b, n, s, true), c.sum("dm", s*s), c.sum("dv", s)
	a.DW, a.DBias = c.sum("dw", s*s), c.sum("dbias", s)
	device.DoGrad(c.Device, a)
}

func (c *boundedCase) selfAttention(d int) {
	numbers := make([]int32, c.capacity)
	for i := range numbers {
		if numbers[i] = -1; i < boundedWords {
			numbers[i] = int32(i)
		}
	}
	a := device.SelfAttention{Heads: 2, D: d, Lengths: c.lengths, Query: c.rows(1, 0, d, garbage),
		Key: c.rows(1, 0, d, garbage), Value: c.rows(1, 0, d, garbage),
		Drop: device.DropoutParams{Rate: 0.3, Key: philox.NewKey(1, "drop"), Step: device.Ints{View: c.ints(7, 0)},
			Rows: c.ints(numbers...)}}
	a.Context = c.out("context", 1, 0, d, true)
	device.Do(c.Device, a)
	a.DContext = c.rows(1, 0, d, zeros)
	a.DQuery = c.out("dquery", 1, 0, d, true)
	a.DKey = c.out("dkey", 1, 0, d, true)
	a.DValue = c.out("dvalue", 1, 0, d, true)
	device.DoGrad(c.Device, a)
}

func TestBoundedLengths(t *testing.T) {
	compare := func(name string, o cuda.Options, run func(c *boundedCase)) {
		t.Run(name, func(t *testing.T) {
			exact, bounded := newBoundedCase(t, o, false), newBoundedCase(t, o, true)
			for _, c := range []*boundedCase{exact, bounded} {
				run(c)
				for _, read := range c.reads {
					read()
				}
				try.Do(t, c.Sync())
			}
			for i, got := range bounded.results {
				want := exact.results[i]
				for k, v := range want.values {
					if d := math.Abs(got.values[k] - v); !(d <= 1e-5*(1+math.Abs(v))) {
						t.Errorf("%s: value %d is %v, with the lengths themselves %v", got.name, k, got.values[k], v)
						break
					}
				}
				for k, v := range got.after {
					if got.zero && v != 0 || math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s: value %d after the words is %v", got.name, k, v)
						break
					}
				}
			}
		})
	}
	for name, run := range boundedKernels {
		compare(name, cuda.Options{}, run)
	}
	for _, precision := range []string{cuda.BF16, cuda.TF32} {
		compare("block match on tensor cores in "+precision, cuda.Options{Precision: precision},
			func(c *boundedCase) { c.blockMatch(1) })
	}
	compare("self-attention on tensor cores", cuda.Options{Precision: cuda.BF16},
		func(c *boundedCase) { c.selfAttention(32) })
}
