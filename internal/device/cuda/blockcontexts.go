package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelMatchPrepare        = entryOf("match_prepare")
	kernelMatchWordContexts   = entryOf("match_word_contexts")
	kernelMatchRegionContexts = entryOf("match_region_contexts")
)

// The sizes of blockmatch_sm80.cu.
const (
	matchContextWidth   = 64 // of a block of the vectors, at most, and a multiple of 8
	matchContextKeys    = 48 // regions of an image and words of a caption, at most
	matchContextGroup   = 4  // blocks of the vectors that a block works on
	matchContextItems   = 3  // images or captions of a block
	matchContextRows    = 32 // of a round of a block
	matchContextRounds  = 8  // of a block, at least
	matchContextBlocks  = 1024
	matchContextThreads = matchContextGroup * matchContextItems * 32
)

// takesContexts reports whether kernels on tensor cores take block cosines of these sizes.
func (d *dev) takesContexts(a *device.BlockMatchArgs, longest int) bool {
	width := a.E / a.Blocks
	return d.tensor == tensorBF16 && width%8 == 0 && width <= matchContextWidth && max(a.R, longest) <= matchContextKeys
}

// matchContexts computes BlockMatch with contexts that are made on tensor cores, of operands in bfloat16.
func (d *dev) matchContexts(a *device.BlockMatchArgs, c *captions) {
	t, all := c.rows, a.B*a.R
	halves := func(rows int) int { return (rows*a.E/2 + 3) &^ 3 } // floats; rows begin at multiples of 16 bytes
	norms := func(rows int) int { return (rows*a.Blocks + 3) &^ 3 }
	p := panel{d.need(scratchPanel, 4*(halves(t)+halves(all)+norms(t)+norms(all)))}
	words16, regions16 := p.take(halves(t)), p.take(halves(all))
	wordNorm, regionNorm := p.take(norms(t)), p.take(norms(all))
	words, regions := d.pointer(a.Words), d.pointer(a.Regions)
	prepare := func(half, norm, x driver.Ptr, rows int) {
		d.each(kernelMatchPrepare, 8*rows*a.Blocks).ptr(half, norm, x).int(rows, a.E, a.Blocks)
	}
	prepare(words16, wordNorm, words, t)
	prepare(regions16, regionNorm, regions, all)

	start := func(k kernel, rows, items int) (call *command, per int) {
		x, y := (a.Blocks+matchContextGroup-1)/matchContextGroup, (items+matchContextItems-1)/matchContextItems
		rounds := (rows + matchContextRows - 1) / matchContextRows
		parts := max(1, min(rounds/matchContextRounds, (matchContextBlocks+x*y-1)/(x*y)))
		per = (rounds + parts - 1) / parts
		return d.start(k, matchContextThreads, x, y, (rounds+per-1)/per), per
	}
	call, per := start(kernelMatchWordContexts, t, a.B)
	call.ptr(d.pointer(a.WordMatch), d.pointer(a.WordNorm), words16, regions16, wordNorm, regionNorm, words, regions,
		d.pointer(a.WordAttention)).int(t, a.B, a.R, a.E, a.Blocks, per)
	call, per = start(kernelMatchRegionContexts, all, c.n)
	call.ptr(d.pointer(a.RegionMatch), d.pointer(a.RegionNorm), regions16, words16, regionNorm, wordNorm, regions,
		words, d.pointer(a.RegionAttention), c.starts, c.squaresAt).int(all, c.n, a.R, a.E, a.Blocks, per)
}
