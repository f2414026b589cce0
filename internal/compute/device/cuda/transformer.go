package cuda

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// embedRows returns the captions and a table of the words of all rows.
func (d *dev) embedRows(what string, a *device.Embed) (captions, driver.Ptr) {
	c := d.captions(a.Lengths)
	return c, d.captionWords(what, &c, a.Words, a.Lengths, a.L, a.V)
}

func (d *dev) Embed(a device.Embed) {
	c, rows := d.embedRows("Embed", &a)
	d.wide("embed", c.rows, a.D).of(a.Out, a.Word, a.Position, a.Type).ptr(rows, c.of, c.starts).int(a.D)
}

func (d *dev) EmbedGrad(a device.Embed) {
	c, rows := d.embedRows("EmbedGrad", &a)
	out := d.pointer(a.Out)
	if word := d.pointer(a.Word); word != 0 {
		d.sumWords(word, out, rows, c.rows, a.V, a.D)
	}
	if position := d.pointer(a.Position); position != 0 {
		d.wide("embed_positions", a.P, a.D).ptr(position, out, c.lengths, c.starts).int(c.n, a.D)
	}
	if kind := d.pointer(a.Type); kind != 0 {
		d.columnSums(kind, 0, out, c.rows, a.D)
		d.fill(at(kind, a.D), 4*(a.K-1)*a.D, 0)
	}
}

func (d *dev) LayerNorm(a device.LayerNorm) {
	n, drop := a.N*a.D, d.drops(a.Drop)
	x, y, branch, sum := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.Branch), d.pointer(a.Sum)
	mean, inv := d.pointer(a.Mean), d.pointer(a.InvStd)
	weight, bias := d.pointer(a.Weight), d.pointer(a.Bias)
	if a.N > 0 {
		copy := d.operandCopy(y, n)
		d.start("layer_norm", 32*normWarps, (a.N+normWarps-1)/normWarps, 1, 1).
			ptr(y, copy, sum, mean, inv, x, branch, weight, bias).drops(&drop).int(a.N, a.D).float(a.Eps).
			flag(inFours(a.D, y, sum, x, branch, weight, bias, 2*copy))
		d.fresh(copy, y, n)
	}
}

// Rows of a block of LayerNorm, a warp for each; rows of a block of LayerNormGrad and its most threads.
const (
	normWarps   = 4
	normRows    = 8
	normThreads = 192
)

// LayerNormGrad sums the gradients of parameters over blocks with one kernel if weight and bias are side by side.
func (d *dev) LayerNormGrad(a device.LayerNorm) {
	n, drop := a.N*a.D, d.drops(a.Drop)
	s := d.pointer(a.Sum)
	if s == 0 {
		s = d.pointer(a.X)
	}
	mean, inv := d.pointer(a.Mean), d.pointer(a.InvStd)
	weight, dy := d.pointer(a.Weight), d.pointer(a.DY)
	dx, dBranch := d.pointer(a.DX), d.pointer(a.DBranch)
	sums := [3]driver.Ptr{d.pointer(a.DWeight), d.pointer(a.DBias), d.pointer(a.DBranchBias)}
	blocks, part := (a.N+normRows-1)/normRows, driver.Ptr(0)
	if sums != [3]driver.Ptr{} {
		part = d.need(scratchSums, 4*max(1, blocks*3*a.D))
	}
	if a.N > 0 {
		copy := d.operandCopy(dBranch, n)
		aligned := inFours(a.D, dx, dBranch, s, weight, dy, 2*copy)
		d.start("layer_norm_grad", min(normThreads, (countOf(a.D, aligned)+31)/32*32), blocks, 1, 1).
			ptr(dx, values(dBranch, copy, a.Operand), copy, part, s, mean, inv, weight, dy).drops(&drop).
			int(a.N, a.D).flag(aligned)
		d.stored(copy, dBranch, n, a.Operand)
	}
	if sums[0] != 0 && sums[1] == at(sums[0], a.D) {
		cols := 2 * a.D
		if sums[2] != 0 {
			cols += a.D
		}
		d.columnTotal(sums[0], sums[2], part, blocks, cols, 2*a.D, 3*a.D)
		d.wrote(sums[1]) // through the address of the first
		return
	}
	for i, sum := range sums {
		if sum != 0 {
			d.columnTotal(sum, 0, at(part, i*a.D), blocks, a.D, a.D, 3*a.D)
		}
	}
}

const (
	selfTile = 16        // rows of a block of self-attention
	selfRows = 64        // of a caption, at most, for kernels on tensor cores
	gridRows = 1<<16 - 1 // rows of blocks, at most
)

// heads is a checked call of self-attention.
type heads struct {
	a                        device.SelfAttention
	c                        captions
	words, query, key, value driver.Ptr
	drop                     drops
	factor                   float64
	most                     int // weights that exist at once
}

func (d *dev) heads(a device.SelfAttention) heads {
	h := heads{a: a, drop: d.drops(a.Drop), factor: 1 / math.Sqrt(float64(a.D/a.Heads)), most: d.limits.SelfWeights}
	h.words, h.c = d.pointer(a.Words.View), d.captions(a.Lengths)
	h.query, h.key, h.value = d.pointer(a.Query), d.pointer(a.Key), d.pointer(a.Value)
	return h
}

// whole reports whether kernels on tensor cores compute it, with a block for each head of a caption (selfheads.cuh).
// Bounds of lengths are multiples of 8, so recorded and unrecorded steps decide alike.
func (h *heads) whole(d *dev) bool {
	return d.tensor == tensorBF16 && h.a.D/h.a.Heads%16 == 0 && h.c.longest <= selfRows && h.c.n < gridRows
}

// start begins the call of a kernel on tensor cores, whose blocks have that many matrices of weights in shared memory.
func (h *heads) start(d *dev, k string, matrices int) (c *command, clear int) {
	blocks, tall := h.c.n, (h.c.longest+15)/16*16
	if h.a.Lengths.Bounded {
		blocks, clear = blocks+1, h.c.rows
	}
	c = d.start(k, threads/2, h.a.Heads, blocks, 1)
	c.launch.Shared = uint32(matrices * 4 * tall * (tall + 4))
	return c, clear
}

// part returns the end of the captions from first on whose weights exist at once, and the number of their weights.
func (h *heads) part(first int) (end, cells int) {
	for end = first; end < h.c.n; end++ {
		n := int(h.a.Lengths.Host[end])
		if h.a.Lengths.Bounded {
			n = h.c.longest
		}
		if end > first && cells+h.a.Heads*n*n > h.most {
			break
		}
		cells += h.a.Heads * n * n
	}
	return end, min(cells, h.a.Heads*h.c.squares)
}

// attend begins the call of a kernel for the captions [first, end). If lengths are bounded, the call for the last
// caption also zeroes the rows after it, up to clear; otherwise clear is 0.
func (d *dev) attend(k string, h *heads, first, end int) (c *command, clear int) {
	if h.a.Lengths.Bounded && end == h.c.n {
		end, clear = end+1, h.c.rows
	}
	return d.start(k, threads, end-first, h.a.Heads, h.tiles()), clear
}

// tiles is the number of blocks of the rows of a caption.
func (h *heads) tiles() int { return (h.c.longest + selfTile - 1) / selfTile }

func (d *dev) SelfAttention(a device.SelfAttention) {
	h := d.heads(a)
	n := h.c.rows * a.D
	context := d.pointer(a.Context)
	copy := d.operandCopy(context, n)
	if h.whole(d) {
		c, clear := h.start(d, "self_attention_heads", 1)
		c.ptr(values(context, copy, a.Operand), copy, h.query, h.key, h.value, h.words, h.c.order,
			h.c.lengths, h.c.starts).
			drops(&h.drop).float(h.factor).int(a.L, a.D, h.a.LD, clear).
			flag(inFours(a.D, context, h.query, h.key, h.value, at(0, h.a.LD), 2*copy))
		d.stored(copy, context, n, a.Operand)
		return
	}
	for first := 0; first < h.c.n; {
		end, cells := h.part(first)
		weights := d.need(scratchHidden, 4*cells)
		c, clear := d.attend("self_attention", &h, first, end)
		c.ptr(values(context, copy, a.Operand), copy, weights, h.query, h.key, h.value, h.words, h.c.lengths,
			h.c.starts, h.c.squaresAt).drops(&h.drop).float(h.factor).int(first, a.L, a.D, h.a.LD, clear)
		first = end
	}
	d.stored(copy, context, n, a.Operand)
}

func (d *dev) SelfAttentionGrad(a device.SelfAttention) {
	h := d.heads(a)
	n := a.DQuery.N
	dContext, dQuery := d.pointer(a.DContext), d.pointer(a.DQuery)
	dKey, dValue := d.pointer(a.DKey), d.pointer(a.DValue)
	// The three gradients are side by side, or separate.
	var copies [3]driver.Ptr
	grads, together := [3]driver.Ptr{dQuery, dKey, dValue}, h.a.LD == 3*a.D && dKey == at(dQuery, a.D) &&
		dValue == at(dQuery, 2*a.D)
	for i, x := range grads {
		switch {
		case h.a.LD == a.D:
			copies[i] = d.operandCopy(x, n)
		case together && i == 0:
			copies[0] = d.operandCopy(x, h.c.rows*h.a.LD)
		case together && copies[0] != 0:
			copies[i] = copies[0] + driver.Ptr(2*i*a.D)
		}
	}
	var to [3]driver.Ptr
	for i, x := range grads {
		to[i] = values(x, copies[i], a.Operand)
	}
	dBias, parts, sums := d.pointer(a.DBias), h.c.n*h.tiles(), driver.Ptr(0)
	whole := h.whole(d)
	if whole {
		parts = h.c.n
	}
	if dBias != 0 {
		sums = d.need(scratchSums, max(1, 4*parts*3*a.D))
	}
	if whole {
		c, clear := h.start(d, "self_attention_heads_grad", 2)
		c.ptr(to[0], to[1], to[2], copies[0], copies[1], copies[2], sums, dContext, h.query, h.key, h.value, h.words,
			h.c.order, h.c.lengths, h.c.starts).drops(&h.drop).float(h.factor).int(a.L, a.D, h.a.LD, clear).
			flag(inFours(a.D, dContext, h.query, h.key, h.value, dQuery, dKey, dValue, at(0, h.a.LD), 2*copies[0],
				2*copies[1], 2*copies[2]))
	}
	for first := 0; first < h.c.n && !whole; {
		end, cells := h.part(first)
		weights, slopes := d.need(scratchHidden, 4*cells), d.need(scratchCarry, 4*cells)
		c, clear := d.attend("self_attention_rows", &h, first, end)
		c.ptr(to[0], copies[0], sums, weights, slopes, dContext, h.query, h.key, h.value, h.words, h.c.lengths,
			h.c.starts, h.c.squaresAt).drops(&h.drop).float(h.factor).int(first, a.L, a.D, h.a.LD, clear)
		c, _ = d.attend("self_attention_columns", &h, first, end)
		c.ptr(to[1], to[2], copies[1], copies[2], sums, weights, slopes, dContext, h.query, h.c.lengths, h.c.starts,
			h.c.squaresAt).int(first, a.D, h.a.LD, clear)
		first = end
	}
	if together {
		d.stored(copies[0], dQuery, h.c.rows*h.a.LD, a.Operand)
	} else {
		for i, x := range grads {
			d.stored(copies[i], x, n, a.Operand)
		}
	}
	if dBias != 0 {
		d.columnTotal(dBias, 0, sums, parts, 3*a.D, 3*a.D, 3*a.D)
	}
}
