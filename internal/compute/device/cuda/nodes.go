package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

var (
	kernelMixNodes       = entryOf("mix_nodes")
	kernelMixImages      = entryOf("mix_image_weights")
	kernelMixCaptions    = entryOf("mix_caption_weights")
	kernelMeanNodes      = entryOf("mean_nodes")
	kernelMeanNodesGrad  = entryOf("mean_nodes_grad")
	kernelWordGraph      = entryOf("word_graph")
	kernelWordGraphSlope = entryOf("word_graph_slopes")
	kernelWordGraphGrad  = entryOf("word_graph_grad")
)

// mixing is a call of MixNodes, checked.
type mixing struct {
	a             device.MixNodes
	c             captions
	nodes         int // of a pair, with PerImage
	size, weights int // values of X and of Weights
	x, w          driver.Ptr
}

func (d *dev) mixing(a device.MixNodes) mixing {
	m := mixing{a: a, c: d.captions(a.Lengths)}
	m.size, m.weights = a.B*m.c.rows*a.K*a.H, m.c.squares*a.K
	if a.PerImage {
		m.nodes = int(a.Lengths.Host[0])
		m.weights = a.B * m.nodes * m.nodes * a.K
	}
	m.x, m.w = d.pointer(a.X), d.pointer(a.Weights)
	return m
}

// mix computes y from x, or with back dx from dy.
func (d *dev) mix(m *mixing, y, x driver.Ptr, back bool) {
	starts := m.c.starts
	if m.a.PerImage {
		starts = 0
	}
	d.each(kernelMixNodes, m.size).ptr(y, x, m.w, m.c.of, starts, m.c.squaresAt).int(m.c.rows, m.nodes, m.c.n, m.a.K,
		m.a.H).flag(back).long(m.size)
}

// MixNodes computes that kernel.
func (d *dev) MixNodes(a device.MixNodes) {
	m := d.mixing(a)
	d.mix(&m, d.pointer(a.Y), m.x, false)
}

// MixNodesGrad computes that kernel.
func (d *dev) MixNodesGrad(a device.MixNodes) {
	m := d.mixing(a)
	dy, dx, dw := d.pointer(a.DY), d.pointer(a.DX), d.pointer(a.DWeights)
	d.mix(&m, dx, dy, true)
	if a.PerImage {
		d.each(kernelMixImages, m.weights).ptr(dw, m.x, dy).int(m.nodes, m.c.n, a.K, a.H).long(m.weights)
		return
	}
	tiles := min(64, (m.c.longest*m.c.longest*a.K+7)/8)
	d.start(kernelMixCaptions, threads, m.c.n, tiles, 1).ptr(dw, m.x, dy, m.c.starts, m.c.squaresAt).int(m.c.rows, a.B,
		a.K, a.H)
}

// MeanNodes computes that kernel.
func (d *dev) MeanNodes(a device.MeanNodes) {
	c := d.captions(a.Lengths)
	d.each(kernelMeanNodes, a.Y.N).ptr(d.pointer(a.Y), d.pointer(a.X), c.starts).int(c.rows, c.n, a.H).long(a.Y.N)
}

// MeanNodesGrad computes that kernel.
func (d *dev) MeanNodesGrad(a device.MeanNodes) {
	c := d.captions(a.Lengths)
	d.each(kernelMeanNodesGrad, a.DX.N).ptr(d.pointer(a.DX), d.pointer(a.DY), c.of, c.starts).
		int(c.rows, c.n, a.H).long(a.DX.N)
}

// wordGraph returns the captions, the words and the edges, which are absent where all words are neighbours.
func (d *dev) wordGraph(a device.WordGraph) (c captions, words, edges, start driver.Ptr) {
	c = d.captions(a.Lengths)
	words = d.pointer(a.Words)
	if !a.Sparse {
		return c, words, 0, 0
	}
	return c, words, d.pointer(a.Edges.View), d.pointer(a.EdgeStart.View)
}

// WordGraph computes that kernel.
func (d *dev) WordGraph(a device.WordGraph) {
	c, words, edges, start := d.wordGraph(a)
	weights := d.pointer(a.Weights)
	if c.n > 0 {
		d.start(kernelWordGraph, threads, c.n, c.longest, 1).ptr(weights, words, edges, start, c.starts,
			c.squaresAt).int(a.E).float(a.Lambda)
	}
}

// WordGraphGrad computes that kernel.
func (d *dev) WordGraphGrad(a device.WordGraph) {
	c, words, _, _ := d.wordGraph(a)
	weights, dWeights := d.pointer(a.Weights), d.pointer(a.DWeights)
	dWords := d.pointer(a.DWords)
	if c.n == 0 {
		return
	}
	slopes := d.need(scratchSums, 4*c.squares)
	d.start(kernelWordGraphSlope, 32, c.n, c.longest, 1).ptr(slopes, weights, dWeights, c.starts,
		c.squaresAt).float(a.Lambda)
	d.wide(kernelWordGraphGrad, c.rows, a.E).ptr(dWords, slopes, words, c.of, c.starts, c.squaresAt).int(a.E)
}
