package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// contexts computes the contexts of words on tensor cores, where they are used, instead of a product that writes them
// (contexts.cuh). For each pair and column only z and the gradient of the contexts are written.
type contexts struct {
	on     bool
	steps  int        // of 16 regions, of 8 in TF32
	packed driver.Ptr // regions of a tile, as operands
	alphas driver.Ptr // weights of a tile, as operands
	drows  driver.Ptr // sums of the groups of images of a tile
	small  bool       // see smallContexts
}

const (
	contextColumns = 1024 // of a block, at most
	contextRows    = 16   // of a tile of words; a block has one or two
	contextThreads = 512
	contextShared  = 4 * contextRows * contextColumns // bytes of the values of a tile of words
	contextBlocks  = 264                              // two rounds on a large GPU
)

// set decides by sizes and by the alignment of words: kernels read eight values at once.
func (c *contexts) set(d *dev, a *device.Similarities) {
	c.on = d.tensor != tensorNone && !a.Global && a.E <= contextColumns && a.E%8 == 0 && d.pointer(a.Rows)%16 == 0
	deep := 8 * d.tensor.each()
	c.steps = (a.R + deep - 1) / deep
	c.small = d.smallContexts()
}

// smallContexts reports whether a block has no room for the values of two tiles of words.
func (d *dev) smallContexts() bool { return 2*contextShared > d.info.MaxSharedBytesPerBlock }

// barContexts says why kernels of the other form are not started.
func (d *dev) barContexts() {
	for _, k := range [...]string{"", "_grad"} {
		for _, precision := range [...]string{"", "_tf32"} {
			if d.smallContexts() {
				d.bar("similarity_contexts"+k+precision, "its blocks need %d KB of shared memory, this GPU has %d",
					2*contextShared>>10, d.info.MaxSharedBytesPerBlock>>10)
			} else {
				d.bar("similarity_contexts"+k+"_small"+precision, "this GPU has the shared memory for larger blocks")
			}
		}
	}
}

// packedWords is the size of the operands of a tile in 32-bit words: 64 for 8 columns of a step of regions, 128 for 16
// words of captions. The sizes keep what follows at a multiple of 16 bytes.
func (s *similarities) packedWords(images, rows int) (regions, weights int) {
	if !s.contexts.on {
		return 0, 0
	}
	steps := images * s.contexts.steps
	return steps * contextColumns / 8 * 64, steps * ((rows + contextRows - 1) / contextRows) * 128
}

func (s *similarities) packedFloats() int {
	regions, weights := s.packedWords(s.tileI, s.tileR)
	return regions + weights
}

func (s *similarities) cutPacked(w *workspace) {
	regions, weights := s.packedWords(s.tileI, s.tileR)
	s.contexts.packed, s.contexts.alphas = w.cut(regions), w.cut(weights)
}

// packedGradFloats is the size for the gradient, which first sums dRows over groups of images.
func (s *similarities) packedGradFloats() int {
	if !s.contexts.on {
		return 0
	}
	groups, _ := s.groups(s.tileI, s.tileR, contextRows)
	return s.packedFloats() + (groups*s.tileR*s.a.E+3)&^3
}

func (s *similarities) cutPackedGrad(w *workspace) {
	s.cutPacked(w)
	s.contexts.drows = w.cut(s.packedGradFloats() - s.packedFloats())
}

// groups divides the images of a tile into groups, so that there are enough blocks of that many words; per is the
// number of images of a group.
func (s *similarities) groups(images, rows, words int) (count, per int) {
	count = max(1, min(images, contextBlocks/((rows+words-1)/words)))
	per = (images + count - 1) / count
	return (images + per - 1) / per, per
}

// words begins the call of a kernel over words, that many in a block, and the groups of images of a tile. It writes z.
func (s *similarities) words(d *dev, of string, t *similarityTile, words int) (c *command, groups, per int) {
	groups, per = s.groups(t.images, t.rows, words)
	shared := 2 * contextShared
	if s.contexts.small {
		shared = contextShared
	}
	return d.start(of, contextThreads, (t.rows+words-1)/words, groups, 1).shares(shared).
		ptr(either(s.half, s.squares16, s.squares)), groups, per
}

// pack packs the operands of a tile.
func (s *similarities) pack(d *dev, t *similarityTile) {
	a, c := &s.a, &s.contexts
	regions, weights := s.packedWords(t.images, t.rows)
	n := (regions + weights) / 4
	d.each("similarity_pack", n).ptr(c.packed, c.alphas, s.image(t), at(s.weights, s.weight(t))).long(a.B*a.R).
		int(t.rows, t.images, a.R, a.E, c.steps).long(n)
}

// packedSquares computes z of a tile.
func (s *similarities) packedSquares(d *dev, t *similarityTile) {
	s.pack(d, t)
	kernel, words := "similarity_contexts", 2*contextRows
	if s.contexts.small {
		kernel, words = "similarity_contexts_small", contextRows
	}
	c, _, per := s.words(d, kernel, t, words)
	c.ptr(s.contexts.alphas, s.contexts.packed, s.row(t)).int(t.rows, t.images, s.a.E, s.contexts.steps, per)
}

// packedSquaresGrad computes z of a tile from packed operands, replaces the gradient of z in slopes by the gradient of
// the contexts, and adds to dRows.
func (s *similarities) packedSquaresGrad(d *dev, t *similarityTile, slopes, dRows driver.Ptr) {
	of, kernel := &s.contexts, "similarity_contexts_grad"
	if of.small {
		kernel = "similarity_contexts_grad_small"
	}
	c, groups, per := s.words(d, kernel, t, contextRows)
	c.ptr(slopes, of.drows, of.alphas, of.packed, s.row(t)).int(t.rows, t.images, s.a.E, of.steps, per)
	n := t.rows * s.a.E
	d.sumSlices(dRows, of.drows, n, groups, n, t.i0 > 0)
}
