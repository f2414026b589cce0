package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelReasonWeights = entryOf("reason_weights")
	kernelReasonMix     = entryOf("reason_mix")
	kernelReasonMixGrad = entryOf("reason_mix_grad")
	kernelReasonSpread  = entryOf("reason_spread")
	kernelReasonGather  = entryOf("reason_gather")
	kernelReasonOut     = entryOf("reason_out")
)

// A step of reasoning (device.ReasonArgs) on the graphs of a tile of images with all captions. The products with the weights run over the queries of
// the tile, every node or with First node 0 of every pair; the attention within the graphs, each of a few nodes, is done by kernels.
type reasoning struct {
	pairLayout
	a                          device.ReasonArgs
	queries                    int // of an image
	per                        int // captions with First, otherwise 0
	tile                       int // images
	x, m, v, w, y, out         driver.Ptr
	weights, q, e, gather      driver.Ptr // of a tile: A, the products X M + v, A X, and the nodes of the queries with First
	dP, dE, dQ, dWeights, back driver.Ptr
}

func (d *dev) reasoning(what string, a device.ReasonArgs) (r reasoning) {
	positive(what, a.B, a.S)
	r.pairLayout, r.a = d.layout(what, a.Lengths, 0), a
	r.x = d.floats(what, a.X, a.B*r.nodes*a.S)
	r.queries = r.nodes
	if a.First {
		r.queries, r.per = r.captions, r.captions
	} else {
		r.y = d.optional(what, a.Y, a.B*r.nodes*a.S)
	}
	r.out, r.v = d.floats(what, a.Out, a.B*r.queries*a.S), d.floats(what, a.V, a.S)
	r.m, r.w = d.floats(what, a.M, a.S*a.S), d.floats(what, a.W, a.S*a.S)
	return r
}

// room is the width of a row of attention weights.
func (r *reasoning) room() int { return r.longest + 1 }

// cut chooses the tiles and gives out the workspace: for each query the values of rows, S floats each, and those of weights, a row of attention weights each.
// More floats lie behind.
func (r *reasoning) cut(d *dev, rows, weights []*driver.Ptr, more int) workspace {
	floats := r.queries * (len(rows)*r.a.S + len(weights)*r.room())
	r.tile = tileOf(r.a.B, 4*floats, r.queries)
	w := d.workspace(r.tile*floats + more)
	for _, p := range rows {
		*p = w.cut(r.tile * r.queries * r.a.S)
	}
	for _, p := range weights {
		*p = w.cut(r.tile * r.queries * r.room())
	}
	return w
}

// fewer chooses how many rows a query needs: where Y is kept, where it is not, and with First.
func (r *reasoning) fewer(kept, made, first int) int {
	switch {
	case r.a.First:
		return first
	case r.y != 0:
		return kept
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

// square computes c = a·b + beta·c for the queries of a tile and a weight [S, S].
func (r *reasoning) square(d *dev, t *reasonTile, c, a driver.Ptr, transB bool, b, bias driver.Ptr, beta float64) {
	s := r.a.S
	d.multiply(&product{transB: transB, m: t.n, n: s, k: s, alpha: 1, beta: beta, a: a, lda: s, b: b, ldb: s, c: c, ldc: s, bias: bias})
}

// attend computes the queries X M + v and their attention weights. It returns the nodes that ask, and their queries.
func (r *reasoning) attend(d *dev, t *reasonTile, fresh bool) (asking, q driver.Ptr) {
	asking, q = t.x, r.q
	if r.y != 0 {
		q = at(r.y, t.i0*r.nodes*r.a.S)
	}
	if r.a.First {
		asking = r.gather
		d.warps(kernelReasonGather, t.n).ptr(asking, t.x, r.first).int(r.nodes, r.per, r.a.S).long(t.n)
	}
	if fresh || r.y == 0 {
		r.square(d, t, q, asking, false, r.m, r.v, 0)
	}
	r.dots(d, t, r.weights, 0, q)
	return asking, q
}

// dots computes softmax(y·x), or its gradient where a are the weights.
func (r *reasoning) dots(d *dev, t *reasonTile, to, a, y driver.Ptr) {
	d.warps(kernelReasonWeights, t.n).ptr(to, a, y, t.x, r.first, r.nodeCaption).int(r.nodes, r.per, r.room(), r.a.S).long(t.n)
}

func (r *reasoning) mix(d *dev, t *reasonTile, to, a driver.Ptr) {
	d.warps(kernelReasonMix, t.n).ptr(to, a, t.x, r.first, r.nodeCaption).int(r.nodes, r.per, r.room(), r.a.S).long(t.n)
}

// GraphReason implements device.Pairs.
func (d *dev) GraphReason(a device.ReasonArgs) {
	r := d.reasoning("GraphReason", a)
	bias := d.floats("GraphReason Bias", a.Bias, a.S)
	if r.captions == 0 {
		return
	}
	rows := [...]*driver.Ptr{&r.e, &r.q, &r.gather}
	r.cut(d, rows[:r.fewer(1, 2, 3)], []*driver.Ptr{&r.weights}, 0)
	for t := (reasonTile{}); r.next(&t); {
		r.attend(d, &t, true)
		r.mix(d, &t, r.e, r.weights)
		out := at(r.out, t.i0*r.queries*a.S)
		r.square(d, &t, out, r.e, true, r.w, 0, 0)
		d.each(kernelReasonOut, t.n*a.S).ptr(out, bias).int(a.S).long(t.n * a.S)
	}
}

// GraphReasonGrad implements device.Pairs. The attention is made again, and the queries where they are not kept.
func (d *dev) GraphReasonGrad(a device.ReasonArgs) {
	const what = "GraphReasonGrad"
	r := d.reasoning(what, a)
	s := a.S
	dOut, dX := d.floats(what+" DOut", a.DOut, a.B*r.queries*s), d.floats(what+" DX", a.DX, a.B*r.nodes*s)
	dM, dV := d.floats(what+" DM", a.DM, s*s), d.floats(what+" DV", a.DV, s)
	dW, dBias := d.floats(what+" DW", a.DW, s*s), d.floats(what+" DBias", a.DBias, s)
	if r.captions == 0 {
		for _, p := range [2]driver.Ptr{dM, dW} {
			d.fill(p, 4*s*s, 0)
		}
		for _, p := range [2]driver.Ptr{dV, dBias} {
			d.fill(p, 4*s, 0)
		}
		return
	}
	// Chunks of sums are a small part of what they sum.
	sums := tallFloats(a.B, r.queries, s)
	rows := [...]*driver.Ptr{&r.e, &r.dP, &r.dE, &r.dQ, &r.q, &r.gather, &r.back}
	w := r.cut(d, rows[:r.fewer(4, 5, 7)], []*driver.Ptr{&r.weights, &r.dWeights}, 2*sums)
	bias, v := tallSum{part: w.cut(sums), cols: s}, tallSum{part: w.cut(sums), cols: s}
	for t := (reasonTile{}); r.next(&t); {
		from := t.i0 * r.queries * s
		d.each(kernelActivateGrad, t.n*s).ptr(r.dP, at(r.out, from), at(dOut, from)).int(int(device.ReLU)).long(t.n * s)
		bias.add(d, r.dP, 0, t.n)
		r.square(d, &t, r.dE, r.dP, false, r.w, 0, 0)
		asking, q := r.attend(d, &t, false)
		r.dots(d, &t, r.dWeights, r.weights, r.dE)
		dx := at(dX, t.i0*r.nodes*s)
		if a.First {
			r.mix(d, &t, r.e, r.weights)
			r.mix(d, &t, r.dQ, r.dWeights)
			r.square(d, &t, r.back, r.dQ, true, r.m, 0, 0)
			nodes := t.images * r.nodes
			d.warps(kernelReasonSpread, nodes).ptr(dx, r.weights, r.dWeights, r.dE, q, r.back, r.first, r.nodeCaption).int(r.nodes, r.per, r.room(), s).long(nodes)
		} else {
			d.warps(kernelReasonMixGrad, t.n).ptr(r.e, r.dQ, dx, r.weights, r.dWeights, t.x, q, r.dE, r.first, r.nodeCaption).int(r.nodes, r.room(), s).long(t.n)
			r.square(d, &t, dx, r.dQ, true, r.m, 0, 1)
		}
		r.sum(d, &t, dW, r.dP, r.e)
		r.sum(d, &t, dM, asking, r.dQ)
		v.add(d, r.dQ, 0, t.n)
	}
	bias.finish(d, dBias)
	v.finish(d, dV)
}

// sum adds aᵀ b over the queries of a tile to the gradient of a weight, which it sets in the first.
func (r *reasoning) sum(d *dev, t *reasonTile, to, a, b driver.Ptr) {
	s := r.a.S
	d.multiply(&product{transA: true, m: s, n: s, k: t.n, alpha: 1, beta: after(t.i0), a: a, lda: s, b: b, ldb: s, c: to, ldc: s})
}
