package cuda

import "vsetrain/internal/compute/device/cuda/driver"

// Steps of reasoning on tensor cores (reasoning_sm80.cu): all nodes of a pair ask, and a block of the GPU does products
// and attention of whole graphs.

const (
	graphRows     = 64   // of a tile
	graphColumns  = 256  // of a node, at most
	graphCaptions = 4095 // at most
	graphPacked   = 2 * graphColumns * graphColumns / 2

	// Bytes of two tiles of rows, and of the weights of their nodes, of which the gradient has two kinds.
	graphTilesShared = 2 * graphRows * graphColumns * 2
	graphShared      = graphTilesShared + graphRows*graphRows*2 + 4*4*graphRows
	graphGradShared  = graphTilesShared + 2*graphRows*graphRows*2
)

// inGraphs decides by the sizes and by where rows lie: eight values are read at once.
func (r *reasoning) inGraphs(d *dev, rows ...driver.Ptr) bool {
	return d.tensor == tensorBF16 && !r.a.First && r.a.S <= graphColumns && r.a.S%8 == 0 &&
		r.longest < graphRows && r.captions <= graphCaptions && inFours(r.a.S, rows...)
}

// graphTiles is the number of tiles of an image's nodes. Where lengths are bounds it is one that they do not exceed: a
// tile lacks less than a graph, two neighbours hold more than one tile.
func (r *reasoning) graphTiles() int {
	if r.from.Bounded {
		return min(r.nodes/(graphRows-r.longest), 2*r.nodes/(graphRows+1)) + 2
	}
	tiles, rows := 1, 0
	for _, n := range r.from.Host {
		rows += int(n) + 1
		if rows > graphRows {
			tiles, rows = tiles+1, int(n)+1
		}
	}
	return tiles
}

// tileTable lists where the tiles begin, and packs two weights as operands, the second transposed.
func (r *reasoning) tileTable(d *dev, w *workspace, tiles int, first, second driver.Ptr) (table, packed driver.Ptr) {
	packed, table = w.cut(graphPacked), w.cut(tiles+1)
	d.each("reason_pack", graphPacked).ptr(packed, first, second).int(r.a.S)
	d.start("reason_tiles", threads, 1, 1, 1).ptr(table, r.first, r.nodeCaption).int(r.captions, r.nodes, tiles)
	return table, packed
}

// copyInEights is an address of copies that are read and written eight at a time, or 0.
func copyInEights(copy driver.Ptr) driver.Ptr {
	if copy%16 != 0 {
		return 0
	}
	return copy
}

// graphs is GraphReason.
func (r *reasoning) graphs(d *dev, bias driver.Ptr) {
	tiles, units := r.graphTiles(), r.a.B*r.nodes
	w := d.workspace(graphPacked + tiles + 1)
	table, packed := r.tileTable(d, &w, tiles, r.m, r.w)
	half, copy, values := driver.Ptr(0), driver.Ptr(0), units*r.a.S
	if d.currentCopy(r.x, values) != 0 {
		half, _ = d.rounded(r.x, values)
	}
	if r.half {
		copy = copyInEights(d.copyFor(r.out, values)) // the next step reads it
	}
	d.start("reason_graphs", threads, tiles*r.a.B, 1, 1).shares(graphShared).ptr(r.out, copy, r.y, r.x,
		copyInEights(half), packed, r.v, bias, table, r.first, r.nodeCaption).int(r.nodes, tiles, r.a.S).long(units)
	d.fresh(copy, r.out, values)
}

// graphsGrad is GraphReasonGrad where Y is kept.
func (r *reasoning) graphsGrad(d *dev, dOut, dX, dM, dV, dW, dBias driver.Ptr) {
	s, tiles := r.a.S, r.graphTiles()
	floats := 4 * r.nodes * halves(s)
	r.tile = d.tileOf(r.a.B, 4*floats, r.nodes)
	blocks := (r.tile*r.nodes + graphRows - 1) / graphRows
	parts := (r.a.B + r.tile - 1) / r.tile
	rows := max(blocks, tiles*r.tile)
	sums := tallFloats(parts, rows, s)
	w := d.workspace(r.tile*floats + graphPacked + rows*s + 2*sums + tiles + 1)
	for _, p := range []*driver.Ptr{&r.e16, &r.dP16, &r.dE, &r.dQ16} {
		*p = w.cut(r.tile * r.nodes * halves(s))
	}
	part := w.cut(rows * s)
	bias, v := tallSum{part: w.cut(sums), cols: s}, tallSum{part: w.cut(sums), cols: s}
	table, packed := r.tileTable(d, &w, tiles, r.w, r.m)
	half := driver.Ptr(0)
	if r.half {
		half, _ = d.rounded(r.x, r.a.B*r.nodes*s) // a product below reads it too
		half = copyInEights(half)
	}
	for t := (reasonTile{}); r.next(&t); {
		from := t.i0 * r.nodes * s
		blocks := (t.n + graphRows - 1) / graphRows
		d.start("reason_out_back", threads, blocks, 1, 1).ptr(r.dE, r.dP16, part, at(r.out, from), at(dOut, from),
			packed).int(s).long(t.n)
		bias.add(d, part, blocks)
		blocks = tiles * t.images
		d.start("reason_graphs_grad", threads, blocks, 1, 1).shares(graphGradShared).ptr(at(dX, from), r.e16, r.dQ16,
			part, t.x, half, at(r.y, from), r.dE, at(packed, graphPacked/2), table, r.first, r.nodeCaption).
			int(r.nodes, tiles, s).long(t.n)
		if half != 0 {
			half += driver.Ptr(2 * t.n * s)
		}
		v.add(d, part, blocks)
		r.sum(d, &t, dW, operand{r.dP16, true}, operand{r.e16, true})
		r.sum(d, &t, dM, operand{ptr: t.x}, operand{r.dQ16, true})
	}
	bias.finish(d, dBias)
	v.finish(d, dV)
}
