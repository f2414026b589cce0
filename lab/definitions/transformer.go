package definitions

import (
	"math"

	"vsetrain/internal/compute/device"
)

type transformer struct{ *Device }

// rows are the numbers of the words and of the positions of all rows.
func (k transformer) rows(a *device.Embed) (words, places device.Ints) {
	n := device.Total(a.Lengths.Host)
	words, places = k.Numbers(n), k.Numbers(n)
	i := 0
	for b, length := range a.Lengths.Host {
		for t := range length {
			words.Host[i], places.Host[i] = a.Words.Host[b*a.L+int(t)], t
			i++
		}
	}
	return k.Send(words), k.Send(places)
}

func (k transformer) Embed(a device.Embed) {
	defer k.Give(k.Use())
	words, places := k.rows(&a)
	n := len(words.Host)
	out, x := a.Out, k.Floats(n*a.D)
	k.gather(out, a.Word, a.D, words)
	k.gather(x, a.Position, a.D, places)
	k.combine(out, out, x, 1, 1)
	k.repeat(x, a.Type.Slice(0, a.D), n, a.D)
	k.combine(out, out, x, 1, 1)
}

func (k transformer) EmbedGrad(a device.Embed) {
	defer k.Give(k.Use())
	words, places := k.rows(&a)
	if a.Word.Present() {
		k.scatter(a.Word, a.Out, a.D, words)
	}
	if a.Position.Present() {
		k.scatter(a.Position, a.Out, a.D, places)
	}
	if a.Type.Present() {
		device.Do(k, device.Fill{Dst: a.Type.Slice(0, a.K*a.D)})
		k.sumAll(a.Type.Slice(0, a.D), a.Out, len(words.Host), a.D)
	}
}

// normal computes y = (s - Mean)·InvStd.
func (k transformer) normal(y, s device.View, a *device.LayerNorm) {
	defer k.Give(k.Use())
	all := k.Floats(a.N * a.D)
	k.spreadRows(all, a.Mean, a.N, a.D)
	k.combine(y, s, all, 1, -1)
	k.timesRows(y, y, a.InvStd, a.N, a.D)
}

func (k transformer) LayerNorm(a device.LayerNorm) {
	defer k.Give(k.Use())
	n := a.N * a.D
	s, mean, inv := a.X, a.Mean, a.InvStd
	if a.Branch.Present() {
		k.dropout(a.Sum, a.Branch, a.Drop, a.D)
		k.combine(a.Sum, a.Sum, s, 1, 1)
		s = a.Sum
	}
	x, all := k.Floats(n), k.Floats(n)
	k.sumRows(mean, s, a.N, a.D)
	k.times(mean, mean, 1/float64(a.D))
	k.spreadRows(all, mean, a.N, a.D)
	k.combine(x, s, all, 1, -1)
	k.dotRows(inv, x, x, a.N, a.D)
	k.times(inv, inv, 1/float64(a.D))
	k.plus(inv, inv, a.Eps)
	k.apply(device.Sqrt, 0, inv, inv)
	k.apply(device.Reciprocal, 0, inv, inv)
	k.timesRows(x, x, inv, a.N, a.D)
	k.repeat(all, a.Weight, a.N, a.D)
	device.Do(k, device.Multiply{Dst: x, A: x, B: all})
	k.repeat(all, a.Bias, a.N, a.D)
	k.combine(a.Y, x, all, 1, 1)
}

// LayerNormGrad: with x̂ the normal rows and g = Weight∘dy,
// dx = InvStd·(g - mean g - x̂·mean(g∘x̂)).
func (k transformer) LayerNormGrad(a device.LayerNorm) {
	defer k.Give(k.Use())
	n := a.N * a.D
	s, dy, dx, share := a.X, a.DY, a.DX, 1/float64(a.D)
	if a.Sum.Present() {
		s = a.Sum
	}
	x, g, all, each := k.Floats(n), k.Floats(n), k.Floats(n), k.Floats(a.N)
	k.normal(x, s.Slice(0, n), &a)
	if a.DWeight.Present() {
		device.Do(k, device.Multiply{Dst: g, A: dy, B: x})
		k.sumAll(a.DWeight, g, a.N, a.D)
	}
	if a.DBias.Present() {
		k.sumAll(a.DBias, dy, a.N, a.D)
	}
	k.repeat(g, a.Weight, a.N, a.D)
	device.Do(k, device.Multiply{Dst: g, A: g, B: dy})
	k.dotRows(each, g, x, a.N, a.D)
	k.timesRows(x, x, each, a.N, a.D)
	k.sumRows(each, g, a.N, a.D)
	k.spreadRows(all, each, a.N, a.D)
	k.combine(x, x, all, share, share)
	k.combine(g, g, x, 1, -1)
	k.timesRows(dx, g, a.InvStd, a.N, a.D)
	if a.DBranch.Present() {
		k.dropout(a.DBranch, dx, a.Drop, a.D)
	}
	if a.DBranchBias.Present() {
		k.sumAll(a.DBranchBias, a.DBranch, a.N, a.D)
	}
}

// unattended is added to the scores of words that are not attended to: far below all scores.
const unattended = -1e9

// selfAttention is the work on one caption of n rows: probabilities [Heads, n, n].
type selfAttention struct {
	n, row int // rows, the first of them
	mask   device.View
}

// captions calls f for every caption.
func (k transformer) captions(a *device.SelfAttention, f func(c selfAttention)) {
	c := selfAttention{}
	for b, n := range a.Lengths.Host {
		c.n, c.mask = int(n), device.View{}
		m := k.Use()
		if a.Words.Present() {
			h, any := k.Host(c.n), false
			for j := range h {
				if h[j] = 0; a.Words.Host[b*a.L+j] == 0 {
					h[j] = unattended
				}
				any = any || h[j] == 0
			}
			if any {
				c.mask = k.Upload(h)
			}
		}
		f(c)
		k.Give(m)
		c.row += c.n
	}
}

// product multiplies two operands of every head, rows or probabilities.
func (k transformer) product(a *device.SelfAttention, c *selfAttention, g device.Gemm) {
	g.Batch, g.M = a.Heads, c.n
	device.Do(k, g)
}

// rowsOf are the rows of the caption, and of the last one no more than there are.
func (c *selfAttention) rowsOf(v device.View, ld, d int) device.View {
	return v.Slice(c.row*ld, (c.row+c.n-1)*ld+d)
}

// probabilities computes them, before dropout.
func (k transformer) probabilities(p device.View, a *device.SelfAttention, c *selfAttention) {
	defer k.Give(k.Use())
	n, d := c.n, a.D/a.Heads
	k.product(a, c, device.Gemm{TransB: true, N: n, K: d, Alpha: 1 / math.Sqrt(float64(d)), A: c.rowsOf(a.Query,
		a.LD, a.D), LDA: a.LD,
		StrideA: d, B: c.rowsOf(a.Key, a.LD, a.D), LDB: a.LD, StrideB: d, C: p, StrideC: n * n})
	if c.mask.Present() {
		all := k.Floats(p.N)
		k.repeat(all, c.mask, a.Heads*n, n)
		k.combine(p, p, all, 1, 1)
	}
	k.softmax(p, p, 1, alongRows(a.Heads*n, n))
}

func (k transformer) SelfAttention(a device.SelfAttention) {
	defer k.Give(k.Use())
	k.captions(&a, func(c selfAttention) {
		n, d := c.n, a.D/a.Heads
		p := k.Floats(a.Heads * n * n)
		k.probabilities(p, &a, &c)
		k.dropout(p, p, a.Drop.Part(c.row, c.row+1), p.N)
		k.product(&a, &c, device.Gemm{N: d, K: n, Alpha: 1, A: p, StrideA: n * n, B: c.rowsOf(a.Value, a.LD, a.D),
			LDB: a.LD, StrideB: d, C: c.rowsOf(a.Context, a.D, a.D), LDC: a.D, StrideC: d})
	})
}

func (k transformer) SelfAttentionGrad(a device.SelfAttention) {
	defer k.Give(k.Use())
	k.captions(&a, func(c selfAttention) {
		n, d := c.n, a.D/a.Heads
		p, dropped, dp := k.Floats(a.Heads*n*n), k.Floats(a.Heads*n*n), k.Floats(a.Heads*n*n)
		k.probabilities(p, &a, &c)
		k.dropout(dropped, p, a.Drop.Part(c.row, c.row+1), p.N)
		dContext, scale := c.rowsOf(a.DContext, a.D, a.D), 1/math.Sqrt(float64(d))
		k.product(&a, &c, device.Gemm{TransA: true, N: d, K: n, Alpha: 1, A: dropped, StrideA: n * n, B: dContext,
			LDB: a.D, StrideB: d, C: c.rowsOf(a.DValue, a.LD, a.D), LDC: a.LD, StrideC: d})
		k.product(&a, &c, device.Gemm{TransB: true, N: n, K: d, Alpha: 1, A: dContext, LDA: a.D, StrideA: d,
			B: c.rowsOf(a.Value, a.LD, a.D), LDB: a.LD, StrideB: d, C: dp, StrideC: n * n})
		k.dropout(dp, dp, a.Drop.Part(c.row, c.row+1), p.N)
		k.softmaxGrad(dp, p, dp, scale, alongRows(a.Heads*n, n))
		k.product(&a, &c, device.Gemm{N: d, K: n, Alpha: 1, A: dp, StrideA: n * n, B: c.rowsOf(a.Key, a.LD, a.D),
			LDB: a.LD, StrideB: d, C: c.rowsOf(a.DQuery, a.LD, a.D), LDC: a.LD, StrideC: d})
		k.product(&a, &c, device.Gemm{TransA: true, N: d, K: n, Alpha: 1, A: dp, StrideA: n * n,
			B: c.rowsOf(a.Query, a.LD, a.D), LDB: a.LD, StrideB: d, C: c.rowsOf(a.DKey, a.LD, a.D), LDC: a.LD,
			StrideC: d})
	})
	if rows := device.Total(a.Lengths.Host); a.DBias.Present() {
		ones := k.Filled(rows, 1)
		for i, x := range []device.View{a.DQuery, a.DKey, a.DValue} {
			device.Do(k, device.Gemm{M: 1, N: a.D, K: rows, Alpha: 1, A: ones, B: x, LDB: a.LD,
				C: a.DBias.Slice(i*a.D, (i+1)*a.D), Exact: true})
		}
	}
}
