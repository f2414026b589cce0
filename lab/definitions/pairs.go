package definitions

import "vsetrain/internal/compute/device"

type pairs struct{ *Device }

const smallest = 1e-8 // of norms and sums

// axes are what the norms and the softmax of an attention run along.
func (k pairs) axes(a *device.PairAttention) (norm, softmax along) {
	words := alongSegments(a.Lengths, a.B*a.R)
	regions := alongRows(device.Total(a.Lengths.Host)*a.B, a.R)
	if a.OverWords {
		return regions, words
	}
	return words, regions
}

const leak = 0.1 // slope of the products below 0

func (k pairs) PairAttention(a device.PairAttention) {
	defer k.Give(k.Use())
	norm, softmax := k.axes(&a)
	n := norm.rows * norm.width
	x, w := k.Floats(n), a.Weights
	k.apply(device.LeakyReLU, leak, x, a.Scores)
	k.unit(w, x, k.Floats(norm.results()), smallest, norm)
	k.softmax(w, w, a.Lambda, softmax)
}

func (k pairs) PairAttentionGrad(a device.PairAttention) {
	defer k.Give(k.Use())
	along, softmax := k.axes(&a)
	n := along.rows * along.width
	x, d, norm, scores := k.Floats(n), k.Floats(n), k.Floats(along.results()), a.Scores
	k.softmaxGrad(d, a.Weights, a.DWeights, a.Lambda, softmax)
	k.apply(device.LeakyReLU, leak, x, scores)
	k.norms(norm, x, along)
	k.unitGrad(d, x, norm, d, smallest, along)
	k.applyGrad(device.LeakyReLU, leak, a.DScores, scores, x, d)
}

// nodes is where the rows of a kind lie among the nodes of all pairs: rows [B, rows], in the order of images.
type nodes struct {
	b, rows  int
	lengths  []int32
	captions bool // one row for each caption, not for each word
}

// blocks calls f for the rows of every pair: n of them, from node `at` and from row `from` on.
func (l nodes) blocks(f func(pair, at, from, n int)) {
	row, node := 0, 0
	for i := range l.b {
		for c, length := range l.lengths {
			n, skip := int(length), 1
			if l.captions {
				n, skip = 1, 0
			}
			f(i*len(l.lengths)+c, node+skip, row, n)
			node += int(length) + 1
			row += n
		}
	}
}

// at returns the nodes of all rows.
func (d *Device) at(l nodes) device.Ints {
	at := d.Numbers(l.b * l.rows)
	l.blocks(func(_, node, row, n int) {
		for j := range n {
			at.Host[row+j] = int32(node + j)
		}
	})
	return d.Send(at)
}

// put copies rows to their nodes and leaves the others alone.
func (d *Device) put(dst, rows device.View, width int, l nodes) {
	l.blocks(func(_, node, row, n int) {
		device.Do(d, device.Copy{Dst: dst.Slice(node*width, (node+n)*width), Src: rows.Slice(row*width, (row+n)*width)})
	})
}

// compared are the intermediate values of Similarities: rows [B·rows, …].
type compared struct {
	nodes
	n             int
	context, unit device.View // Σ Weights V, and with length 1; with Global both the images
	norm          device.View // of the contexts
	diff, square  device.View // unit - row, and its square
	raw, y        device.View // W square + Bias, and with length 1
}

func (k pairs) compare(a *device.Similarities) compared {
	c := compared{nodes: nodes{b: a.B, rows: device.Total(a.Lengths.Host), lengths: a.Lengths.Host, captions: a.Global}}
	if a.Global {
		c.rows = len(a.Lengths.Host)
	}
	c.n = a.B * c.rows
	e := a.E
	c.context = k.Floats(c.n * e)
	c.unit, c.diff, c.square = c.context, k.Floats(c.n*e), k.Floats(c.n*e)
	if a.Global {
		k.spreadSegments(c.context, a.Images, k.Each(a.B, c.rows), e)
	} else {
		device.Do(k, device.Gemm{M: c.rows, N: e, K: a.R, Alpha: 1, A: a.Weights, LDA: a.B * a.R, StrideA: a.R,
			B: a.Images, StrideB: a.R * e, C: c.context, StrideC: c.rows * e, Batch: a.B})
		c.unit, c.norm = k.Floats(c.n*e), k.Floats(c.n)
		k.unitOf(c.unit, c.context, c.norm, c.n, e)
	}
	k.spreadSegments(c.diff, a.Rows, k.Each(1, a.B), c.rows*e)
	k.combine(c.diff, c.unit, c.diff, 1, -1)
	device.Do(k, device.Multiply{Dst: c.square, A: c.diff, B: c.diff})
	c.raw, c.y = k.Floats(c.n*a.S), k.Floats(c.n*a.S)
	return c
}

// unitOf divides rows by their norms.
func (k pairs) unitOf(y, x, norm device.View, n, width int) {
	k.unit(y, x, norm, smallest, alongRows(n, width))
}

// unitOfGrad computes dx from dy; dx may be dy.
func (k pairs) unitOfGrad(dx, x, norm, dy device.View, n, width int) {
	k.unitGrad(dx, x, norm, dy, smallest, alongRows(n, width))
}

func (k pairs) Similarities(a device.Similarities) {
	defer k.Give(k.Use())
	c := k.compare(&a)
	device.Do(k, device.Gemm{TransB: true, M: c.n, N: a.S, K: a.E, Alpha: 1, A: c.square, B: a.W, C: c.raw,
		Bias: a.Bias})
	k.unitOf(c.y, c.raw, a.Norms, c.n, a.S)
	k.put(a.Nodes, c.y, a.S, c.nodes)
	if !a.Global {
		device.Do(k, device.Copy{Dst: a.Contexts, Src: c.norm})
	}
	if a.Filter.Present() {
		z := k.Floats(c.n)
		device.Do(k, device.Gemm{TransB: true, M: c.n, N: 1, K: a.S, Alpha: 1, A: c.y, B: a.Filter.W, C: z,
			Bias: a.Filter.Bias})
		k.put(a.Filter.Logits, z, 1, c.nodes)
	}
}

// SimilaritiesGrad recomputes the contexts.
func (k pairs) SimilaritiesGrad(a device.Similarities) {
	defer k.Give(k.Use())
	c := k.compare(&a)
	e, s, n := a.E, a.S, c.n
	dy, length := k.Floats(n*s), k.Floats(n)
	k.gather(c.y, a.Nodes, s, k.at(c.nodes))
	k.plus(length, a.Norms, smallest)
	k.timesRows(c.raw, c.y, length, n, s)
	if a.Filter.Present() {
		k.fromFilter(dy, &a, &c)
	} else {
		k.gather(dy, a.DNodes, s, k.at(c.nodes))
	}
	k.unitOfGrad(dy, c.raw, a.Norms, dy, n, s)
	if a.DW.Present() {
		device.Do(k, device.Gemm{TransA: true, M: s, N: e, K: n, Alpha: 1, A: dy, B: c.square, C: a.DW})
	}
	if a.DBias.Present() {
		k.sumAll(a.DBias, dy, n, s)
	}
	dx := c.square // is done with
	device.Do(k, device.Gemm{M: n, N: e, K: s, Alpha: 2, A: dy, B: a.W, C: dx})
	device.Do(k, device.Multiply{Dst: dx, A: dx, B: c.diff})
	if a.DRows.Present() {
		k.sumAll(a.DRows, dx, a.B, c.rows*e)
		k.times(a.DRows, a.DRows, -1)
	}
	if a.Global {
		if a.DImages.Present() {
			k.sumSegments(a.DImages, dx, k.Each(a.B, c.rows), e)
		}
		return
	}
	k.unitOfGrad(dx, c.context, c.norm, dx, n, e)
	if a.DImages.Present() {
		device.Do(k, device.Gemm{TransA: true, M: a.R, N: e, K: c.rows, Alpha: 1, A: a.Weights, LDA: a.B * a.R,
			StrideA: a.R, B: dx, StrideB: c.rows * e, C: a.DImages, StrideC: a.R * e, Batch: a.B})
	}
	if a.DWeights.Present() {
		device.Do(k, device.Gemm{TransB: true, M: c.rows, N: a.R, K: e, Alpha: 1, A: dx, StrideA: c.rows * e,
			B: a.Images, StrideB: a.R * e, C: a.DWeights, LDC: a.B * a.R, StrideC: a.R, Batch: a.B})
	}
}

// fromFilter computes the gradient of the vectors from its factors, and the gradient of the filter's weight.
func (k pairs) fromFilter(dy device.View, a *device.Similarities, c *compared) {
	defer k.Give(k.Use())
	f, s, n := &a.Filter, a.S, c.n
	at, of := k.at(c.nodes), k.Numbers(n)
	c.blocks(func(pair, _, row, rows int) {
		for j := range rows {
			of.Host[row+j] = int32(pair)
		}
	})
	each, x := k.Floats(n), k.Floats(n*s)
	k.gather(dy, f.DSums, s, k.Send(of))
	k.gather(each, f.Weights, 1, at)
	k.timesRows(dy, dy, each, n, s)
	k.gather(each, f.DLogits, 1, at)
	device.Do(k, device.Gemm{M: n, N: s, K: 1, Alpha: 1, A: each, B: f.W, C: x, Exact: true})
	k.combine(dy, dy, x, 1, 1)
	k.timesRows(x, c.y, each, n, s)
	k.sumAll(f.DW, x, n, s)
}
