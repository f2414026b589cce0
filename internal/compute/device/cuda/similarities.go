package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// similarities computes the similarity vectors (device.Similarities) of a tile of images × rows; rows are words, or
// captions with Global. One batch of products makes the contexts of a tile, a product for each image; then one product
// and one kernel work on all its pairs.
type similarities struct {
	a        device.Similarities
	nodes    int        // of an image
	rows     int        // of an image
	node     driver.Ptr // of each row
	first    driver.Ptr // word of each caption
	captions int
	caption  driver.Ptr // of each node
	size     int        // values of an image

	images, weights, values, w, out, norms driver.Ptr
	filter                                 filterLayer
	tileI, tileR                           int        // images and rows of a tile
	squares, inner                         driver.Ptr // of a tile: z and W z

	// If products read bfloat16, as always after contexts in bfloat16: z or the gradient of the contexts, and the
	// gradient of W z.
	half                   bool
	squares16, innerGrad16 driver.Ptr

	contexts contexts
}

// halves is the number of float32 values that take as much memory as n bfloat16 values.
func halves(n int) int { return (n + 1) / 2 }

// either returns h if a product reads bfloat16, and f otherwise.
func either(half bool, h, f driver.Ptr) driver.Ptr {
	if half {
		return h
	}
	return f
}

// similarityTile is the part [i0, i0+images) × [r0, r0+rows) of all pairs; n counts them.
type similarityTile struct{ i0, images, r0, rows, n int }

func (d *dev) similarities(a device.Similarities) (s similarities) {
	l := d.layout(a.Lengths)
	s.a, s.nodes, s.rows, s.node, s.size = a, l.nodes, l.words, l.wordNode, a.R*a.E
	s.captions, s.caption, s.first = l.captions, l.nodeCaption, l.first
	if a.Global {
		s.rows, s.node, s.size = l.captions, l.captionNode, a.E
	} else {
		s.weights = d.pointer(a.Weights)
	}
	s.images, s.values = d.pointer(a.Images), d.pointer(a.Rows)
	s.w = d.pointer(a.W)
	s.contexts.set(d, &a)
	s.half = d.takesHalf(a.B*s.rows*a.E*a.S) || s.contexts.on && d.tensor == tensorBF16
	s.out, s.norms = d.pointer(a.Nodes), d.pointer(a.Norms)
	if a.Filter.Present() {
		s.filter.set(d, &a.Filter)
	}
	return s
}

// cut chooses the tiles; a pair takes the given number of floats. It returns the most pairs of a tile and the number of
// tiles.
func (s *similarities) cut(d *dev, floats int) (rows, count int) {
	s.tileR = d.tileOf(s.rows, 4*floats, 1)
	s.tileI = d.tileOf(s.a.B, 4*floats*s.tileR, s.tileR)
	over := func(n, tile int) int { return (n + tile - 1) / tile }
	return s.tileI * s.tileR, over(s.a.B, s.tileI) * over(s.rows, s.tileR)
}

// next moves on to the next tile, rows before images, and returns false after the last one.
func (s *similarities) next(t *similarityTile) bool {
	if t.r0 += t.rows; t.r0 == s.rows {
		t.r0 = 0
		t.i0 += t.images
	}
	if t.i0 == s.a.B {
		return false
	}
	t.images, t.rows = min(s.tileI, s.a.B-t.i0), min(s.tileR, s.rows-t.r0)
	t.n = t.images * t.rows
	return true
}

// Where the images, rows and attention weights of a tile begin, the nodes of its first image, and the norm of its first
// pair.
func (s *similarities) image(t *similarityTile) driver.Ptr { return at(s.images, t.i0*s.size) }
func (s *similarities) row(t *similarityTile) driver.Ptr   { return at(s.values, t.r0*s.a.E) }
func (s *similarities) weight(t *similarityTile) int       { return (t.r0*s.a.B + t.i0) * s.a.R }
func (s *similarities) firstNode(t *similarityTile) int    { return t.i0 * s.nodes * s.a.S }
func (s *similarities) firstNorm(t *similarityTile) driver.Ptr {
	return at(s.norms, t.i0*s.rows+t.r0)
}

// square computes the contexts of a tile into context, their norms if norm is not 0, and z.
func (s *similarities) square(d *dev, t *similarityTile, context, norm driver.Ptr) (x driver.Ptr) {
	a := &s.a
	if s.contexts.on {
		s.packedSquares(d, t)
		return 0
	}
	x = s.image(t)
	if !a.Global {
		d.multiply(&product{m: t.rows, n: a.E, k: a.R, alpha: 1, a: at(s.weights, s.weight(t)), lda: a.B * a.R, b: x,
			ldb: a.E, c: context, ldc: a.E, count: t.images, strideA: a.R, strideB: s.size, strideC: t.rows * a.E})
		x = context
	}
	d.warps("similarity_squares", t.n).ptr(s.squares, s.squares16, norm, x, s.row(t)).int(t.rows,
		a.E).flag(a.Global).long(t.n)
	return x
}

// squareFloats is the size of z of a pair: in float32 if contexts or products need that, and in bfloat16.
func (s *similarities) squareFloats() (single, half int) {
	if s.half {
		half = halves(s.a.E)
	}
	if !s.half || !s.contexts.on {
		single = s.a.E
	}
	return single, half
}

// cutSquares takes room for z of that many pairs.
func (s *similarities) cutSquares(w *workspace, pairs int) {
	single, half := s.squareFloats()
	if single > 0 {
		s.squares = w.cut(pairs * single)
	}
	if half > 0 {
		s.squares16 = w.cut(pairs * half)
	}
}

// transform computes W z of a tile.
func (s *similarities) transform(d *dev, t *similarityTile) {
	s.square(d, t, s.squares, 0)
	e, size := s.a.E, s.a.S
	d.multiply(&product{transB: true, m: t.n, n: size, k: e, alpha: 1, a: either(s.half, s.squares16, s.squares),
		halfA: s.half, lda: e, b: s.w, ldb: e, c: s.inner, ldc: size})
}

func (d *dev) Similarities(a device.Similarities) {
	s := d.similarities(a)
	bias := d.pointer(a.Bias)
	if s.rows == 0 {
		return
	}
	single, half := s.squareFloats()
	pair := single + half + a.S
	rows, _ := s.cut(d, pair)
	w := d.workspace(s.packedFloats() + rows*pair)
	s.cutPacked(&w)
	s.cutSquares(&w, rows)
	s.inner = w.cut(rows * a.S)
	for t := (similarityTile{}); s.next(&t); {
		s.transform(d, &t)
		d.warps("similarity_nodes", t.n).
			ptr(at(s.out, s.firstNode(&t)), s.firstNorm(&t), at(s.filter.logits, t.i0*s.nodes), s.inner, bias,
				s.filter.w, s.filter.bias, at(s.node, t.r0)).
			int(t.rows, s.rows, s.nodes, a.S).long(t.n)
	}
}

// SimilaritiesGrad recomputes the contexts and z.
func (d *dev) SimilaritiesGrad(a device.Similarities) {
	s := d.similarities(a)
	dImages, filtered := d.pointer(a.DImages), a.Filter.Present()
	dRows, dW, dBias := d.pointer(a.DRows), d.pointer(a.DW), d.pointer(a.DBias)
	var dNodes, dWeights driver.Ptr
	if filtered {
		s.filter.setGrad(d, &a.Filter)
	} else {
		dNodes = d.pointer(a.DNodes)
	}
	if !a.Global {
		dWeights = d.pointer(a.DWeights)
	}
	if s.rows == 0 {
		d.fill(dImages, 4*a.B*s.size, 0)
		d.fill(dW, 4*a.S*a.E, 0)
		d.fill(dBias, 4*a.S, 0)
		if filtered {
			d.fill(s.filter.dW, 4*a.S, 0)
		}
		return
	}
	single, half := s.squareFloats()
	z, inner, kinds := single+half, a.S, 1
	if filtered {
		kinds = 2
	}
	if s.half {
		inner = halves(a.S)
	}
	pair := z + inner
	if s.contexts.on {
		pair += z // its gradient, and then the gradient of the contexts
	} else {
		pair += a.E + 1 // contexts and their norms
	}
	rows, tiles := s.cut(d, pair)
	sums := nodeSums{kinds: kinds, cols: a.S}
	w := d.workspace(s.packedGradFloats() + rows*pair + sums.floats(tiles, rows))
	s.cutPackedGrad(&w)
	s.cutSquares(&w, rows)
	slopes, dContext := s.squares, either(s.half, s.squares16, s.squares)
	if s.contexts.on {
		slopes = w.cut(rows * z)
		dContext = slopes
	}
	innerGrad := w.cut(rows * inner)
	if s.half {
		s.innerGrad16 = innerGrad
	} else {
		s.inner = innerGrad
	}
	var context, norm driver.Ptr
	if !s.contexts.on {
		context, norm = w.cut(rows*a.E), w.cut(rows)
	}
	sums.cut(&w, tiles, rows)
	for t := (similarityTile{}); s.next(&t); {
		var x driver.Ptr
		if s.contexts.on {
			s.pack(d, &t)
		} else {
			x = s.square(d, &t, context, norm)
		}
		if part := sums.next(t.n); filtered {
			s.filteredGrad(d, &t, part)
		} else {
			d.start("similarity_nodes_grad", threads, nodeBlocks(t.n), 1, 1).
				ptr(s.inner, s.innerGrad16, part, at(s.out, s.firstNode(&t)), at(dNodes, s.firstNode(&t)),
					s.firstNorm(&t), at(s.node, t.r0)).int(t.rows, s.rows, s.nodes, a.S).long(t.n)
		}
		back := product{m: t.n, n: a.E, k: a.S, alpha: 1, a: innerGrad, halfA: s.half, lda: a.S, b: s.w, ldb: a.E,
			c: slopes, halfC: s.half && s.contexts.on, ldc: a.E}
		weights := product{transA: true, m: a.S, n: a.E, k: t.n, alpha: 1, beta: after(t.i0 + t.r0), a: innerGrad,
			lda: a.S, b: either(s.half, s.squares16, s.squares), ldb: a.E, c: dW, ldc: a.E, halfA: s.half,
			halfB: s.half}
		if s.contexts.on {
			d.multiply(&back)
			s.packedSquaresGrad(d, &t, slopes, at(dRows, t.r0*a.E))
			d.multiply(&weights)
		} else {
			d.multiply(&weights)
			d.multiply(&back) // slopes overwrites z in float32
		}
		to := at(dImages, t.i0*s.size)
		if a.Global {
			n := t.rows * a.E
			d.each("similarity_global_grad", n).ptr(s.squares, at(dRows, t.r0*a.E), x, s.row(&t)).int(t.images, a.E).
				flag(t.i0 > 0).long(n)
			d.each("similarity_images_grad", t.images*a.E).ptr(to, s.squares).int(t.rows,
				a.E).flag(t.r0 > 0).long(t.images * a.E)
			continue
		}
		if !s.contexts.on {
			d.rows("similarity_squares_grad", t.rows, a.E).ptr(s.squares, s.squares16, at(dRows, t.r0*a.E), x, norm,
				s.row(&t)).int(t.images, t.rows, a.E).flag(t.i0 > 0)
		}
		d.multiply(&product{transB: true, m: t.rows, n: a.R, k: a.E, alpha: 1, a: dContext, halfA: s.half, lda: a.E,
			b: s.image(&t), ldb: a.E, c: at(dWeights, s.weight(&t)), ldc: a.B * a.R, count: t.images,
			strideA: t.rows * a.E, strideB: s.size, strideC: a.R})
		d.multiply(&product{transA: true, m: a.R, n: a.E, k: t.rows, alpha: 1, beta: after(t.r0),
			a: at(s.weights, s.weight(&t)), lda: a.B * a.R, b: dContext, halfB: s.half, ldb: a.E, c: to, ldc: a.E,
			count: t.images, strideA: a.R, strideB: t.rows * a.E, strideC: s.size})
	}
	sums.finish(d, dBias, s.filter.dW)
}

// nodeRows is the number of rows of a block that computes the gradient of W z + Bias.
const nodeRows = 64

func nodeBlocks(rows int) int { return (rows + nodeRows - 1) / nodeRows }

// nodeSums are the parts of all blocks of the gradients of the bias and, with two kinds, of the filter.
type nodeSums struct {
	kinds, cols, blocks int
	part, pieces        driver.Ptr // [blocks, kinds, cols], and the sums of pieces of them
}

// floats is the workspace for tiles of that many rows.
func (s *nodeSums) floats(tiles, rows int) int {
	blocks := tiles * nodeBlocks(rows)
	return (blocks + (blocks+columnPiece-1)/columnPiece) * s.kinds * s.cols
}

func (s *nodeSums) cut(w *workspace, tiles, rows int) {
	s.part = w.cut(tiles * nodeBlocks(rows) * s.kinds * s.cols)
	s.pieces = w.next
}

// next returns where the blocks of the next rows write.
func (s *nodeSums) next(rows int) (part driver.Ptr) {
	part = at(s.part, s.blocks*s.kinds*s.cols)
	s.blocks += nodeBlocks(rows)
	return part
}

// finish writes the sums; filter is not used if there is one kind.
func (s *nodeSums) finish(d *dev, bias, filter driver.Ptr) {
	x, rows, cols := s.part, s.blocks, s.kinds*s.cols
	if pieces := (rows + columnPiece - 1) / columnPiece; pieces > 1 {
		d.columnPieces(s.pieces, 0, x, rows, cols, columnPiece)
		x, rows = s.pieces, pieces
	}
	d.columnTotal(bias, filter, x, rows, cols, s.cols, cols)
}

// after is beta of a product that adds to earlier results: 0 for the first one.
func after(done int) float64 {
	if done == 0 {
		return 0
	}
	return 1
}

// filterLayer is the layer of a filtration on similarity vectors (device.Filter); without a filter all addresses are 0.
type filterLayer struct {
	w, bias, logits             driver.Ptr
	weights, dSums, dLogits, dW driver.Ptr
}

func (f *filterLayer) set(d *dev, a *device.Filter) {
	f.w, f.bias, f.logits = d.pointer(a.W), d.pointer(a.Bias), d.pointer(a.Logits)
}

func (f *filterLayer) setGrad(d *dev, a *device.Filter) {
	f.weights, f.dLogits = d.pointer(a.Weights), d.pointer(a.DLogits)
	f.dSums, f.dW = d.pointer(a.DSums), d.pointer(a.DW)
}

// filteredGrad computes the gradient of W z of a tile from its factors; part gets the sums of its blocks for the bias
// and the filter.
func (s *similarities) filteredGrad(d *dev, t *similarityTile, part driver.Ptr) {
	f, node, size := &s.filter, t.i0*s.nodes, s.a.S
	d.start("similarity_filter_grad", threads, nodeBlocks(t.n), 1, 1).
		ptr(s.inner, s.innerGrad16, part, at(s.out, s.firstNode(t)), f.w, at(f.weights, node),
			at(f.dSums, t.i0*s.captions*size), at(f.dLogits, node), s.firstNorm(t)).
		ptr(at(s.node, t.r0), s.caption).int(s.captions, t.rows, s.rows, s.nodes, size).long(t.n)
}
