package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// blockMatch is a call of BlockMatch. As on the CPU, contexts are not formed. Images are taken in groups that fit into
// Limits.MatchBytes of scratch memory.
type blockMatch struct {
	a      device.BlockMatch
	c      captions
	t      int // words
	width  int // of a block
	all    int // regions
	tiles  int // 16 words each, of the longest caption
	per    int // images of a group
	image  int // first image of the group
	images int // of the group

	words, regions     driver.Ptr
	wordAtt, regionAtt driver.Ptr
	wordMatch, wordCtx driver.Ptr
	regMatch, regCtx   driver.Ptr
	wordNorm, regNorm  driver.Ptr // of the blocks themselves, in scratch memory
	capGrams, imgGrams driver.Ptr
	tile, z            driver.Ptr // of the group: [Blocks, T, columns], [images, T, Blocks, R]
	// the same in bfloat16 for products of the gradient; 0 if these read float32
	tile16, z16 driver.Ptr
}

const (
	matchTile    = 16
	itemRows     = 32  // of a block of block_grams and block_pull
	pullWidth    = 64  // columns of a block of block_pull
	matchRegions = 64  // of a block of match_regions
	gramBlocks   = 16  // of nodes, of a block of match_gram_grad
	gramColumns  = 256 // of a part of its sums, at least
	gramParts    = 16  // at most
)

// beginMatch computes norms and Gram matrices of the blocks. For a gradient, the workspace has as much room again.
func (d *dev) beginMatch(a device.BlockMatch, c *captions, grad bool) (*blockMatch, workspace) {
	m := &d.match
	*m = blockMatch{a: a, c: *c, width: a.E / a.Blocks, all: a.B * a.R}
	m.t, m.tiles = m.c.rows, (max(m.c.longest, 1)+matchTile-1)/matchTile
	m.words, m.regions = d.pointer(a.Words), d.pointer(a.Regions)
	m.wordAtt, m.regionAtt = d.pointer(a.WordAttention), d.pointer(a.RegionAttention)
	m.wordMatch, m.wordCtx = d.pointer(a.WordMatch), d.pointer(a.WordNorm)
	m.regMatch, m.regCtx = d.pointer(a.RegionMatch), d.pointer(a.RegionNorm)

	image := 4 * a.Blocks * (2*m.t*a.R + 3*(m.t+m.c.n*a.R)) // bytes of a group for each image
	half := grad && d.takesHalf(m.t*m.all*a.E)
	if half {
		image += 2 * a.Blocks * 2 * m.t * a.R
	}
	most := max(1, d.limits.MatchBytes/image)
	groups := (a.B + most - 1) / most
	m.per = (a.B + groups - 1) / groups
	products, bytes := a.Blocks*m.t*m.per*a.R, 4
	if half {
		bytes = 6
	}
	m.tile, m.z = d.need(scratchHidden, bytes*products), d.need(scratchCarry, bytes*products)
	if half {
		m.tile16, m.z16 = at(m.tile, products), at(m.z, products)
	}
	capGrams, imgGrams := m.c.squares*a.Blocks, a.B*a.Blocks*a.R*a.R
	floats := (m.t+m.all)*a.Blocks + capGrams + imgGrams
	if grad {
		floats *= 2
	}
	w := d.workspace(floats)
	m.wordNorm, m.regNorm, m.capGrams, m.imgGrams = w.cut(m.t*a.Blocks), w.cut(m.all*a.Blocks), w.cut(capGrams),
		w.cut(imgGrams)
	tiles := rowTiles(m.c.longest)
	d.start("block_grams", threads, m.c.n, a.Blocks, tiles*tiles).ptr(m.capGrams, m.wordNorm, m.words,
		m.c.starts, m.c.squaresAt).int(0, a.E, tiles)
	m.c.clear(d, m.wordNorm, a.Blocks)
	tiles = rowTiles(a.R)
	d.start("block_grams", threads, a.B, a.Blocks, tiles*tiles).ptr(m.imgGrams, m.regNorm, m.regions, 0, 0).int(a.R,
		a.E, tiles)
	return m, w
}

// columns are the regions of the group.
func (m *blockMatch) columns() int { return m.images * m.a.R }

// ofGroup returns the address of the group's first region in a row of attention.
func (m *blockMatch) ofGroup(attention driver.Ptr) driver.Ptr { return at(attention, m.image*m.a.R) }

// multiplyGroup computes A^b = W^b V^bᵀ and, exactly, Z^b = β G^b for the images of a group.
func (d *dev) multiplyGroup(m *blockMatch) {
	a := &m.a
	m.images = min(m.per, a.B-m.image)
	d.multiply(&product{transB: true, m: m.t, n: m.columns(), k: m.width, alpha: 1, a: m.words, lda: a.E,
		strideA: m.width, b: at(m.regions, m.image*a.R*a.E), ldb: a.E, strideB: m.width, c: m.tile, ldc: m.columns(),
		strideC: m.t * m.columns(), count: a.Blocks})
	wide := a.Blocks * a.R
	d.multiply(&product{m: m.t, n: wide, k: a.R, alpha: 1, a: m.ofGroup(m.wordAtt), lda: m.all, strideA: a.R,
		b: at(m.imgGrams, m.image*wide*a.R), ldb: wide, strideB: wide * a.R, c: m.z, ldc: wide, strideC: m.t * wide,
		count: m.images, exact: true})
}

func (d *dev) BlockMatch(a device.BlockMatch) {
	c := d.captions(a.Lengths)
	if d.takesContexts(&a, c.longest) {
		d.matchContexts(&a, &c)
		return
	}
	m, _ := d.beginMatch(a, &c, false)
	for ; m.image < a.B; m.image += m.per {
		d.multiplyGroup(m)
		d.start("match_regions", threads, (m.columns()+matchRegions-1)/matchRegions, m.c.n, 1).ptr(m.regMatch,
			m.regCtx, m.tile, m.regionAtt, m.words, m.regions, m.capGrams, m.wordNorm, m.regNorm,
			m.c.starts, m.c.squaresAt).int(m.t, m.all, m.image, m.columns(), a.R, a.E, a.Blocks)
		d.start("match_words", threads, min(1<<16, (m.images*m.t*a.Blocks+31)/32), 1, 1).ptr(m.wordMatch, m.wordCtx,
			m.tile, m.z, m.wordAtt, m.words, m.regions, m.wordNorm, m.regNorm).
			int(m.t, m.all, m.image, m.images, a.R, a.E, a.Blocks)
	}
}

func (d *dev) BlockMatchGrad(a device.BlockMatch) {
	c := d.captions(a.Lengths)
	m, w := d.beginMatch(a, &c, true)
	wordSlopes, regionSlopes := m.t*a.Blocks, m.c.n*a.R*a.Blocks // of an image
	dWordMatch, dRegMatch := d.pointer(a.DWordMatch), d.pointer(a.DRegionMatch)
	dWords, dRegions := d.pointer(a.DWords), d.pointer(a.DRegions)
	dWordAtt, dRegAtt := d.pointer(a.DWordAttention), d.pointer(a.DRegionAttention)
	grams := m.c.squares * a.Blocks
	dCapGrams, dImgGrams := w.cut(grams), w.cut(a.B*a.Blocks*a.R*a.R)
	wordPull, regPull := w.cut(m.t*a.Blocks), w.cut(m.all*a.Blocks)
	parts := max(1, min(gramParts, m.per*a.R/gramColumns))
	slopes := workspace{d.need(scratchSums, 4*(3*m.per*(wordSlopes+regionSlopes)+parts*grams))}
	gramPart := slopes.cut(parts * grams)
	var word, region [3]driver.Ptr // dot, square and pull
	for i := range word {
		word[i], region[i] = slopes.cut(m.per*wordSlopes), slopes.cut(m.per*regionSlopes)
	}
	for ; m.image < a.B; m.image += m.per {
		d.multiplyGroup(m)
		later, columns := m.image > 0, m.columns()
		first := m.image * wordSlopes
		m.slopes(d, word, at(dWordMatch, first), at(m.wordMatch, first), at(m.wordCtx, first), m.wordNorm,
			wordSlopes, wordSlopes, 0)
		first = m.image * regionSlopes
		m.slopes(d, region, at(dRegMatch, first), at(m.regMatch, first), at(m.regCtx, first),
			at(m.regNorm, m.image*a.R*a.Blocks), regionSlopes, a.R*a.Blocks, a.R*a.Blocks)
		d.sumSlices(wordPull, word[2], wordSlopes, m.images, wordSlopes, later)
		d.sumSlices(at(regPull, m.image*a.R*a.Blocks), region[2], a.R*a.Blocks, m.c.n, columns*a.Blocks, false)
		d.start("match_pairs_grad", threads, m.t, (columns+threads-1)/threads, 1).ptr(dWordAtt, dRegAtt, m.tile, m.z,
			m.tile16, m.z16, m.regionAtt, m.wordAtt, m.capGrams, word[0], word[1], region[0], region[1],
			m.c.of, m.c.starts, m.c.squaresAt).int(m.c.n, m.all, m.image, columns, a.R, a.Blocks)
		d.start("match_gram_grad", threads, m.c.n, (a.Blocks+gramBlocks-1)/gramBlocks, parts*m.tiles*m.tiles).
			ptr(gramPart, m.regionAtt, region[1], m.c.starts, m.c.squaresAt).
			int(m.all, m.image, columns, a.R, a.Blocks, m.tiles, parts).long(grams)
		d.sumSlices(dCapGrams, gramPart, grams, parts, grams, later)
		half := m.tile16 != 0
		dA := either(half, m.tile16, m.tile)
		wide := a.Blocks * a.R
		d.multiply(&product{transA: true, m: a.R, n: wide, k: m.t, alpha: 1, a: m.ofGroup(m.wordAtt), lda: m.all,
			strideA: a.R, b: either(half, m.z16, m.z), halfB: half, ldb: wide, strideB: m.t * wide,
			c: at(dImgGrams, m.image*wide*a.R), ldc: wide, strideC: wide * a.R, count: m.images})
		d.multiply(&product{transA: true, m: columns, n: m.width, k: m.t, alpha: 1, a: dA, halfA: half, lda: columns,
			strideA: m.t * columns, b: m.words, ldb: a.E, strideB: m.width,
			c: at(dRegions, m.image*a.R*a.E), ldc: a.E, strideC: m.width, count: a.Blocks})
		d.multiply(&product{m: m.t, n: m.width, k: columns, alpha: 1, beta: after(m.image), a: dA, halfA: half,
			lda: columns, strideA: m.t * columns, b: at(m.regions, m.image*a.R*a.E), ldb: a.E, strideB: m.width,
			c: dWords, ldc: a.E, strideC: m.width, count: a.Blocks})
	}
	m.pull(d, dWords, m.words, wordPull, dCapGrams, m.c.n, rowTiles(m.c.longest)).ptr(m.c.starts, m.c.squaresAt).
		int(0, a.E, rowTiles(m.c.longest))
	m.pull(d, dRegions, m.regions, regPull, dImgGrams, a.B, rowTiles(a.R)).ptr(0, 0).int(a.R, a.E, rowTiles(a.R))
}

// rowTiles is the number of tiles of an item of at most longest rows.
func rowTiles(longest int) int { return (max(longest, 1) + itemRows - 1) / itemRows }

// pull begins a call of block_pull.
func (m *blockMatch) pull(d *dev, out, x, pull, grams driver.Ptr, items, tiles int) *command {
	return d.start("block_pull", threads, items*tiles, m.a.Blocks, (m.width+pullWidth-1)/pullWidth).
		ptr(out, x, pull, grams)
}

// slopes computes dot, square and pull of the nodes of a group; per is the number of nodes of an image.
func (m *blockMatch) slopes(d *dev, to [3]driver.Ptr, dMatch, match, context, norm driver.Ptr, per, inner, step int) {
	n := m.images * per
	fours := n < 1<<31 && inFours(m.a.Blocks, to[0], to[1], to[2], dMatch, match, context, norm)
	d.each("match_slopes", countOf(n, fours)).ptr(to[0], to[1], to[2], dMatch, match, context, norm).
		long(n, per, inner, step).flag(fours)
}
