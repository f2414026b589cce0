package cuda

import "vsetrain/internal/compute/device/cuda/driver"

// Steps of reasoning on tensor cores (reasoning_sm80.cu): all nodes of a pair ask, and a block computes products and
// attention of whole graphs.

const (
	graphRows     = 64   // of a tile
	graphColumns  = 256  // of a node, at most
	graphCaptions = 4095 // at most
	graphPacked   = 2 * graphColumns * graphColumns / 2

	// Bytes of two tiles of rows, and of the weights of their nodes: the gradient has two kinds, each also transposed.
	graphTilesShared = 2 * graphRows * graphColumns * 2
	graphShared      = graphTilesShared + graphRows*graphRows*2 + 4*4*graphRows
	graphGradShared  = graphTilesShared + 4*graphRows*graphRows*2
)

// inGraphs decides by sizes and by the alignment of rows: kernels read eight values at once.
func (r *reasoning) inGraphs(d *dev, rows ...driver.Ptr) bool {
	return d.tensor == tensorBF16 && !r.a.First && r.a.S <= graphColumns && r.a.S%8 == 0 &&
		r.longest < graphRows && r.captions <= graphCaptions && inFours(r.a.S, rows...)
}

// graphTiles is the number of tiles of an image's nodes, or an upper bound if lengths are bounds: less than a graph is
// missing in a tile, and two neighbours hold more than one tile.
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

// tileTable makes the table of the starts of tiles, and packs two weights as operands, the second transposed.
func (r *reasoning) tileTable(d *dev, w *workspace, tiles int, first, second driver.Ptr) (table, packed driver.Ptr) {
	packed, table = w.cut(graphPacked), w.cut(tiles+1)
	d.each("reason_pack", graphPacked).ptr(packed, first, second).int(r.a.S)
	d.start("reason_tiles", threads, 1, 1, 1).ptr(table, r.first, r.nodeCaption).int(r.captions, r.nodes, tiles)
	return table, packed
}

// copyInEights returns the address of copies that kernels read and write eight at a time, or 0.
func copyInEights(copy driver.Ptr) driver.Ptr {
	if copy%16 != 0 {
		return 0
	}
	return copy
}

// copied returns the copy of n values, 0 if it is incomplete or not aligned for eight values at a time.
func (r *reasoning) copied(d *dev, p driver.Ptr, n int) driver.Ptr {
	if d.currentCopy(p, n) == 0 {
		return 0
	}
	copy, _ := d.rounded(p, n)
	return copyInEights(copy)
}

// graphs is GraphReason. If queries are stored, it writes copies of the nodes too: the gradient multiplies them.
func (r *reasoning) graphs(d *dev, bias driver.Ptr) {
	tiles, all := r.graphTiles(), r.a.B*r.nodes*r.a.S
	w := d.workspace(graphPacked + tiles + 1)
	table, packed := r.tileTable(d, &w, tiles, r.m, r.w)
	half, xCopy, yCopy, copy := r.copied(d, r.x, all), driver.Ptr(0), driver.Ptr(0), driver.Ptr(0)
	if r.half {
		copy = copyInEights(d.copyFor(r.out, all)) // the next step and the gradient read it
	}
	if r.half && r.y != 0 && r.a.Operand {
		yCopy = copyInEights(d.copyFor(r.y, all))
	}
	if r.half && r.y != 0 && half == 0 {
		xCopy = copyInEights(d.copyFor(r.x, all))
	}
	d.start("reason_graphs", threads, tiles*r.a.B, 1, 1).shares(graphShared).ptr(r.out, copy,
		values(r.y, yCopy, true), yCopy, xCopy, r.x, half, packed, r.v, bias, table, r.first, r.nodeCaption).
		int(r.nodes, tiles, r.a.S).long(r.a.B * r.nodes)
	d.fresh(copy, r.out, all)
	d.fresh(xCopy, r.x, all)
	d.stored(yCopy, r.y, all, true)
}

// graphsGrad is GraphReasonGrad if Y is stored.
func (r *reasoning) graphsGrad(d *dev, dOut, dX, dM, dV, dW, dBias driver.Ptr) {
	s, tiles, all := r.a.S, r.graphTiles(), r.a.B*r.nodes*r.a.S
	floats := 3 * r.nodes * halves(s)
	r.tile = d.tileOf(r.a.B, 4*floats, r.nodes)
	blocks := tiles * r.tile
	sums := tallFloats((r.a.B+r.tile-1)/r.tile, blocks, 2*s)
	w := d.workspace(r.tile*floats + graphPacked + blocks*2*s + sums + tiles + 1)
	for _, p := range []*driver.Ptr{&r.e16, &r.dP16, &r.dQ16} {
		*p = w.cut(r.tile * r.nodes * halves(s))
	}
	part := w.cut(blocks * 2 * s)
	both := tallSum{part: w.cut(sums), cols: 2 * s}
	table, packed := r.tileTable(d, &w, tiles, r.w, r.m)
	x, y, out := driver.Ptr(0), d.aloneAt(r.y), r.copied(d, r.out, all)
	if r.half {
		x, _ = d.rounded(r.x, all) // a product below reads it too
		x = copyInEights(x)
	}
	for t := (reasonTile{}); r.next(&t); {
		from := t.i0 * r.nodes * s
		blocks, single := tiles*t.images, values(at(r.y, from), y, true)
		d.start("reason_graphs_grad", threads, blocks, 1, 1).shares(graphGradShared).ptr(at(dX, from), r.dP16, r.e16,
			r.dQ16, part, t.x, x, single, y, at(r.out, from), out, at(dOut, from), packed,
			table, r.first, r.nodeCaption).int(r.nodes, tiles, s).long(t.n)
		for _, p := range [...]*driver.Ptr{&x, &y, &out} {
			if *p != 0 {
				*p += driver.Ptr(2 * t.n * s)
			}
		}
		both.add(d, part, blocks)
		r.sum(d, &t, dW, operand{r.dP16, true}, operand{r.e16, true})
		r.sum(d, &t, dM, operand{ptr: t.x}, operand{r.dQ16, true})
	}
	d.columnTotal(dV, dBias, both.part, both.chunks, 2*s, s, 2*s)
}
