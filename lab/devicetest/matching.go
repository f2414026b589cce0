package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// pairSizes are the sizes of a case of the kernels over pairs.
type pairSizes struct {
	b, r    int
	lengths []int32
}

// matchSizes are the sizes of a case of BlockMatch.
type matchSizes struct {
	pairSizes
	e, blocks int
}

func testBlockMatch(h *harness) {
	for n, s := range []matchSizes{
		{pairSizes{1, 1, []int32{1}}, 2, 1}, {pairSizes{2, 3, []int32{5, 3}}, 8, 4}, {pairSizes{9, 36, []int32{7, 1}},
			32, 16},
		// more words than a piece takes
		{pairSizes{3, 5, []int32{2, 9, 4}}, 48, 16}, {pairSizes{1, 2, repeat(30, 9)}, 6, 3},
		// a long caption, and more blocks and regions than a GPU takes at once
		{pairSizes{15, 36, []int32{40, 3}}, 34, 17},
		// blocks of eight values, as tensor cores take them
		{pairSizes{2, 20, []int32{17, 3}}, 40, 5},
		// wide blocks, and more regions and words than a tile has
		{pairSizes{2, 34, []int32{2, 35}}, 140, 2},
	} {
		blockMatch(h, n, s)
	}
}

// blockMatch tests one case; 0 and 1 are special.
func blockMatch(h *harness, n int, s matchSizes) {
	what, t := fmt.Sprintf("BlockMatch %d", n), device.Total(s.lengths)
	words, regions := h.normal(t*s.e, 1), h.normal(s.b*s.r*s.e, 1)
	attention := [2][]float64{h.positive(t*s.b*s.r, 0.1, 0.1), h.positive(t*s.b*s.r, 0.1, 0.1)}
	if n != 1 { // contexts that do not cancel, so that rounded products leave something of them
		for i := range words {
			words[i]++
		}
		for i := range regions {
			regions[i]++
		}
	}
	if n == 1 { // a word of zeros has cosines of 0, and regions that all but cancel lose no digits
		clear(words[:s.e])
		if !h.roundsProducts() {
			for x := range s.e {
				regions[s.e+x], regions[2*s.e+x] = -regions[x], regions[x]*1e-4
			}
			for j := range t {
				attention[0][j*s.b*s.r+1], attention[0][j*s.b*s.r+2] = attention[0][j*s.b*s.r], 1
			}
		}
	}
	h.hold(words)
	h.hold(regions)
	a := device.BlockMatch{B: s.b, R: s.r, E: s.e, Blocks: s.blocks, Lengths: h.inInts(s.lengths), Words: h.in(words),
		Regions: h.in(regions), WordAttention: h.in(attention[0]), RegionAttention: h.in(attention[1])}
	formed := 4 * h.tol.product
	if h.roundsProducts() { // contexts may be formed of rounded operands
		formed = h.tol.reduced
	}
	tol := bounds{"": {rel: formed}, "WordMatch": {rel: 2 * h.tol.reduced}, "RegionMatch": {rel: 2 * h.tol.reduced}}
	if h.plainSums {
		inContext(h, a, tol, words, regions)
	}
	h.check(what, &a, tol)
	if n > 1 { // a cosine with a vector of zeros has a step, one with a multiple of itself no slope
		a.DWordMatch = h.gradient(s.b*t*s.blocks, func(i int) int {
			return i/s.blocks/t*len(s.lengths) + captionOf(s.lengths, 0, i/s.blocks%t)
		})
		a.DRegionMatch = h.gradient(s.b*len(s.lengths)*s.r*s.blocks, func(i int) int { return i / s.blocks / s.r })
		h.back(what, &a, h.slopes())
		attended := func(i int) int { return i/s.r%s.b*len(s.lengths) + captionOf(s.lengths, 0, i/s.r/s.b) }
		h.passedOver(what+": DWordAttention", a.DWordAttention, attended)
		h.passedOver(what+": DRegionAttention", a.DRegionAttention, attended)
	}
	h.release()
}

// inContext allows cosines what they may be off where contexts are summed in float32: the sum of n terms is exact to
// n·2⁻²⁴ of the sum of their absolute values, which are the contexts of the absolute values, and a cosine moves by at
// most twice the relative error of the context.
func inContext(h *harness, a device.BlockMatch, tol bounds, words, regions []float64) {
	signs := a
	signs.Words, signs.Regions = h.in(absolute(words)), h.in(absolute(regions))
	h.defined(&a)
	h.defined(&signs)
	for name, v := range map[string]struct {
		norm, terms device.View
		n           int
	}{"WordMatch": {a.WordNorm, signs.WordNorm, a.R},
		"RegionMatch": {a.RegionNorm, signs.RegionNorm, int(slices.Max(a.Lengths.Host))}} {
		norm, b := h.want(v.norm), tol[name]
		b.off = make([]float64, len(norm))
		for i, terms := range h.want(v.terms) {
			if norm[i] > 0 {
				b.off[i] = 2 * float64(v.n) / (1 << 24) * terms / norm[i]
			}
		}
		tol[name] = b
	}
}

func absolute(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Abs(v)
	}
	return y
}

func testPolar(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {2, 3, 4}, {3, 36, 8}} {
		b, r, k := s[0], s[1], s[2]
		boxes := h.normal(b*r*4, 0.3)
		if b > 1 {
			copy(boxes[4:8], boxes[:4]) // two regions at one place
		}
		for _, sum := range []bool{false, true} {
			a := device.PolarWeights{B: b, R: r, K: k, Sum: sum, Boxes: h.in(boxes), MeanRho: h.in(h.normal(k, 1)),
				MeanTheta: h.in(h.normal(k, 2)), PrecisionRho: h.in(h.positive(k, 0.3, 0.5)),
				PrecisionTheta: h.in(h.positive(k, 0.3, 0.5))}
			h.bothWays(fmt.Sprintf("PolarWeights %v sum %v", s, sum), &a, all(h.tol.product), h.slopes())
			h.release()
		}
	}
	far := device.PolarWeights{B: 1, R: 2, K: 2, Boxes: h.in([]float64{0, 0, 0, 0, 1, 0, 1, 0}),
		MeanRho: h.in([]float64{90, 80}), MeanTheta: h.in([]float64{0, 0}), PrecisionRho: h.in([]float64{1, 1}),
		PrecisionTheta: h.in([]float64{1, 1})} // every exponential underflows
	h.outputs(&far)
	h.run("PolarWeights far away", func() { device.Do(h.d, far) })
	h.equal("PolarWeights far away", far.Weights, []float64{0, 1, 0, 1, 0, 1, 0, 1}, h.tol.exact)
}

func testScaleBlocks(h *harness) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 1, 7, 17}, {5, 4, 40, 4}, {1, 3, 2, 36}} {
		what, size := fmt.Sprintf("ScaleBlocks %v", s), s[0]*s[1]*s[2]*s[3]
		a := device.ScaleBlocks{A: s[0], B: s[1], N: s[2], H: s[3], X: h.in(h.normal(size, 1)),
			Factors: h.in(h.normal(s[0]*s[2], 1))}
		h.check(what, &a, all(h.tol.exact))
		a.DY = h.gradient(size, func(i int) int { return i / (s[2] * s[3]) })
		tol := h.slopes()
		tol["DX"] = bound{rel: h.tol.exact}
		h.back(what, &a, tol)
		h.release()
	}
}

func testMixNodes(h *harness) {
	for n, s := range []pairSizes{{1, 0, []int32{1}}, {2, 0, []int32{3, 3}}, {3, 0, []int32{4, 1, 6}},
		{2, 0, []int32{36, 36, 36}}} {
		for _, perImage := range []bool{false, true} {
			if perImage && n == 2 {
				continue
			}
			k, width, weights := 1+n%3, 3, 0
			for _, l := range s.lengths {
				weights += int(l*l) * k
			}
			if perImage {
				weights = s.b * int(s.lengths[0]*s.lengths[0]) * k
			}
			a := device.MixNodes{B: s.b, K: k, H: width, PerImage: perImage, Lengths: h.inInts(s.lengths),
				X: h.in(h.normal(s.b*device.Total(s.lengths)*k*width, 1)), Weights: h.in(h.normal(weights, 1))}
			h.bothWays(fmt.Sprintf("MixNodes %v per image %v", s, perImage), &a, all(h.tol.product), h.slopes())
			h.release()
		}
	}
}

func testMeanNodes(h *harness) {
	for _, s := range []pairSizes{{1, 0, []int32{1}}, {2, 0, []int32{3, 3}}, {3, 0, []int32{4, 1, 6}}} {
		for _, width := range []int{1, 5, 8, 33} {
			a := device.MeanNodes{B: s.b, H: width, Lengths: h.inInts(s.lengths),
				X: h.in(h.normal(s.b*device.Total(s.lengths)*width, 1))}
			h.bothWays(fmt.Sprintf("MeanNodes %v of %d", s, width), &a, all(h.tol.product), all(h.tol.exact))
			h.release()
		}
	}
}

func testWordGraph(h *harness) {
	for _, sparse := range []bool{false, true} {
		const e = 5
		a := device.WordGraph{E: e, Lambda: 1.5, Lengths: h.inInts([]int32{4, 1, 3}), Words: h.in(h.normal(8*e, 1)),
			Sparse: sparse}
		if sparse {
			a.Edges, a.EdgeStart = h.inInts([]int32{0, 2, 2, 3, 3, 2, 1, 0}), h.inInts([]int32{0, 3, 3, 4})
		}
		h.bothWays(fmt.Sprintf("WordGraph sparse %v", sparse), &a, all(4*h.tol.product), h.slopes())
		h.release()
	}
}
