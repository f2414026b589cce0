package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// The sizes of blockcontexts.cuh.
const (
	matchContextWidth  = 64 // of a block of the vectors, at most, and a multiple of 8
	matchContextKeys   = 48 // regions of an image and words of a caption, at most
	matchContextGroup  = 4  // blocks of the vectors that a block works on
	matchContextRows   = 32 // of a round of a block
	matchContextRounds = 8  // of a block, at least
	matchContextBlocks = 1024
)

// matchContextItems is the number of images or captions of a block.
func (t tensor) matchContextItems() int { return t.each() + 1 }

// takesContexts reports whether kernels on tensor cores support these sizes. They read eight values at once; in
// bfloat16 these are always aligned.
func (d *dev) takesContexts(a *device.BlockMatch, longest int) bool {
	width := a.E / a.Blocks
	return d.tensor != tensorNone && width%8 == 0 && width <= matchContextWidth &&
		max(a.R, longest) <= matchContextKeys &&
		(d.tensor == tensorBF16 || inFours(a.E, d.pointer(a.Words), d.pointer(a.Regions)))
}

// matchContexts computes BlockMatch with contexts from tensor cores. Their operands are bfloat16, which match_prepare
// writes, or float32 values that the kernel rounds to TF32.
func (d *dev) matchContexts(a *device.BlockMatch, c *captions) {
	t, all, half := c.rows, a.B*a.R, d.tensor == tensorBF16
	halves := func(rows int) int { // floats; rows begin at multiples of 16 bytes
		if !half {
			return 0
		}
		return (rows*a.E/2 + 3) &^ 3
	}
	norms := func(rows int) int { return (rows*a.Blocks + 3) &^ 3 }
	w := d.workspace(halves(t) + halves(all) + norms(t) + norms(all))
	words16, regions16 := w.cut(halves(t)), w.cut(halves(all))
	wordNorm, regionNorm := w.cut(norms(t)), w.cut(norms(all))
	words, regions := d.pointer(a.Words), d.pointer(a.Regions)
	prepare := func(to, norm, x driver.Ptr, rows int) {
		call := d.each("match_prepare", 8*rows*a.Blocks)
		if half {
			call.ptr(to)
		}
		call.ptr(norm, x).int(rows, a.E, a.Blocks)
	}
	prepare(words16, wordNorm, words, t)
	prepare(regions16, regionNorm, regions, all)

	group := d.tensor.matchContextItems()
	start := func(k string, match, context, row16, key16 driver.Ptr, rows, items int) (call *command, per int) {
		x, y := (a.Blocks+matchContextGroup-1)/matchContextGroup, (items+group-1)/group
		rounds := (rows + matchContextRows - 1) / matchContextRows
		parts := max(1, min(rounds/matchContextRounds, (matchContextBlocks+x*y-1)/(x*y)))
		per = (rounds + parts - 1) / parts
		call = d.start(k, matchContextGroup*group*32, x, y, (rounds+per-1)/per).ptr(match, context)
		if half {
			call.ptr(row16, key16)
		}
		return call, per
	}
	call, per := start("match_word_contexts", d.pointer(a.WordMatch), d.pointer(a.WordNorm), words16, regions16,
		t, a.B)
	call.ptr(wordNorm, regionNorm, words, regions, d.pointer(a.WordAttention)).int(t, a.B, a.R, a.E, a.Blocks, per)
	call, per = start("match_region_contexts", d.pointer(a.RegionMatch), d.pointer(a.RegionNorm), regions16, words16,
		all, c.n)
	call.ptr(regionNorm, wordNorm, regions, words, d.pointer(a.RegionAttention), c.starts, c.squaresAt).
		int(all, c.n, a.R, a.E, a.Blocks, per)
}
