package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// mixing is a checked call of MixNodes.
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
	d.each("mix_nodes", m.size).ptr(y, x, m.w, m.c.of, starts, m.c.squaresAt).int(m.c.rows, m.nodes, m.c.n, m.a.K,
		m.a.H).flag(back).long(m.size)
}

func (d *dev) MixNodes(a device.MixNodes) {
	m := d.mixing(a)
	d.mix(&m, d.pointer(a.Y), m.x, false)
}

func (d *dev) MixNodesGrad(a device.MixNodes) {
	m := d.mixing(a)
	dy, dx, dw := d.pointer(a.DY), d.pointer(a.DX), d.pointer(a.DWeights)
	d.mix(&m, dx, dy, true)
	if a.PerImage {
		d.each("mix_image_weights", m.weights).ptr(dw, m.x, dy).int(m.nodes, m.c.n, a.K, a.H).long(m.weights)
		return
	}
	tiles := min(64, (m.c.longest*m.c.longest*a.K+7)/8)
	d.start("mix_caption_weights", threads, m.c.n, tiles, 1).ptr(dw, m.x, dy, m.c.starts, m.c.squaresAt).
		int(m.c.rows, a.B, a.K, a.H)
}

func (d *dev) MeanNodes(a device.MeanNodes) {
	c := d.captions(a.Lengths)
	d.each("mean_nodes", a.Y.N).of(a.Y, a.X).ptr(c.starts).int(c.rows, c.n, a.H).long(a.Y.N)
}

func (d *dev) MeanNodesGrad(a device.MeanNodes) {
	c := d.captions(a.Lengths)
	n, fours := a.DX.N, countsFours(d, a.H, a.DX) && inFours(a.H, d.pointer(a.DY))
	d.each("mean_nodes_grad", countOf(n, fours)).of(a.DX, a.DY).ptr(c.of, c.starts).int(c.rows, c.n, a.H).long(n).
		flag(fours)
}

func (d *dev) WordGraph(a device.WordGraph) {
	c, edges := d.captions(a.Lengths), [2]device.View{} // absent where all words are neighbours
	if a.Sparse {
		edges = [2]device.View{a.Edges.View, a.EdgeStart.View}
	}
	d.start("word_graph", threads, c.n, c.longest, 1).of(a.Weights, a.Words, edges[0], edges[1]).
		ptr(c.starts, c.squaresAt).int(a.E).float(a.Lambda)
}

func (d *dev) WordGraphGrad(a device.WordGraph) {
	c := d.captions(a.Lengths)
	if c.n == 0 {
		return
	}
	slopes := d.need(scratchSums, 4*c.squares)
	d.start("word_graph_slopes", 32, c.n, c.longest, 1).ptr(slopes).of(a.Weights, a.DWeights).
		ptr(c.starts, c.squaresAt).float(a.Lambda)
	d.wide("word_graph_grad", c.rows, a.E).of(a.DWords).ptr(slopes).of(a.Words).ptr(c.of, c.starts, c.squaresAt).
		int(a.E)
}
