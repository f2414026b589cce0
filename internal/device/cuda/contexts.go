package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelSimilarityPack         = entryOf("similarity_pack")
	kernelSimilarityContexts     = entryOf("similarity_contexts")
	kernelSimilarityContextsGrad = entryOf("similarity_contexts_grad")
)

// contexts make the contexts of words where they are needed, on tensor cores, in place of a product that writes them
// (similarities_sm80.cu): z and the gradient of the contexts are all that is written of a pair and a column.
type contexts struct {
	on     bool
	steps  int        // of 16 regions
	packed driver.Ptr // regions of the images of a tile of pairs
	drows  driver.Ptr // sums of the groups of images of a tile of pairs
}

const (
	contextColumns = 1024 // of a block, at most
	contextRows    = 16   // of a block
	contextThreads = 512
	contextBlocks  = 264 // from which a launch keeps a large GPU busy
)

// set decides by the sizes and by where words lie: eight values are read at once.
func (c *contexts) set(d *dev, a *device.SimilarityArgs) {
	c.on = d.tensor && !a.Global && a.E <= contextColumns && a.E%8 == 0 && d.pointer(a.Rows)%16 == 0
	c.steps = (a.R + 15) / 16
}

// packedFloats is the workspace of the regions: 8 columns of 16 regions are 64 words. What lies behind it begins at a
// multiple of 16 bytes.
func (s *similarities) packedFloats() int {
	if !s.contexts.on {
		return 0
	}
	return s.tileI * s.contexts.steps * contextColumns / 8 * 64
}

func (s *similarities) cutPacked(w *workspace) { s.contexts.packed = w.cut(s.packedFloats()) }

// packedGradFloats is that of the gradient, which sums dRows over groups of images first.
func (s *similarities) packedGradFloats() int {
	if !s.contexts.on {
		return 0
	}
	groups, _ := s.groups(s.tileI, s.tileR)
	return s.packedFloats() + (groups*s.tileR*s.a.E+3)&^3
}

func (s *similarities) cutPackedGrad(w *workspace) {
	s.cutPacked(w)
	s.contexts.drows = w.cut(s.packedGradFloats() - s.packedFloats())
}

// groups divides the images of a tile so that there are blocks enough; per is the number of images of a group.
func (s *similarities) groups(images, rows int) (count, per int) {
	blocks := (rows + contextRows - 1) / contextRows
	count = min(images, (contextBlocks+blocks-1)/blocks)
	per = (images + count - 1) / count
	return (images + per - 1) / per, per
}

// packedSquares computes z of a tile.
func (s *similarities) packedSquares(d *dev, t *similarityTile) {
	a, c := &s.a, &s.contexts
	n := t.images * c.steps * contextColumns / 8 * 32
	d.each(kernelSimilarityPack, n).ptr(c.packed, s.image(t)).int(t.images, a.R, a.E, c.steps).long(n)
	groups, per := s.groups(t.images, t.rows)
	d.start(kernelSimilarityContexts, contextThreads, (t.rows+contextRows-1)/contextRows, groups, 1).
		ptr(s.squares, s.squares16, at(s.weights, s.weight(t)), c.packed, s.row(t)).long(a.B*a.R).
		int(t.rows, t.images, a.R, a.E, c.steps, per)
}

// packedSquaresGrad computes the gradient of the contexts of a tile, whose regions are packed, and adds to dRows.
func (s *similarities) packedSquaresGrad(d *dev, t *similarityTile, dRows driver.Ptr) {
	a, c := &s.a, &s.contexts
	groups, per := s.groups(t.images, t.rows)
	d.start(kernelSimilarityContextsGrad, contextThreads, (t.rows+contextRows-1)/contextRows, groups, 1).
		ptr(s.squares, s.squares16, c.drows, s.squares, at(s.weights, s.weight(t)), c.packed, s.row(t)).long(a.B*a.R).
		int(t.rows, t.images, a.R, a.E, c.steps, per)
	n := t.rows * a.E
	d.sumSlices(dRows, c.drows, n, groups, n, t.i0 > 0)
}
