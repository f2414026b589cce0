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

func (s pairSizes) words() (t int) {
	for _, n := range s.lengths {
		t += int(n)
	}
	return t
}

func repeat(n int, v int32) (out []int32) {
	for range n {
		out = append(out, v)
	}
	return out
}

// matchCase is the definition of BlockMatch on the host: contexts in full.
type matchCase struct {
	pairSizes
	e, blocks                          int
	words, regions                     []float64
	wordAtt, regionAtt                 []float64
	wordMatch, wordNorm, rMatch, rNorm []float64
	wordTerms, rTerms                  []float64 // norms of Σ |α v|, the terms of contexts without their signs
}

func (c *matchCase) forward() {
	t := c.pairSizes.words()
	c.wordMatch, c.wordNorm = make([]float64, c.b*t*c.blocks), make([]float64, c.b*t*c.blocks)
	c.rMatch, c.rNorm = make([]float64, c.b*len(c.lengths)*c.r*c.blocks),
		make([]float64, c.b*len(c.lengths)*c.r*c.blocks)
	c.wordTerms, c.rTerms = make([]float64, len(c.wordNorm)), make([]float64, len(c.rNorm))
	context, terms := make([]float64, c.e), make([]float64, c.e)
	add := func(factor float64, row []float64) {
		for x := range context {
			context[x] += factor * row[x]
			terms[x] += math.Abs(factor * row[x])
		}
	}
	for i := range c.b {
		for j := range t {
			clear(context)
			clear(terms)
			for k := range c.r {
				add(c.wordAtt[(j*c.b+i)*c.r+k], c.regions[(i*c.r+k)*c.e:])
			}
			at := (i*t + j) * c.blocks
			c.compare(c.words[j*c.e:], context, c.wordMatch[at:], c.wordNorm[at:])
			c.norms(terms, c.wordTerms[at:])
		}
		first := 0
		for n, l := range c.lengths {
			for k := range c.r {
				clear(context)
				clear(terms)
				for j := first; j < first+int(l); j++ {
					add(c.regionAtt[(j*c.b+i)*c.r+k], c.words[j*c.e:])
				}
				at := ((i*len(c.lengths)+n)*c.r + k) * c.blocks
				c.compare(c.regions[(i*c.r+k)*c.e:], context, c.rMatch[at:], c.rNorm[at:])
				c.norms(terms, c.rTerms[at:])
			}
			first += int(l)
		}
	}
}

func (c *matchCase) compare(q, context, match, norm []float64) {
	w := c.e / c.blocks
	for b := range c.blocks {
		var dot, qq, cc float64
		for x := b * w; x < (b+1)*w; x++ {
			dot += q[x] * context[x]
			qq += q[x] * q[x]
			cc += context[x] * context[x]
		}
		norm[b] = math.Sqrt(cc)
		match[b] = dot / max(math.Sqrt(qq)*norm[b], 1e-8)
	}
}

// norms computes the norm of each block of x.
func (c *matchCase) norms(x, to []float64) {
	w := c.e / c.blocks
	for b := range c.blocks {
		var sum float64
		for _, v := range x[b*w : (b+1)*w] {
			sum += v * v
		}
		to[b] = math.Sqrt(sum)
	}
}

// inContext is by how much the cosines with contexts of so many terms may be off where those are summed in float32: the
// sum of n terms is exact to n·2⁻²⁴ of the sum of their absolute values, and a cosine moves by at most twice the
// relative error of the context.
func (h *harness) inContext(norm, terms []float64, n int) []float64 {
	off := make([]float64, len(norm))
	for i := range off {
		if h.plainSums && norm[i] > 0 {
			off[i] = 2 * float64(n) / (1 << 24) * terms[i] / norm[i]
		}
	}
	return off
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
	} {
		h.blockMatch(n, s)
	}
}

// blockMatch tests one case; 0 and 1 are special.
func (h *harness) blockMatch(n int, s matchSizes) {
	what := fmt.Sprintf("BlockMatch %d", n)
	t := s.words()
	c := &matchCase{pairSizes: s.pairSizes, e: s.e, blocks: s.blocks, words: h.normal(t*s.e, 1),
		regions: h.normal(s.b*s.r*s.e, 1)}
	c.wordAtt, c.regionAtt = h.normal(t*s.b*s.r, 0.3), h.normal(t*s.b*s.r, 0.3)
	for i := range c.wordAtt {
		c.wordAtt[i], c.regionAtt[i] = 0.1+c.wordAtt[i]*c.wordAtt[i], 0.1+c.regionAtt[i]*c.regionAtt[i]
	}
	if n != 1 { // contexts that do not cancel, so that rounded products leave something of them
		for i := range c.words {
			c.words[i]++
		}
		for i := range c.regions {
			c.regions[i]++
		}
	}
	h.hold(c.words)
	h.hold(c.regions)
	h.hold(c.wordAtt)
	h.hold(c.regionAtt)
	if n == 1 { // a word of zeros has cosines of 0, and regions that all but cancel lose no digits
		clear(c.words[:s.e])
		if !h.roundsProducts() {
			for x := range s.e {
				c.regions[s.e+x], c.regions[2*s.e+x] = -c.regions[x], c.regions[x]*1e-4
			}
			for j := range t {
				c.wordAtt[j*s.b*s.r+1], c.wordAtt[j*s.b*s.r+2] = c.wordAtt[j*s.b*s.r], 1
			}
		}
	}
	c.forward()
	a := device.BlockMatch{B: s.b, R: s.r, E: s.e, Blocks: s.blocks, Lengths: h.inInts(s.lengths),
		Words: h.in(c.words), Regions: h.in(c.regions),
		WordAttention: h.in(c.wordAtt), RegionAttention: h.in(c.regionAtt)}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equalWithin(what+": words", a.WordMatch, c.wordMatch, 2*h.tol.reduced, h.inContext(c.wordNorm, c.wordTerms, s.r))
	h.equalWithin(what+": regions", a.RegionMatch, c.rMatch, 2*h.tol.reduced,
		h.inContext(c.rNorm, c.rTerms, int(slices.Max(s.lengths))))
	formed := 4 * h.tol.product
	if h.roundsProducts() { // contexts may be formed of rounded operands
		formed = h.tol.reduced
	}
	h.equal(what+": contexts of words", a.WordNorm, c.wordNorm, formed)
	h.equal(what+": contexts of regions", a.RegionNorm, c.rNorm, formed)
	h.steady(what, func() { device.Do(h.d, a) })
	if n < 2 {
		h.release()
		return // a cosine with a vector of zeros has a step, one with a multiple of itself no slope
	}
	dw := h.gradient(len(c.wordMatch), func(i int) int {
		return i/s.blocks/t*len(s.lengths) + captionOf(s.lengths, 0, i/s.blocks%t)
	})
	dr := h.gradient(len(c.rMatch), func(i int) int { return i / s.blocks / s.r })
	a.WordMatch, a.WordNorm, a.RegionMatch, a.RegionNorm = h.in(c.wordMatch), h.in(c.wordNorm), h.in(c.rMatch),
		h.in(c.rNorm)
	a.DWordMatch, a.DRegionMatch = h.in(dw), h.in(dr)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	attended := func(i int) int { return i/s.r%s.b*len(s.lengths) + captionOf(s.lengths, 0, i/s.r/s.b) }
	h.passedOver(what+": DWordAttention", a.DWordAttention, attended)
	h.passedOver(what+": DRegionAttention", a.DRegionAttention, attended)
	loss := func() (s float64) {
		c.forward()
		for i, v := range c.wordMatch {
			s += v * dw[i]
		}
		for i, v := range c.rMatch {
			s += v * dr[i]
		}
		return s
	}
	h.equalDifferences(what+": DWords", c.words, a.DWords, usual, loss)
	h.equalDifferences(what+": DRegions", c.regions, a.DRegions, usual, loss)
	h.equalDifferences(what+": DWordAttention", c.wordAtt, a.DWordAttention, usual, loss)
	h.equalDifferences(what+": DRegionAttention", c.regionAtt, a.DRegionAttention, usual, loss)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.release()
}

func testPolar(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {2, 3, 4}, {3, 36, 8}} {
		b, r, k := s[0], s[1], s[2]
		boxes, rho, theta := h.normal(b*r*4, 0.3), h.normal(k, 1), h.normal(k, 2)
		pr, pt := h.normal(k, 0.5), h.normal(k, 0.5)
		for i := range pr {
			pr[i], pt[i] = 0.3+math.Abs(pr[i]), 0.3+math.Abs(pt[i])
		}
		h.hold(pr)
		h.hold(pt)
		if b > 1 {
			copy(boxes[4:8], boxes[:4]) // two regions at one place
		}
		for _, sum := range []bool{false, true} {
			what := fmt.Sprintf("PolarWeights %v sum %v", s, sum)
			weights := func() []float64 {
				out := make([]float64, b*r*r*k)
				for n := range b * r * r {
					i, j := boxes[n/r*4:], boxes[(n/r/r*r+n%r)*4:]
					dx, dy := (i[0]+i[2])/2-(j[0]+j[2])/2, (i[1]+i[3])/2-(j[1]+j[3])/2
					d, angle := math.Hypot(dx, dy), math.Atan2(dx, dy)
					var total float64
					for q := range k {
						first := math.Abs(angle - theta[q])
						a := math.Min(first, math.Abs(2*math.Pi-first))
						v := math.Exp(-0.5*(d-rho[q])*(d-rho[q])/(1e-14+pr[q]*pr[q])) *
							math.Exp(-0.5*a*a/(1e-14+pt[q]*pt[q]))
						out[n*k+q] = v
						total += v
					}
					for q := range k {
						out[n*k+q] /= total
					}
				}
				if !sum {
					return out
				}
				sums := make([]float64, b*r*k)
				for n := range out {
					sums[n/k/r*k+n%k] += out[n]
				}
				return sums
			}
			want := weights()
			a := device.PolarWeights{B: b, R: r, K: k, Sum: sum, Boxes: h.in(boxes), MeanRho: h.in(rho),
				MeanTheta: h.in(theta), PrecisionRho: h.in(pr), PrecisionTheta: h.in(pt)}
			h.outputs(&a)
			h.run(what, func() { device.Do(h.d, a) })
			h.equal(what, a.Weights, want, h.tol.product)
			h.steady(what, func() { device.Do(h.d, a) })
			dw := h.normal(len(want), 1)
			a.Weights, a.DWeights = device.View{}, h.in(dw)
			h.gradOutputs(&a)
			h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
			loss := func() (s float64) {
				for i, v := range weights() {
					s += v * dw[i]
				}
				return s
			}
			h.equalDifferences(what+": DMeanRho", rho, a.DMeanRho, usual, loss)
			h.equalDifferences(what+": DMeanTheta", theta, a.DMeanTheta, usual, loss)
			h.equalDifferences(what+": DPrecisionRho", pr, a.DPrecisionRho, usual, loss)
			h.equalDifferences(what+": DPrecisionTheta", pt, a.DPrecisionTheta, usual, loss)
			h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
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
