package cuda

import (
	"fmt"
	"math"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelEmbed           = entryOf("embed")
	kernelEmbedPositions  = entryOf("embed_positions")
	kernelLayerNorm       = entryOf("layer_norm")
	kernelLayerNormGrad   = entryOf("layer_norm_grad")
	kernelLayerNormParams = entryOf("layer_norm_params")
	kernelSelfAttention   = entryOf("self_attention")
	kernelSelfRows        = entryOf("self_attention_rows")
	kernelSelfColumns     = entryOf("self_attention_columns")
)

// embedRows checks the captions of an embedding and lists the word of every row.
func (d *dev) embedRows(what string, a device.EmbedArgs) (captions, driver.Ptr) {
	positive(what, a.L, a.V, a.P, a.K, a.D)
	c := d.captions(what, a.Lengths, min(a.L, a.P))
	return c, d.captionWords(what, &c, a.Words, a.Lengths, a.L, a.V)
}

// Embed implements device.Transformer.
func (d *dev) Embed(a device.EmbedArgs) {
	c, rows := d.embedRows("Embed", a)
	word, position := d.floats("Embed Word", a.Word, a.V*a.D), d.floats("Embed Position", a.Position, a.P*a.D)
	kind, out := d.floats("Embed Type", a.Type, a.K*a.D), d.floats("Embed Out", a.Out, c.rows*a.D)
	if c.rows > 0 {
		d.wide(kernelEmbed, c.rows, a.D).ptr(out, word, position, kind, rows, c.of, c.starts).int(a.D)
	}
}

// EmbedGrad implements device.Transformer.
func (d *dev) EmbedGrad(a device.EmbedArgs) {
	c, rows := d.embedRows("EmbedGrad", a)
	out := d.floats("EmbedGrad Out", a.Out, c.rows*a.D)
	if word := d.optional("EmbedGrad Word", a.Word, a.V*a.D); word != 0 {
		d.sumWords(word, out, rows, c.rows, a.V, a.D)
	}
	if position := d.optional("EmbedGrad Position", a.Position, a.P*a.D); position != 0 {
		d.wide(kernelEmbedPositions, a.P, a.D).ptr(position, out, c.lengths, c.starts).int(c.n, a.D)
	}
	if kind := d.optional("EmbedGrad Type", a.Type, a.K*a.D); kind != 0 {
		d.columnSum(kind, out, c.rows, a.D, a.D)
		d.fill(at(kind, a.D), 4*(a.K-1)*a.D, 0)
	}
}

// drops are the parameters of dropout inside a kernel: factor 0 keeps everything.
type drops struct {
	step             driver.Ptr
	key0, key1, less uint32
	factor           float64
}

func (d *dev) drops(what string, a device.Drops) drops {
	if !(a.Rate >= 0 && a.Rate < 1) {
		panic(fmt.Sprintf("cuda: %s: dropout rate %v, expected one in [0, 1)", what, a.Rate))
	}
	if a.Rate == 0 {
		return drops{}
	}
	return drops{d.ints("Drops Step", a.Step.View, 2), a.Key.K0, a.Key.K1, uint32(a.Rate * (1 << 32)), 1 / (1 - a.Rate)}
}

// LayerNorm implements device.Transformer.
func (d *dev) LayerNorm(a device.LayerNormArgs) {
	const what = "LayerNorm"
	positive(what, a.D)
	n, drop := a.N*a.D, d.drops(what, a.Drop)
	x, y, branch, sum := d.floats("LayerNorm X", a.X, n), d.floats("LayerNorm Y", a.Y, n), d.optional("LayerNorm Branch", a.Branch, n), d.optional("LayerNorm Sum", a.Sum, n)
	mean, inv := d.floats("LayerNorm Mean", a.Mean, a.N), d.floats("LayerNorm InvStd", a.InvStd, a.N)
	weight, bias := d.floats("LayerNorm Weight", a.Weight, a.D), d.floats("LayerNorm Bias", a.Bias, a.D)
	if branch != 0 && sum == 0 {
		panic("cuda: LayerNorm: a branch needs a Sum to keep")
	}
	if a.N > 0 {
		copy := d.operandCopy(y, n)
		d.rows(kernelLayerNorm, a.N, a.D).ptr(y, copy, sum, mean, inv, x, branch, weight, bias, drop.step).word(drop.key0, drop.key1, drop.less).float(drop.factor).int(a.D).float(a.Eps)
		d.fresh(copy, y, n)
	}
}

// normPiece is the number of rows over which a block of LayerNormGrad sums.
const normPiece = 64

// LayerNormGrad implements device.Transformer.
func (d *dev) LayerNormGrad(a device.LayerNormArgs) {
	const what = "LayerNormGrad"
	positive(what, a.D)
	n, drop := a.N*a.D, d.drops(what, a.Drop)
	s := d.optional("LayerNormGrad Sum", a.Sum, n)
	if s == 0 {
		s = d.floats("LayerNormGrad X", a.X, n)
	}
	mean, inv := d.floats("LayerNormGrad Mean", a.Mean, a.N), d.floats("LayerNormGrad InvStd", a.InvStd, a.N)
	weight, dy := d.floats("LayerNormGrad Weight", a.Weight, a.D), d.floats("LayerNormGrad DY", a.DY, n)
	dx, dBranch := d.floats("LayerNormGrad DX", a.DX, n), d.optional("LayerNormGrad DBranch", a.DBranch, n)
	dWeight, dBias := d.optional("LayerNormGrad DWeight", a.DWeight, a.D), d.optional("LayerNormGrad DBias", a.DBias, a.D)
	if a.N > 0 {
		copy := d.operandCopy(dBranch, n)
		d.rows(kernelLayerNormGrad, a.N, a.D).ptr(dx, dBranch, copy, s, mean, inv, weight, dy, drop.step).word(drop.key0, drop.key1, drop.less).float(drop.factor).int(a.D)
		d.fresh(copy, dBranch, n)
	}
	if dWeight == 0 && dBias == 0 {
		return
	}
	pieces := (a.N + normPiece - 1) / normPiece
	part := d.need(scratchSums, 4*max(1, pieces*2*a.D))
	if pieces > 0 {
		d.start(kernelLayerNormParams, threads, (a.D+31)/32, pieces, 1).ptr(part, s, mean, inv, dy).int(a.N, a.D, normPiece)
	}
	for i, sum := range [2]driver.Ptr{dWeight, dBias} {
		if sum != 0 {
			d.columnSum(sum, at(part, i*a.D), pieces, a.D, 2*a.D)
		}
	}
}

// selfTile is the number of rows of a block of self-attention.
const selfTile = 16

// heads is self-attention, checked.
type heads struct {
	a                        device.SelfAttentionArgs
	c                        captions
	words, query, key, value driver.Ptr
	drop                     drops
	factor                   float64
	most                     int // weights that are kept at once
}

func (d *dev) heads(what string, a device.SelfAttentionArgs) heads {
	positive(what, a.Heads, a.D)
	if a.D%a.Heads != 0 {
		panic(fmt.Sprintf("cuda: %s: %d columns for %d heads, expected a multiple", what, a.D, a.Heads))
	}
	h := heads{a: a, drop: d.drops(what, a.Drop), factor: 1 / math.Sqrt(float64(a.D/a.Heads)), most: d.limits.SelfWeights}
	most := 0
	if a.Words.Present() {
		most = a.L
		h.words = d.ints("SelfAttention Words", a.Words.View, len(a.Lengths.Host)*a.L)
	}
	h.c = d.captions(what, a.Lengths, most)
	if h.a.LD == 0 {
		h.a.LD = a.D
	}
	if h.a.LD < a.D {
		panic(fmt.Sprintf("cuda: %s: rows of %d columns %d apart", what, a.D, a.LD))
	}
	n := h.span()
	h.query, h.key, h.value = d.floats("SelfAttention Query", a.Query, n), d.floats("SelfAttention Key", a.Key, n), d.floats("SelfAttention Value", a.Value, n)
	return h
}

// span is the number of elements of queries, from the first row to the end of the last one.
func (h *heads) span() int {
	if h.c.rows == 0 {
		return 0
	}
	return (h.c.rows-1)*h.a.LD + h.a.D
}

// part returns the captions [first, end) whose weights are kept at once, and room for the weights.
func (h *heads) part(first int) (end, places int) {
	for end = first; end < h.c.n; end++ {
		n := int(h.a.Lengths.Host[end])
		if h.a.Lengths.Loose {
			n = h.c.longest
		}
		if end > first && places+h.a.Heads*n*n > h.most {
			break
		}
		places += h.a.Heads * n * n
	}
	return end, min(places, h.a.Heads*h.c.squares)
}

func (d *dev) attend(k kernel, h *heads, first, end int) *command {
	return d.start(k, threads, end-first, h.a.Heads, (h.c.longest+selfTile-1)/selfTile)
}

// SelfAttention implements device.Transformer.
func (d *dev) SelfAttention(a device.SelfAttentionArgs) {
	h := d.heads("SelfAttention", a)
	n, p := h.c.rows*a.D, h.drop
	context := d.floats("SelfAttention Context", a.Context, n)
	copy := d.operandCopy(context, n)
	for first := 0; first < h.c.n; {
		end, places := h.part(first)
		weights := d.need(scratchHidden, 4*places)
		d.attend(kernelSelfAttention, &h, first, end).ptr(context, copy, weights, h.query, h.key, h.value, h.words, h.c.lengths, h.c.starts, h.c.squaresAt, p.step).
			word(p.key0, p.key1, p.less).float(p.factor, h.factor).int(first, a.L, a.D, h.a.LD)
		first = end
	}
	d.fresh(copy, context, n)
	h.c.clear(d, context, a.D)
}

// SelfAttentionGrad implements device.Transformer.
func (d *dev) SelfAttentionGrad(a device.SelfAttentionArgs) {
	h := d.heads("SelfAttentionGrad", a)
	n, p := h.span(), h.drop
	dContext, dQuery := d.floats("SelfAttentionGrad DContext", a.DContext, h.c.rows*a.D), d.floats("SelfAttentionGrad DQuery", a.DQuery, n)
	dKey, dValue := d.floats("SelfAttentionGrad DKey", a.DKey, n), d.floats("SelfAttentionGrad DValue", a.DValue, n)
	// The three lie beside each other, or each by itself.
	var copies [3]driver.Ptr
	grads, together := [3]driver.Ptr{dQuery, dKey, dValue}, h.a.LD == 3*a.D && dKey == at(dQuery, a.D) && dValue == at(dQuery, 2*a.D)
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
	for first := 0; first < h.c.n; {
		end, places := h.part(first)
		weights, slopes := d.need(scratchHidden, 4*places), d.need(scratchCarry, 4*places)
		d.attend(kernelSelfRows, &h, first, end).ptr(dQuery, copies[0], weights, slopes, dContext, h.query, h.key, h.value, h.words, h.c.lengths, h.c.starts, h.c.squaresAt, p.step).
			word(p.key0, p.key1, p.less).float(p.factor, h.factor).int(first, a.L, a.D, h.a.LD)
		d.attend(kernelSelfColumns, &h, first, end).ptr(dKey, dValue, copies[1], copies[2], weights, slopes, dContext, h.query, h.c.lengths, h.c.starts, h.c.squaresAt).int(first, a.D, h.a.LD)
		first = end
	}
	if together {
		d.fresh(copies[0], dQuery, h.c.rows*h.a.LD)
	}
	for i, x := range grads {
		if !together {
			d.fresh(copies[i], x, n)
		}
		d.clearColumns(x, a.Lengths, h.c.lengths, a.D, h.a.LD)
	}
}
