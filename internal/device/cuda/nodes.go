package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
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
	a             device.MixArgs
	c             captions
	nodes         int // of a pair, with PerImage
	size, weights int // values of X and of Weights
	x, w          driver.Ptr
}

func (d *dev) mixing(what string, a device.MixArgs) mixing {
	positive(what, a.B, a.K, a.H, len(a.Lengths.Host))
	m := mixing{a: a, c: d.captions(what, a.Lengths, 0)}
	m.size, m.weights = a.B*m.c.rows*a.K*a.H, m.c.squares*a.K
	if a.PerImage {
		m.nodes = int(a.Lengths.Host[0])
		for _, n := range a.Lengths.Host {
			if int(n) != m.nodes {
				panic("cuda: " + what + ": weights for each image need pairs of one number of nodes")
			}
		}
		m.weights = a.B * m.nodes * m.nodes * a.K
	}
	m.x, m.w = d.floats("MixNodes X", a.X, m.size), d.floats("MixNodes Weights", a.Weights, m.weights)
	return m
}

// mix computes y from x, or with back dx from dy.
func (d *dev) mix(m *mixing, y, x driver.Ptr, back bool) {
	starts := m.c.starts
	if m.a.PerImage {
		starts = 0
	}
	d.each(kernelMixNodes, m.size).ptr(y, x, m.w, m.c.of, starts, m.c.squaresAt).int(m.c.rows, m.nodes, m.c.n, m.a.K, m.a.H).flag(back).long(m.size)
}

// MixNodes implements device.Matching.
func (d *dev) MixNodes(a device.MixArgs) {
	m := d.mixing("MixNodes", a)
	d.mix(&m, d.floats("MixNodes Y", a.Y, m.size), m.x, false)
}

// MixNodesGrad implements device.Matching.
func (d *dev) MixNodesGrad(a device.MixArgs) {
	m := d.mixing("MixNodesGrad", a)
	dy, dx, dw := d.floats("MixNodesGrad DY", a.DY, m.size), d.floats("MixNodesGrad DX", a.DX, m.size), d.floats("MixNodesGrad DWeights", a.DWeights, m.weights)
	d.mix(&m, dx, dy, true)
	if a.PerImage {
		d.each(kernelMixImages, m.weights).ptr(dw, m.x, dy).int(m.nodes, m.c.n, a.K, a.H).long(m.weights)
		return
	}
	tiles := min(64, (m.c.longest*m.c.longest*a.K+7)/8)
	d.start(kernelMixCaptions, threads, m.c.n, tiles, 1).ptr(dw, m.x, dy, m.c.starts, m.c.squaresAt).int(m.c.rows, a.B, a.K, a.H)
}

// nodeMeans counts the values of X and of Y.
func (d *dev) nodeMeans(what string, a device.NodeMeansArgs) (c captions, nodes, means int) {
	positive(what, a.B, a.H, len(a.Lengths.Host))
	c = d.captions(what, a.Lengths, 0)
	return c, a.B * c.rows * a.H, a.B * c.n * a.H
}

// MeanNodes implements device.Matching.
func (d *dev) MeanNodes(a device.NodeMeansArgs) {
	c, nodes, means := d.nodeMeans("MeanNodes", a)
	x, y := d.floats("MeanNodes X", a.X, nodes), d.floats("MeanNodes Y", a.Y, means)
	d.each(kernelMeanNodes, means).ptr(y, x, c.starts).int(c.rows, c.n, a.H).long(means)
}

// MeanNodesGrad implements device.Matching.
func (d *dev) MeanNodesGrad(a device.NodeMeansArgs) {
	c, nodes, means := d.nodeMeans("MeanNodesGrad", a)
	dx, dy := d.floats("MeanNodesGrad DX", a.DX, nodes), d.floats("MeanNodesGrad DY", a.DY, means)
	d.each(kernelMeanNodesGrad, nodes).ptr(dx, dy, c.of, c.starts).int(c.rows, c.n, a.H).long(nodes)
}

// wordGraph checks a call: the captions, the words and the edges, which are absent where all words are neighbours.
func (d *dev) wordGraph(what string, a device.WordGraphArgs) (c captions, words, edges, start driver.Ptr) {
	positive(what, a.E)
	c = d.captions(what, a.Lengths, 0)
	words = d.floats("WordGraph Words", a.Words, c.rows*a.E)
	if !a.Sparse {
		return c, words, 0, 0
	}
	if len(a.EdgeStart.Host) != c.n+1 || 2*int(a.EdgeStart.Host[c.n]) > len(a.Edges.Host) {
		panic("cuda: " + what + ": edges do not fit the captions")
	}
	for i, n := range a.Lengths.Host {
		if a.Lengths.Loose { // then nothing that leaves its caption is read
			n = int32(c.longest)
		}
		for _, word := range a.Edges.Host[2*a.EdgeStart.Host[i] : 2*a.EdgeStart.Host[i+1]] {
			if word < 0 || word >= n {
				panic("cuda: " + what + ": an edge leaves its caption")
			}
		}
	}
	return c, words, d.ints("WordGraph Edges", a.Edges.View, 2*int(a.EdgeStart.Host[c.n])), d.ints("WordGraph EdgeStart", a.EdgeStart.View, c.n+1)
}

// WordGraph implements device.Matching.
func (d *dev) WordGraph(a device.WordGraphArgs) {
	c, words, edges, start := d.wordGraph("WordGraph", a)
	weights := d.floats("WordGraph Weights", a.Weights, c.squares)
	if c.n > 0 {
		d.start(kernelWordGraph, threads, c.n, c.longest, 1).ptr(weights, words, edges, start, c.starts, c.squaresAt).int(a.E).float(a.Lambda)
	}
}

// WordGraphGrad implements device.Matching.
func (d *dev) WordGraphGrad(a device.WordGraphArgs) {
	c, words, _, _ := d.wordGraph("WordGraphGrad", a)
	weights, dWeights := d.floats("WordGraphGrad Weights", a.Weights, c.squares), d.floats("WordGraphGrad DWeights", a.DWeights, c.squares)
	dWords := d.floats("WordGraphGrad DWords", a.DWords, c.rows*a.E)
	if c.n == 0 {
		return
	}
	slopes := d.need(scratchSums, 4*c.squares)
	d.start(kernelWordGraphSlope, 32, c.n, c.longest, 1).ptr(slopes, weights, dWeights, c.starts, c.squaresAt).float(a.Lambda)
	d.wide(kernelWordGraphGrad, c.rows, a.E).ptr(dWords, slopes, words, c.of, c.starts, c.squaresAt).int(a.E)
}
