package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// reasoning is a step (device.GraphReason) on the graphs of a tile of images with all captions. Products with the
// weights cover the queries of the tile: every node, or with First node 0 of every pair. Between them a kernel computes
// the attention within the graphs, each of a few nodes.
type reasoning struct {
	pairLayout
	a                  device.GraphReason
	queries            int // of an image
	per                int // captions with First, otherwise 0
	tile               int // images
	x, m, v, w, y, out driver.Ptr
	// of a tile: A, the products X M + v, A X, and the nodes of the queries with First
	weights, q, e, gather            driver.Ptr
	dP, dE, dQ, dWeights, back, part driver.Ptr

	half                      bool       // products read bfloat16
	e16, gather16, dP16, dQ16 driver.Ptr // of a tile
}

// operand is what a product over the queries of a tile reads: float32, or bfloat16 with half.
type operand struct {
	ptr  driver.Ptr
	half bool
}

func (r *reasoning) operand(half, single driver.Ptr) operand {
	return operand{either(r.half, half, single), r.half}
}

func (d *dev) reasoning(a device.GraphReason) (r reasoning) {
	r.pairLayout, r.a = d.layout(a.Lengths), a
	r.x = d.pointer(a.X)
	r.queries = r.nodes
	if a.First {
		r.queries, r.per = r.captions, r.captions
	} else {
		r.y = d.pointer(a.Y)
	}
	r.out, r.v = d.pointer(a.Out), d.pointer(a.V)
	r.m, r.w = d.pointer(a.M), d.pointer(a.W)
	r.half = d.takesHalf(a.B * r.queries * a.S * a.S)
	return r
}

// rowWidth is the width of a row of attention weights, a multiple of four.
func (r *reasoning) rowWidth() int { return r.longest/4*4 + 4 }

// cut chooses the tiles and takes memory for them. A query gets a row of attention weights for each of weights, S
// bfloat16 for each of short if products read bfloat16, and S floats for each of rows; an image gets S floats for each
// of parts. The workspace has room for more floats after that.
func (r *reasoning) cut(d *dev, rows, short, weights []*driver.Ptr, parts, more int) workspace {
	if !r.half {
		short = nil
	}
	s := r.a.S
	floats := r.queries*(len(rows)*s+len(short)*halves(s)+len(weights)*r.rowWidth()) + parts*s
	r.tile = d.tileOf(r.a.B, 4*floats, r.nodes)
	w := d.workspace(r.tile*floats + more)
	for _, p := range weights {
		*p = w.cut(r.tile * r.queries * r.rowWidth())
	}
	for _, p := range short {
		*p = w.cut(r.tile * r.queries * halves(s))
	}
	for _, p := range rows {
		*p = w.cut(r.tile * r.queries * s)
	}
	r.part = w.cut(r.tile * parts * s)
	return w
}

// fewer chooses how many rows a query needs: if Y is stored, if it is not, and with First.
func (r *reasoning) fewer(stored, made, first int) int {
	switch {
	case r.a.First:
		return first
	case r.y != 0:
		return stored
	}
	return made
}

// reasonTile is the images [i0, i0+images): n queries of them, x where their nodes begin.
type reasonTile struct {
	i0, images, n int
	x             driver.Ptr
}

func (r *reasoning) next(t *reasonTile) bool {
	t.i0 += t.images
	t.images = min(r.tile, r.a.B-t.i0)
	t.n, t.x = t.images*r.queries, at(r.x, t.i0*r.nodes*r.a.S)
	return t.images > 0
}

// square computes c = a·b + bias + beta·c for the queries of a tile and a weight [S, S].
func (r *reasoning) square(d *dev, t *reasonTile, c driver.Ptr, a operand, transB bool, b, bias driver.Ptr,
	beta float64) {
	s := r.a.S
	d.multiply(&product{transB: transB, m: t.n, n: s, k: s, alpha: 1, beta: beta, a: a.ptr, halfA: a.half, lda: s, b: b,
		ldb: s, c: c, ldc: s, bias: bias})
}

// asks computes the queries X M + v, or with fresh false uses those in Y. It returns the nodes that ask and their
// queries.
func (r *reasoning) asks(d *dev, t *reasonTile, fresh bool) (asking operand, q driver.Ptr) {
	asking, q = operand{ptr: t.x}, r.q
	if r.y != 0 {
		q = at(r.y, t.i0*r.nodes*r.a.S)
	}
	if r.a.First {
		asking = r.operand(r.gather16, r.gather)
		d.warps("reason_gather", t.n).ptr(r.gather, r.gather16, t.x, r.first).int(r.nodes, r.per, r.a.S).long(t.n)
	}
	if fresh || r.y == 0 {
		r.square(d, t, q, asking, false, r.m, r.v, 0)
	}
	return asking, q
}

const attentionThreads = 128

// attends begins the call of a kernel in which each block has a graph of a tile, or the nodes of an image that belong
// to no caption.
func (r *reasoning) attends(d *dev, of string, t *reasonTile) *command {
	return d.start(of, attentionThreads, t.images*(r.captions+1), 1, 1)
}

// asksOf begins the call of a kernel in which each warp has one of n graphs.
func (r *reasoning) asksOf(d *dev, of string, n int) *command {
	const perBlock = attentionThreads / 32
	return d.start(of, attentionThreads, (n+perBlock-1)/perBlock, 1, 1)
}

func (d *dev) GraphReason(a device.GraphReason) {
	r := d.reasoning(a)
	bias := d.pointer(a.Bias)
	if r.captions == 0 {
		return
	}
	if r.inGraphs(d, r.x, r.y, r.out) {
		r.graphs(d, bias)
		return
	}
	rows, short := [...]*driver.Ptr{&r.e, &r.q, &r.gather}, [...]*driver.Ptr{&r.e16, &r.gather16}
	weights := [...]*driver.Ptr{&r.weights}
	r.cut(d, rows[:r.fewer(1, 2, 3)], short[:r.fewer(1, 1, 2)], weights[:r.fewer(1, 1, 0)], 0, 0)
	for t := (reasonTile{}); r.next(&t); {
		_, q := r.asks(d, &t, true)
		e := r.single(r.e)
		fours := inFours(a.S, e, 2*r.e16, q, t.x)
		if a.First {
			r.asksOf(d, "reason_ask", t.n).ptr(e, r.e16, q, t.x, r.first).int(r.captions, r.nodes, a.S).flag(fours).
				long(t.n)
		} else {
			r.attends(d, "reason_attend", &t).ptr(e, r.e16, r.weights, q, t.x, r.first).int(r.captions, r.nodes,
				r.rowWidth(), a.S).flag(fours)
		}
		out, n := at(r.out, t.i0*r.queries*a.S), t.n*a.S
		r.square(d, &t, out, r.operand(r.e16, r.e), true, r.w, 0, 0)
		copy, head := driver.Ptr(0), n
		if r.half && !a.First {
			copy = d.copyFor(out, n) // the next step multiplies it
		}
		if inFours(a.S, out, 2*copy, bias) {
			head = 0
		}
		d.launchVec4("reason_out", head, n).ptr(out, copy, bias).int(a.S).long(head, n)
		d.fresh(copy, out, n)
	}
}

// single is the address where a kernel writes float32: 0 if products read bfloat16.
func (r *reasoning) single(p driver.Ptr) driver.Ptr { return either(r.half, 0, p) }

// GraphReasonGrad recomputes the attention, and the queries if they are not stored.
func (d *dev) GraphReasonGrad(a device.GraphReason) {
	r := d.reasoning(a)
	s := a.S
	dOut, dX := d.pointer(a.DOut), d.pointer(a.DX)
	dM, dV := d.pointer(a.DM), d.pointer(a.DV)
	dW, dBias := d.pointer(a.DW), d.pointer(a.DBias)
	if r.captions == 0 {
		for _, p := range [2]driver.Ptr{dM, dW} {
			d.fill(p, 4*s*s, 0)
		}
		for _, p := range [2]driver.Ptr{dV, dBias} {
			d.fill(p, 4*s, 0)
		}
		return
	}
	if r.y != 0 && r.inGraphs(d, r.x, r.y, r.out, dOut, dX) {
		r.graphsGrad(d, dOut, dX, dM, dV, dW, dBias)
		return
	}
	if d.aloneAt(r.y) != 0 {
		r.y = 0
	}
	// Columns are summed by parts: pieces of rows, or graphs.
	parts := max(r.captions+1, (r.queries+activePiece-1)/activePiece)
	sums := tallFloats(a.B, parts, s)
	rows := [...]*driver.Ptr{&r.e, &r.dP, &r.dE, &r.dQ, &r.q, &r.gather, &r.back}
	short := [...]*driver.Ptr{&r.e16, &r.dP16, &r.dQ16, &r.gather16}
	w := r.cut(d, rows[:r.fewer(4, 5, 7)], short[:r.fewer(3, 3, 4)], []*driver.Ptr{&r.weights, &r.dWeights}, parts,
		2*sums)
	bias, v := tallSum{part: w.cut(sums), cols: s}, tallSum{part: w.cut(sums), cols: s}
	for t := (reasonTile{}); r.next(&t); {
		from := t.i0 * r.queries * s
		d.activePieces(device.ReLU, t.n, s, activePiece, r.single(r.dP), 0, r.dP16, 0, r.part, at(r.out, from),
			at(dOut, from))
		bias.add(d, r.part, (t.n+activePiece-1)/activePiece)
		dP, dQ, e := r.operand(r.dP16, r.dP), r.operand(r.dQ16, r.dQ), r.operand(r.e16, r.e)
		r.square(d, &t, r.dE, dP, false, r.w, 0, 0)
		asking, q := r.asks(d, &t, false)
		dx, eOut := at(dX, t.i0*r.nodes*s), r.single(r.e)
		fours := inFours(s, eOut, 2*r.e16, r.dQ, 2*r.dQ16, dx, q, t.x, r.dE, r.back)
		if a.First {
			r.asksOf(d, "reason_ask_grad", t.n).ptr(eOut, r.e16, r.dQ, r.dQ16, r.weights, r.dWeights, q, t.x, r.dE,
				r.first).int(r.captions, r.nodes, r.rowWidth(), s).flag(fours).long(t.n)
			v.add(d, r.dQ, t.n)
			r.square(d, &t, r.back, dQ, true, r.m, 0, 0)
			units := t.images * (r.captions + 1)
			r.asksOf(d, "reason_spread", units).ptr(dx, r.weights, r.dWeights, r.dE, q, r.back, r.first).int(r.captions,
				r.nodes, r.rowWidth(), s).flag(fours).long(units)
		} else {
			r.attends(d, "reason_attend_grad", &t).ptr(eOut, r.e16, r.single(r.dQ), r.dQ16, dx, r.part, r.weights,
				r.dWeights, q, t.x, r.dE, r.first).int(r.captions, r.nodes, r.rowWidth(), s).flag(fours)
			v.add(d, r.part, t.images*(r.captions+1))
			r.square(d, &t, dx, dQ, true, r.m, 0, 1)
		}
		r.sum(d, &t, dW, dP, e)
		r.sum(d, &t, dM, asking, dQ)
	}
	bias.finish(d, dBias)
	v.finish(d, dV)
}

// sum adds aᵀ b over the queries of a tile to the gradient of a weight; the first tile sets it.
func (r *reasoning) sum(d *dev, t *reasonTile, to driver.Ptr, a, b operand) {
	s := r.a.S
	d.multiply(&product{transA: true, m: s, n: s, k: t.n, alpha: 1, beta: after(t.i0), a: a.ptr, halfA: a.half, lda: s,
		b: b.ptr, halfB: b.half, ldb: s, c: to, ldc: s})
}
