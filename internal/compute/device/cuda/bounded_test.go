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

// The kernels that a recorded step calls with lengths of which the host knows an upper bound only (device.Ints,
// Bounded) give what they give with the lengths themselves. What they write after the last word is zero where it is
// said to be, whatever memory holds there before.
//
// Three long captions among short ones: their squares add up to more than the squares of the bound.

var (
	boundedLengths = []int32{12, 12, 12, 1, 1, 1, 1, 1}
	lengthBound    = []int32{12, 5, 5, 5, 5, 4, 4, 4}
)

const boundedImages, boundedRegions, boundedWords, boundedSquares, boundedWidth = 3, 4, 41, 437, 8

// boundedCase is one run of kernels, on the lengths or on the bound.
type boundedCase struct {
	*bench
	lengths  device.Ints
	capacity int // words of the lengths that the host knows
	rng      *philox.Stream
	results  []boundedResult
}

type boundedResult struct {
	name   string
	values []float64 // of the words there are
	behind []float64
	zero   bool
}

func newBoundedCase(t *testing.T, o cuda.Options, bounded bool) *boundedCase {
	d := open(t, o)
	t.Cleanup(func() { d.Close() })
	c := &boundedCase{bench: &bench{t, d}, rng: philox.NewKey(5, "loose").Stream(0), capacity: boundedWords}
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

// flat is an input that has nothing to do with words.
func (c *boundedCase) flat(n int) device.View { return c.floats(c.draw(n)...) }

// rows is an input of the given width with a row for each word, and extra rows before them, for each image; after them
// come the values of the other rows.
func (c *boundedCase) rows(images, extra, width int, behind float32) device.View {
	var all []float32
	for range images {
		all = append(all, c.draw((boundedWords+extra)*width)...)
		for range (c.capacity - boundedWords) * width {
			all = append(all, behind)
		}
	}
	return c.floats(all...)
}

func (c *boundedCase) nan(n int) device.View {
	v := c.alloc(device.Float, n)
	device.Do(c.Device, device.Fill{Dst: v, Value: math.NaN()})
	return v
}

// out is a result like rows; finish reads it.
func (c *boundedCase) out(name string, images, extra, width int, zero bool) (v device.View, finish func()) {
	per := (c.capacity + extra) * width
	v = c.nan(images * per)
	return v, func() {
		x, r := make([]float64, v.N), boundedResult{name: name, zero: zero}
		c.DownloadDoubles(x, v)
		for i := range images {
			r.values = append(r.values, x[i*per:][:(boundedWords+extra)*width]...)
			r.behind = append(r.behind, x[i*per+(boundedWords+extra)*width:(i+1)*per]...)
		}
		c.results = append(c.results, r)
	}
}

// sum is a result without rows, of which the first n values count.
func (c *boundedCase) sum(name string, n, capacity int) (v device.View, finish func()) {
	v = c.nan(capacity)
	return v, func() {
		x := make([]float64, n)
		c.DownloadDoubles(x, v.Slice(0, n))
		c.results = append(c.results, boundedResult{name: name, values: x})
	}
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
		var read [4]func()
		a.Out, read[0] = c.out("rows", 1, 0, d, true)
		device.Do(c.Device, a)
		a.Out = c.rows(1, 0, d, zeros)
		a.Word, read[1] = c.sum("words", v*d, v*d)
		a.Position, read[2] = c.sum("positions", p*d, p*d)
		a.Type, read[3] = c.sum("types", k*d, k*d)
		device.DoGrad(c.Device, a)
		for _, f := range read {
			f()
		}
	},
	"self-attention": func(c *boundedCase) { c.selfAttention(boundedWidth) },
	"words of packed captions": func(c *boundedCase) {
		for _, back := range []bool{false, true} {
			dst, read := c.out(fmt.Sprint("back ", back), 1, 0, 3, true)
			device.Do(c.Device, device.UnpackWords{Dst: dst, Src: c.rows(1, 0, 3, nothing), Lengths: c.lengths, D: 3,
				Back: back})
			read()
		}
	},
	"means": func(c *boundedCase) {
		dst, read := c.sum("means", len(boundedLengths)*3, len(boundedLengths)*3)
		device.Do(c.Device, device.SegmentMeans{Means: dst, Rows: c.rows(1, 0, 3, nothing), Counts: c.lengths, D: 3})
		read()
		dx, read := c.out("dx", 1, 0, 3, true)
		device.DoGrad(c.Device, device.SegmentMeans{Rows: dx, Means: c.flat(len(boundedLengths) * 3),
			Counts: c.lengths, D: 3})
		read()
	},
	"gated pool": func(c *boundedCase) {
		const d = boundedWidth
		n := len(boundedLengths) * d
		a := device.GatedPool{D: d, Counts: c.lengths, L: c.rows(1, 0, d, nothing), X: c.rows(1, 0, d, nothing),
			G: c.flat(n), W: c.flat(d), Weights: c.nan(c.capacity), DOut: c.flat(n)}
		var read [5]func()
		a.Out, read[0] = c.sum("out", n, n)
		device.Do(c.Device, a)
		a.DL, read[1] = c.out("dl", 1, 0, d, true)
		a.DX, read[2] = c.out("dx", 1, 0, d, true)
		a.DG, read[3] = c.sum("dg", n, n)
		a.DW, read[4] = c.sum("dw", n, n)
		device.DoGrad(c.Device, a)
		for _, f := range read {
			f()
		}
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
		var reads []func()
		check := func(v device.View, f func()) device.View { reads = append(reads, f); return v }
		a.Out, a.RunningMean, a.RunningVar = check(c.sum("out", b*n*s, b*n*s)), check(c.sum("mean", 1, 1)),
			check(c.sum("variance", 1, 1))
		device.Do(c.Device, device.Fill{Dst: a.RunningMean})
		device.Do(c.Device, device.Fill{Dst: a.RunningVar, Value: 1})
		device.Do(c.Device, a)
		a.DOut, a.DSums, a.DLogits = c.flat(b*n*s), check(c.sum("dsums", b*n*s, b*n*s)), c.nan(b*(c.capacity+n))
		a.DBias, a.DGamma, a.DBeta = check(c.sum("dbias", 1, 1)), check(c.sum("dgamma", 1, 1)),
			check(c.sum("dbeta", 1, 1))
		device.DoGrad(c.Device, a)
		for _, f := range reads {
			f()
		}
	},
	"block match": func(c *boundedCase) { c.blockMatch(2) },
	"mixing, means and weights of nodes": func(c *boundedCase) {
		const b, k, h = boundedImages, 1, 4
		n := len(boundedLengths) * b * h
		var reads []func()
		check := func(v device.View, f func()) device.View { reads = append(reads, f); return v }
		weights := c.nan(c.squares())
		c.UploadFloats(weights.Slice(0, boundedSquares), c.draw(boundedSquares))
		m := device.MixNodes{B: b, K: k, H: h, Lengths: c.lengths, X: c.rows(b, 0, h, nothing), Weights: weights,
			Y: check(c.out("mixed", b, 0, h, true))}
		device.Do(c.Device, m)
		m.DY, m.DX, m.DWeights = c.rows(b, 0, h, nothing), check(c.out("dx", b, 0, h, true)),
			check(c.sum("dweights", boundedSquares, c.squares()))
		device.DoGrad(c.Device, m)
		a := device.MeanNodes{B: b, H: h, Lengths: c.lengths, X: c.rows(b, 0, h, nothing),
			Y: check(c.sum("means", n, n))}
		device.Do(c.Device, a)
		a.DY, a.DX = c.flat(n), check(c.out("dx of means", b, 0, h, true))
		device.DoGrad(c.Device, a)
		g := device.WordGraph{E: boundedWidth, Lambda: 2, Lengths: c.lengths,
			Words: c.rows(1, 0, boundedWidth, zeros), Weights: check(c.sum("graph", boundedSquares, c.squares())),
			Sparse: true}
		edges, start := []int32{11, 0, 3, 9, 0, 5}, []int32{0, 0, 2, 3, 3, 3, 3, 3, 3}
		g.Edges, g.EdgeStart = device.Ints{View: c.ints(edges...), Host: edges}, device.Ints{View: c.ints(start...),
			Host: start}
		device.Do(c.Device, g)
		g.DWeights, g.DWords = c.nan(c.squares()), check(c.out("dwords", 1, 0, boundedWidth, true))
		c.UploadFloats(g.DWeights.Slice(0, boundedSquares), c.draw(boundedSquares))
		device.DoGrad(c.Device, g)
		for _, f := range reads {
			f()
		}
	},
}

func (c *boundedCase) blockMatch(blocks int) {
	const b, r, e = boundedImages, boundedRegions, boundedWidth
	n := len(boundedLengths) * b * r * blocks
	a := device.BlockMatch{B: b, R: r, E: e, Blocks: blocks, Lengths: c.lengths, Words: c.rows(1, 0, e, zeros),
		Regions: c.flat(b * r * e), WordAttention: c.rows(1, 0, b*r, zeros),
		RegionAttention: c.rows(1, 0, b*r, zeros), WordNorm: c.nan(b * c.capacity * blocks), RegionNorm: c.nan(n)}
	var reads []func()
	check := func(v device.View, f func()) device.View { reads = append(reads, f); return v }
	a.WordMatch, a.RegionMatch = check(c.out("words", b, 0, blocks, true)), check(c.sum("regions", n, n))
	device.Do(c.Device, a)
	a.DWordMatch, a.DRegionMatch = c.rows(b, 0, blocks, zeros), c.flat(n)
	a.DWords, a.DRegions = check(c.out("dwords", 1, 0, e, true)), check(c.sum("dregions", b*r*e, b*r*e))
	a.DWordAttention, a.DRegionAttention = check(c.out("dbeta", 1, 0, b*r, true)),
		check(c.out("dalpha", 1, 0, b*r, true))
	device.DoGrad(c.Device, a)
	for _, f := range reads {
		f()
	}
}

func (c *boundedCase) attention(overWords bool) {
	const wide = boundedImages * boundedRegions
	a := device.PairAttention{B: boundedImages, R: boundedRegions, Lambda: 9, OverWords: overWords,
		Lengths: c.lengths, Scores: c.rows(1, 0, wide, zeros)}
	var read [2]func()
	a.Weights, read[0] = c.out("weights", 1, 0, wide, true)
	device.Do(c.Device, a)
	a.DWeights = c.rows(1, 0, wide, garbage)
	a.DScores, read[1] = c.out("dscores", 1, 0, wide, true)
	device.DoGrad(c.Device, a)
	read[0]()
	read[1]()
}

func (c *boundedCase) similarities(filtered bool) {
	const b, e, s = boundedImages, boundedWidth, 5
	n := len(boundedLengths)
	nodes, read := c.out("nodes", b, n, s, false)
	local := device.Similarities{B: b, R: boundedRegions, E: e, S: s, Lengths: c.lengths,
		Images: c.flat(b * boundedRegions * e), Weights: c.rows(1, 0, b*boundedRegions, zeros),
		Rows: c.rows(1, 0, e, zeros), W: c.flat(s * e), Bias: c.flat(s), Nodes: nodes, Norms: c.nan(b * c.capacity),
		Contexts: c.nan(b * c.capacity)}
	global := device.Similarities{Global: true, B: b, E: e, S: s, Lengths: c.lengths, Images: c.flat(b * e),
		Rows: c.flat(n * e), W: c.flat(s * e), Bias: c.flat(s), Nodes: nodes, Norms: c.nan(b * n)}
	reads := []func(){read}
	check := func(v device.View, f func()) device.View { reads = append(reads, f); return v }
	if filtered {
		local.Filter = device.Filter{W: c.flat(s), Bias: c.flat(1), Logits: check(c.out("logits", b, n, 1, false))}
		global.Filter = local.Filter
	}
	device.Do(c.Device, local)
	device.Do(c.Device, global)
	if f := &local.Filter; filtered {
		f.Weights, f.DSums, f.DLogits = c.rows(b, n, 1, nothing), c.flat(b*n*s), c.rows(b, n, 1, nothing)
		global.Filter = *f
		f.DW, global.Filter.DW = check(c.sum("filter dw", s, s)), check(c.sum("global filter dw", s, s))
	} else {
		local.DNodes = c.rows(b, n, s, zeros)
		global.DNodes = local.DNodes
	}
	local.DImages, local.DRows = check(c.sum("dregions", b*boundedRegions*e, b*boundedRegions*e)),
		check(c.out("dwords", 1, 0, e, true))
	local.DWeights, local.DW, local.DBias = check(c.out("dweights", 1, 0, b*boundedRegions, true)),
		check(c.sum("dw", s*e, s*e)), check(c.sum("dbias", s, s))
	global.DImages, global.DRows = check(c.sum("dimages", b*e, b*e)), check(c.sum("dcaptions", n*e, n*e))
	global.DW, global.DBias = check(c.sum("global dw", s*e, s*e)), check(c.sum("global dbias", s, s))
	device.DoGrad(c.Device, local)
	device.DoGrad(c.Device, global)
	for _, f := range reads {
		f()
	}
}

func (c *boundedCase) reason(first bool) {
	const b, s = boundedImages, 5
	n := len(boundedLengths)
	a := device.GraphReason{B: b, S: s, First: first, Lengths: c.lengths, X: c.rows(b, n, s, garbage), M: c.flat(s * s),
		V: c.flat(s), W: c.flat(s * s), Bias: c.flat(s)}
	var reads []func()
	check := func(v device.View, f func()) device.View { reads = append(reads, f); return v }
	if first {
		a.Out, a.DOut = check(c.sum("out", b*n*s, b*n*s)), c.flat(b*n*s)
	} else {
		a.Out, a.DOut, a.Y = check(c.out("out", b, n, s, false)), c.rows(b, n, s, zeros), c.nan(b*(c.capacity+n)*s)
	}
	device.Do(c.Device, a)
	a.DX, a.DM, a.DV = check(c.out("dx", b, n, s, true)), check(c.sum("dm", s*s, s*s)), check(c.sum("dv", s, s))
	a.DW, a.DBias = check(c.sum("dw", s*s, s*s)), check(c.sum("dbias", s, s))
	device.DoGrad(c.Device, a)
	for _, f := range reads {
		f()
	}
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
	var read [4]func()
	a.Context, read[0] = c.out("context", 1, 0, d, true)
	device.Do(c.Device, a)
	a.DContext = c.rows(1, 0, d, zeros)
	a.DQuery, read[1] = c.out("dquery", 1, 0, d, true)
	a.DKey, read[2] = c.out("dkey", 1, 0, d, true)
	a.DValue, read[3] = c.out("dvalue", 1, 0, d, true)
	device.DoGrad(c.Device, a)
	for _, f := range read {
		f()
	}
}

func TestBoundedLengths(t *testing.T) {
	compare := func(name string, o cuda.Options, run func(c *boundedCase)) {
		t.Run(name, func(t *testing.T) {
			exact, bounded := newBoundedCase(t, o, false), newBoundedCase(t, o, true)
			run(exact)
			run(bounded)
			for _, c := range []*boundedCase{exact, bounded} {
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
				for k, v := range got.behind {
					if got.zero && v != 0 || math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s: value %d behind the words is %v", got.name, k, v)
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
