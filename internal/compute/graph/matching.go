package graph

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Ops of graph-structured matching (device/matching.go). Words are captions one after the other, [capacity, E] with
// lengths [C] int32; nodes are rows for each image, image after image: of regions [B·C·R, …], of words [B·capacity, …],
// of which the first B·T are there.

// CrossMatch compares the regions [B, R, E] of all images and the words [capacity, E] of all captions with their
// contexts, block by block: [B·C·R + B·capacity, blocks], the nodes of the regions before the nodes of the words.
// Regions attend to words and words to regions with device.PairAttention; for the blocks see device.BlockMatch.
func (g *Graph) CrossMatch(regions, words, lengths *Node, lambda float64, blocks int) *Node {
	b, r, e, capacity, n := Dim(regions, 0), Dim(regions, 1), Dim(regions, 2), Dim(words, 0), Dim(lengths, 0)
	wantShape("words of a match", words, capacity, e)
	if blocks < 1 || e%blocks != 0 {
		fail("vectors of %d values in %d blocks", e, blocks)
	}
	if !(lambda > 0 && lambda <= device.MaxLambda) {
		fail("attention with the inverse temperature %v, expected a number above 0 and at most %v", lambda,
			device.MaxLambda)
	}
	split, all := b*n*r*blocks, (b*n*r+b*capacity)*blocks
	op := &Op{Name: fmt.Sprintf("match %d×%d in %d blocks", b, r, blocks)}
	v, w, counts := op.arg(regions, true), op.arg(words, true), op.arg(lengths, false)
	out := op.result(b*n*r+b*capacity, blocks)
	products, ofWords, ofRegions, norms := op.save(capacity*b*r), op.save(capacity*b*r), op.save(capacity*b*r),
		op.save(all)
	attend := func(c *Call, overWords bool) device.PairAttention {
		a := device.PairAttention{B: b, R: r, Lambda: lambda, OverWords: overWords, Lengths: c.Ints(counts),
			Scores: c.Saved[products], Weights: c.Saved[ofWords]}
		if overWords {
			a.Weights = c.Saved[ofRegions]
		}
		return a
	}
	match := func(c *Call, out device.View) device.BlockMatch {
		norms := c.Saved[norms]
		return device.BlockMatch{B: b, R: r, E: e, Blocks: blocks, Lengths: c.Ints(counts), Words: c.In[w],
			Regions: c.In[v], WordAttention: c.Saved[ofWords], RegionAttention: c.Saved[ofRegions],
			RegionMatch: out.Slice(0, split), WordMatch: out.Slice(split, all), RegionNorm: norms.Slice(0, split),
			WordNorm: norms.Slice(split, all)}
	}
	op.Make = func(c *Call) {
		Do(c, device.Gemm{TransB: true, M: c.rows(counts), N: b * r, K: e, Alpha: 1, A: c.In[w], B: c.In[v],
			C: c.Saved[products]})
		Do(c, attend(c, false))
		Do(c, attend(c, true))
		Do(c, match(c, c.Out[out]))
	}
	op.Grad = func(in []*Node, yNode, dyNode *Node) []*Node {
		bw := op.backward(in...)
		y, dy := bw.arg(yNode, false), bw.arg(dyNode, false)
		dRegions, dWords := bw.written(v), bw.written(w)
		dOfWords, dOfRegions := bw.scratch(capacity*b*r), bw.scratch(capacity*b*r)
		bw.Make = func(c *Call) {
			a, dy := match(c, c.In[y]), c.In[dy]
			a.DRegionMatch, a.DWordMatch = dy.Slice(0, split), dy.Slice(split, all)
			a.DRegions, a.DWords = dRegions(c), dWords(c)
			a.DWordAttention, a.DRegionAttention = c.Temp[dOfWords], c.Temp[dOfRegions]
			DoGrad(c, a)
			t := c.rows(counts)
			// each in the place of its weights
			scores := [2]device.View{c.Temp[dOfWords].Slice(0, t*b*r), c.Temp[dOfRegions].Slice(0, t*b*r)}
			for k, overWords := range []bool{false, true} {
				p := attend(c, overWords)
				p.DWeights, p.DScores = scores[k], scores[k]
				DoGrad(c, p)
			}
			Do(c, device.Add{Dst: scores[0], A: scores[0], B: scores[1]})
			c.product(a.DRegions, device.Gemm{TransA: true, M: b * r, N: e, K: t, Beta: 1, A: scores[0], B: c.In[w]})
			c.product(a.DWords, device.Gemm{M: t, N: e, K: b * r, Beta: 1, A: scores[0], B: c.In[v]})
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}

// LinearNodes is Linear for the nodes of words [b·capacity, I] of b images: [b·capacity, O].
func (g *Graph) LinearNodes(b int, lengths, x, w, bias *Node) *Node {
	return g.linearRows(b, lengths, LinearTerm{X: x, W: w, B: bias})
}

// PolarParams are the parameters [K, 1] of K Gaussian kernels in polar coordinates.
type PolarParams struct{ MeanRho, MeanTheta, PrecisionRho, PrecisionTheta *Node }

// PolarWeights computes the kernels of the image graph from boxes [B, R·4]: [B, R·R·K], or with sum their sums over the
// second region [B, R·K]. See device.PolarWeights.
func (g *Graph) PolarWeights(boxes *Node, r int, sum bool, p PolarParams) *Node {
	b, n := Dim(boxes, 0), Dim(p.MeanRho, 0)
	wantShape("boxes", boxes, b, 4*r)
	for _, x := range []*Node{p.MeanRho, p.MeanTheta, p.PrecisionRho, p.PrecisionTheta} {
		wantShape("parameter of polar kernels", x, n, 1)
	}
	size := r * r * n
	if sum {
		size = r * n
	}
	a := &device.PolarWeights{B: b, R: r, K: n, Sum: sum}
	k := kernelOf(g, fmt.Sprintf("%d polar kernels, sum %v", n, sum), a)
	k.always = true
	k.arg(boxes, &a.Boxes, nil)
	k.arg(p.MeanRho, &a.MeanRho, &a.DMeanRho)
	k.arg(p.MeanTheta, &a.MeanTheta, &a.DMeanTheta)
	k.arg(p.PrecisionRho, &a.PrecisionRho, &a.DPrecisionRho)
	k.arg(p.PrecisionTheta, &a.PrecisionTheta, &a.DPrecisionTheta)
	return k.result(&a.Weights, &a.DWeights, false, b, size)
}

// ScaleBlocks multiplies x, seen as [A, B, N, H], by factors of the sizes [A, N].
func (g *Graph) ScaleBlocks(x, factors *Node, a, b, n, h int) *Node {
	s := x.Shape().Clone()
	if s.TotalSize() != a*b*n*h || factors.Shape().TotalSize() != a*n {
		fail("scaling of %v by %v as blocks [%d, %d, %d, %d]", s, factors.Shape(), a, b, n, h)
	}
	blocks := &device.ScaleBlocks{A: a, B: b, N: n, H: h}
	k := kernelOf(g, fmt.Sprintf("scale blocks of %d", h), blocks)
	k.arg(x, &blocks.X, &blocks.DX)
	k.arg(factors, &blocks.Factors, &blocks.DFactors)
	return k.result(&blocks.Y, &blocks.DY, false, s...)
}

// MixNodes lets the nodes x [b·nodes, K·H] of every pair of b images and captions of lengths [C] take the sum of their
// neighbours': with perImage by weights of every image, [b, n·n·K], otherwise by the weights of every caption, one
// after the other. See device.MixNodes.
func (g *Graph) MixNodes(x, weights, lengths *Node, b, groups int, perImage bool) *Node {
	s := x.Shape().Clone()
	if Dim(x, 1)%groups != 0 || Dim(x, 0)%b != 0 {
		fail("mixing of nodes %v of %d images in %d groups", s, b, groups)
	}
	a := &device.MixNodes{B: b, K: groups, H: s[1] / groups, PerImage: perImage}
	k := kernelOf(g, fmt.Sprintf("mix nodes in %d groups, per image %v", groups, perImage), a)
	k.always = true
	k.arg(x, &a.X, &a.DX)
	k.arg(weights, &a.Weights, &a.DWeights)
	k.ints(lengths, &a.Lengths)
	return k.result(&a.Y, &a.DY, false, s...)
}

// WordGraph computes the weights of the words' neighbours in captions [capacity, E] with lengths [C]: [capacity²], a
// matrix for each caption. edges [pairs, 2] and start [C + 1] are int32, or nil for all pairs. See
// device.WordGraph.
func (g *Graph) WordGraph(words, lengths, edges, start *Node, lambda float64) *Node {
	capacity, e, n := Dim(words, 0), Dim(words, 1), Dim(lengths, 0)
	a := &device.WordGraph{E: e, Lambda: lambda, Sparse: edges != nil}
	k := kernelOf(g, fmt.Sprintf("word graph, sparse %v", a.Sparse), a)
	k.arg(words, &a.Words, &a.DWords)
	k.ints(lengths, &a.Lengths)
	if a.Sparse {
		wantShape("starts of edges", start, n+1)
		k.ints(edges, &a.Edges)
		k.ints(start, &a.EdgeStart)
	}
	return k.result(&a.Weights, &a.DWeights, true, capacity*capacity)
}

// MeanNodes averages the nodes x [b·nodes, H] of every pair of b images and captions of lengths [C]: [b·C, H].
func (g *Graph) MeanNodes(x, lengths *Node, b int) *Node {
	n, h := Dim(lengths, 0), Dim(x, 1)
	a := &device.MeanNodes{B: b, H: h}
	k := kernelOf(g, fmt.Sprintf("means of nodes of %d", h), a)
	k.argOnce(x, &a.X, &a.DX)
	k.ints(lengths, &a.Lengths)
	return k.result(&a.Y, &a.DY, false, b*n, h)
}

// Concat puts matrices [n_k, C], or vectors [n_k], one below the other.
func (g *Graph) Concat(parts ...*Node) *Node {
	shape := parts[0].Shape().Clone()
	shape[0] = 0
	op := &Op{Name: fmt.Sprintf("stack of %d", len(parts))}
	var sizes []int // of the arguments, which are the parts in order
	for _, p := range parts {
		if p.Dims() != len(shape) || p.Dims() == 2 && Dim(p, 1) != shape[1] {
			fail("stack of %v and %v", parts[0].Shape(), p.Shape())
		}
		shape[0] += Dim(p, 0)
		sizes = append(sizes, p.Shape().TotalSize())
		op.arg(p, true)
	}
	whole := op.result(shape...)
	op.Make = func(c *Call) {
		at := 0
		for k, n := range sizes {
			Do(c, device.Copy{Dst: c.Out[whole].Slice(at, at+n), Src: c.In[k].Slice(0, n)})
			at += n
		}
	}
	op.Grad = func(in []*Node, _, dyNode *Node) []*Node {
		bw := op.backward()
		dy := bw.arg(dyNode, false)
		for k := range in {
			bw.gradient(k) // result k
		}
		bw.Make = func(c *Call) {
			at := 0
			for k, n := range sizes {
				if c.Out[k].Present() {
					Do(c, device.Copy{Dst: c.Out[k], Src: c.In[dy].Slice(at, at+n)})
				}
				at += n
			}
		}
		return g.gradients(bw)
	}
	return g.apply(op)
}
