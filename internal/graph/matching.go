package graph

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
)

// Ops of graph-structured matching (device.Matching). Words are captions one after the other, [room, E] with lengths [C] int32; nodes are
// rows for each image, image after image: of regions [B·C·R, …], of words [B·room, …], of which the first B·T are there.

// CrossMatch compares the regions [B, R, E] of all images and the words [room, E] of all captions with their contexts, block by block:
// [B·C·R + B·room, blocks], the nodes of the regions before those of the words. Regions attend to words and words to regions with
// device.PairAttentionArgs; for the blocks see device.BlockMatchArgs.
func (g *Graph) CrossMatch(regions, words, lengths *Node, lambda float64, blocks int) *Node {
	b, r, e, room, n := Dim(regions, 0), Dim(regions, 1), Dim(regions, 2), Dim(words, 0), Dim(lengths, 0)
	wantShape("words of a match", words, room, e)
	if blocks < 1 || e%blocks != 0 {
		fail("vectors of %d values in %d blocks", e, blocks)
	}
	if !(lambda > 0 && lambda <= device.MaxLambda) {
		fail("attention with the inverse temperature %v, expected a number above 0 and at most %v", lambda, device.MaxLambda)
	}
	split, all := b*n*r*blocks, (b*n*r+b*room)*blocks
	keep := func(n int) Slot { return Slot{DType: device.Float, N: n} }
	op := &Op{Name: fmt.Sprintf("match %d×%d in %d blocks", b, r, blocks), Outs: []tensor.Shape{{b*n*r + b*room, blocks}}, Wants: []bool{true, true, false},
		Keep: []Slot{keep(room * b * r), keep(room * b * r), keep(room * b * r), keep(all)}} // products, attention of words and of regions, norms
	attend := func(c *Call, overWords bool) device.PairAttentionArgs {
		a := device.PairAttentionArgs{B: b, R: r, Lambda: lambda, OverWords: overWords, Lengths: c.Ints(2), Scores: c.Keep[0], Weights: c.Keep[1]}
		if overWords {
			a.Weights = c.Keep[2]
		}
		return a
	}
	match := func(c *Call, out device.View) device.BlockMatchArgs {
		return device.BlockMatchArgs{B: b, R: r, E: e, Blocks: blocks, Lengths: c.Ints(2), Words: c.In[1], Regions: c.In[0], WordAttention: c.Keep[1], RegionAttention: c.Keep[2],
			RegionMatch: out.Slice(0, split), WordMatch: out.Slice(split, all), RegionNorm: c.Keep[3].Slice(0, split), WordNorm: c.Keep[3].Slice(split, all)}
	}
	op.Run = func(d device.Device, c *Call) {
		d.Gemm(device.GemmArgs{TransB: true, M: total(c.Host[2]), N: b * r, K: e, Alpha: 1, A: c.In[1], B: c.In[0], C: c.Keep[0]})
		d.PairAttention(attend(c, false))
		d.PairAttention(attend(c, true))
		d.BlockMatch(match(c, c.Out[0]))
	}
	op.Grad = func(in []*Node, y, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Forward: op, Outs: []tensor.Shape{{b, r, e}, {room, e}}, Temp: []int{b * r * e, room * e, room * b * r, room * b * r}}
		bw.Run = func(d device.Device, c *Call) {
			a := match(c, c.In[3])
			dy := c.In[4]
			a.DRegionMatch, a.DWordMatch = dy.Slice(0, split), dy.Slice(split, all)
			a.DRegions, a.DWords, a.DWordAttention, a.DRegionAttention = or(c.Out[0], c.Temp[0]), or(c.Out[1], c.Temp[1]), c.Temp[2], c.Temp[3]
			d.BlockMatchGrad(a)
			t := total(c.Host[2])
			scores := [2]device.View{c.Temp[2].Slice(0, t*b*r), c.Temp[3].Slice(0, t*b*r)} // each in the place of its weights
			for k, overWords := range []bool{false, true} {
				p := attend(c, overWords)
				p.DWeights, p.DScores = scores[k], scores[k]
				d.PairAttentionGrad(p)
			}
			d.Add(scores[0], scores[0], scores[1])
			d.Gemm(device.GemmArgs{TransA: true, M: b * r, N: e, K: t, Alpha: 1, Beta: 1, A: scores[0], B: c.In[1], C: a.DRegions})
			d.Gemm(device.GemmArgs{M: t, N: e, K: b * r, Alpha: 1, Beta: 1, A: scores[0], B: c.In[0], C: a.DWords})
		}
		out := g.ApplyMulti(bw, in[0], in[1], in[2], y, dy)
		return []*Node{out[0], out[1], nil}
	}
	return g.Apply(op, regions, words, lengths)
}

// LinearNodes is Linear for the nodes of words [b·room, I] of b images: [b·room, O].
func (g *Graph) LinearNodes(b int, lengths, x, w, bias *Node) *Node {
	return g.linearRows(b, lengths, LinearTerm{X: x, W: w, B: bias})
}

// PolarParams are the parameters [K, 1] of K Gaussian kernels in polar coordinates.
type PolarParams struct{ MeanRho, MeanTheta, PrecisionRho, PrecisionTheta *Node }

// PolarWeights computes the kernels of the image graph from boxes [B, R·4]: [B, R·R·K], or with sum their sums over the second region
// [B, R·K]. See device.PolarArgs.
func (g *Graph) PolarWeights(boxes *Node, r int, sum bool, p PolarParams) *Node {
	b, k := Dim(boxes, 0), Dim(p.MeanRho, 0)
	wantShape("boxes", boxes, b, 4*r)
	params := []*Node{p.MeanRho, p.MeanTheta, p.PrecisionRho, p.PrecisionTheta}
	for _, n := range params {
		wantShape("parameter of polar kernels", n, k, 1)
	}
	size := r * r * k
	if sum {
		size = r * k
	}
	args := func(c *Call) device.PolarArgs {
		return device.PolarArgs{B: b, R: r, K: k, Sum: sum, Boxes: c.In[0], MeanRho: c.In[1], MeanTheta: c.In[2], PrecisionRho: c.In[3], PrecisionTheta: c.In[4]}
	}
	op := &Op{Name: fmt.Sprintf("%d polar kernels, sum %v", k, sum), Outs: []tensor.Shape{{b, size}}, Wants: []bool{false, true, true, true, true}}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.Weights = c.Out[0]
		d.PolarWeights(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		s := tensor.Shape{k, 1}
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s, s, s, s}, Temp: []int{k, k, k, k}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DWeights = c.In[5]
			a.DMeanRho, a.DMeanTheta, a.DPrecisionRho, a.DPrecisionTheta = or(c.Out[0], c.Temp[0]), or(c.Out[1], c.Temp[1]), or(c.Out[2], c.Temp[2]), or(c.Out[3], c.Temp[3])
			d.PolarWeightsGrad(a)
		}
		return append([]*Node{nil}, g.ApplyMulti(bw, append(append([]*Node(nil), in...), dy)...)...)
	}
	return g.Apply(op, append([]*Node{boxes}, params...)...)
}

// ScaleBlocks multiplies x, seen as [A, B, N, H], by factors of the sizes [A, N].
func (g *Graph) ScaleBlocks(x, factors *Node, a, b, n, h int) *Node {
	s := x.Shape().Clone()
	if s.TotalSize() != a*b*n*h || factors.Shape().TotalSize() != a*n {
		fail("scaling of %v by %v as blocks [%d, %d, %d, %d]", s, factors.Shape(), a, b, n, h)
	}
	args := device.ScaleArgs{A: a, B: b, N: n, H: h}
	op := &Op{Name: fmt.Sprintf("scale blocks of %d", h), Outs: []tensor.Shape{s}, Wants: []bool{true, true}}
	op.Run = func(d device.Device, c *Call) {
		k := args
		k.X, k.Factors, k.Y = c.In[0], c.In[1], c.Out[0]
		d.ScaleBlocks(k)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s, factors.Shape().Clone()}}
		bw.Run = func(d device.Device, c *Call) {
			k := args
			k.X, k.Factors, k.DY, k.DX, k.DFactors = c.In[0], c.In[1], c.In[2], c.Out[0], c.Out[1]
			d.ScaleBlocksGrad(k)
		}
		return g.ApplyMulti(bw, in[0], in[1], dy)
	}
	return g.Apply(op, x, factors)
}

// MixNodes lets the nodes x [b·nodes, K·H] of every pair of b images and captions of lengths [C] take the sum of their neighbours': with
// perImage by weights of every image, [b, n·n·K], otherwise by those of every caption, one behind the other. See device.MixArgs.
func (g *Graph) MixNodes(x, weights, lengths *Node, b, k int, perImage bool) *Node {
	s, w := x.Shape().Clone(), weights.Shape().Clone()
	if Dim(x, 1)%k != 0 || Dim(x, 0)%b != 0 {
		fail("mixing of nodes %v of %d images in %d groups", s, b, k)
	}
	args := func(c *Call) device.MixArgs {
		return device.MixArgs{B: b, K: k, H: s[1] / k, PerImage: perImage, Lengths: c.Ints(2), X: c.In[0], Weights: c.In[1]}
	}
	op := &Op{Name: fmt.Sprintf("mix nodes in %d groups, per image %v", k, perImage), Outs: []tensor.Shape{s}, Wants: []bool{true, true, false}}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.Y = c.Out[0]
		d.MixNodes(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s, w}, Temp: []int{s.TotalSize(), w.TotalSize()}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DY, a.DX, a.DWeights = c.In[3], or(c.Out[0], c.Temp[0]), or(c.Out[1], c.Temp[1])
			d.MixNodesGrad(a)
		}
		out := g.ApplyMulti(bw, in[0], in[1], in[2], dy)
		return []*Node{out[0], out[1], nil}
	}
	return g.Apply(op, x, weights, lengths)
}

// WordGraph computes the weights of the words' neighbours in captions [room, E] with lengths [C]: [room²], a matrix for each caption.
// edges [pairs, 2] and start [C + 1] are int32, or nil for all pairs. See device.WordGraphArgs.
func (g *Graph) WordGraph(words, lengths, edges, start *Node, lambda float64) *Node {
	room, e, n := Dim(words, 0), Dim(words, 1), Dim(lengths, 0)
	in, wants := []*Node{words, lengths}, []bool{true, false}
	if edges != nil {
		wantShape("starts of edges", start, n+1)
		in, wants = append(in, edges, start), append(wants, false, false)
	}
	args := func(c *Call) device.WordGraphArgs {
		a := device.WordGraphArgs{E: e, Lambda: lambda, Lengths: c.Ints(1), Words: c.In[0], Sparse: edges != nil}
		if a.Sparse {
			a.Edges, a.EdgeStart = c.Ints(2), c.Ints(3)
		}
		return a
	}
	op := &Op{Name: fmt.Sprintf("word graph, sparse %v", edges != nil), Outs: []tensor.Shape{{room * room}}, Wants: wants}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.Weights = c.Out[0]
		d.WordGraph(a)
	}
	op.Grad = func(in []*Node, y, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{{room, e}}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.Weights, a.DWeights, a.DWords = c.In[len(c.In)-2], c.In[len(c.In)-1], c.Out[0]
			d.WordGraphGrad(a)
		}
		dx := g.Apply(bw, append(append([]*Node(nil), in...), y, dy)...)
		return append([]*Node{dx}, make([]*Node, len(in)-1)...)
	}
	return g.Apply(op, in...)
}

// MeanNodes averages the nodes x [b·nodes, H] of every pair of b images and captions of lengths [C]: [b·C, H].
func (g *Graph) MeanNodes(x, lengths *Node, b int) *Node {
	s, n, h := x.Shape().Clone(), Dim(lengths, 0), Dim(x, 1)
	args := func(c *Call) device.NodeMeansArgs { return device.NodeMeansArgs{B: b, H: h, Lengths: c.Ints(1)} }
	op := &Op{Name: fmt.Sprintf("means of nodes of %d", h), Outs: []tensor.Shape{{b * n, h}}, Wants: []bool{true, false}}
	op.Run = func(d device.Device, c *Call) {
		a := args(c)
		a.X, a.Y = c.In[0], c.Out[0]
		d.MeanNodes(a)
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient", Outs: []tensor.Shape{s}}
		bw.Run = func(d device.Device, c *Call) {
			a := args(c)
			a.DY, a.DX = c.In[0], c.Out[0]
			d.MeanNodesGrad(a)
		}
		return []*Node{g.Apply(bw, dy, in[1]), nil}
	}
	return g.Apply(op, x, lengths)
}

// Stack puts matrices [n_k, C], or vectors [n_k], one below the other.
func (g *Graph) Stack(parts ...*Node) *Node {
	shape := parts[0].Shape().Clone()
	shape[0] = 0
	var sizes []int
	wants := make([]bool, len(parts))
	for k, p := range parts {
		if p.Dims() != len(shape) || p.Dims() == 2 && Dim(p, 1) != shape[1] {
			fail("stack of %v and %v", parts[0].Shape(), p.Shape())
		}
		shape[0] += Dim(p, 0)
		sizes, wants[k] = append(sizes, p.Shape().TotalSize()), true
	}
	op := &Op{Name: fmt.Sprintf("stack of %d", len(parts)), Outs: []tensor.Shape{shape}, Wants: wants}
	op.Run = func(d device.Device, c *Call) {
		for k, at := 0, 0; k < len(sizes); k++ {
			d.Copy(c.Out[0].Slice(at, at+sizes[k]), c.In[k].Slice(0, sizes[k]))
			at += sizes[k]
		}
	}
	op.Grad = func(in []*Node, _, dy *Node) []*Node {
		bw := &Op{Name: op.Name + " gradient"}
		for _, p := range in {
			bw.Outs = append(bw.Outs, p.Shape().Clone())
		}
		bw.Run = func(d device.Device, c *Call) {
			for k, at := 0, 0; k < len(sizes); k++ {
				if c.Out[k].Present() {
					d.Copy(c.Out[k], c.In[0].Slice(at, at+sizes[k]))
				}
				at += sizes[k]
			}
		}
		return g.ApplyMulti(bw, dy)
	}
	return g.Apply(op, parts...)
}
