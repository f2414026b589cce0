package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// masks is the dropout of a kernel: what each place is multiplied with.
func masks(rate float64, key philox.Key, n int) []float64 {
	m := make([]float64, n)
	for i := range m {
		if rate == 0 {
			m[i] = 1
		} else if words := key.Block(5<<32|0xfffffffe, uint64(i/4)); words[i%4] >= uint32(rate*(1<<32)) {
			m[i] = 1 / (1 - rate)
		}
	}
	return m
}

func (h *harness) drops(rate float64, key philox.Key) device.Drops {
	if rate == 0 {
		return device.Drops{}
	}
	return device.Drops{Rate: rate, Key: key, Step: h.inInts([]int32{-2, 5})} // the low half is 2³²-2
}

func total(lengths []int32) (n int) {
	for _, l := range lengths {
		n += int(l)
	}
	return n
}

var captionCases = [][]int32{{1}, {3, 5, 1}, {22, 7, 1, 1, 40}, {2, 2, 2, 2, 2, 2, 2, 2, 2}}

func testEmbed(h *harness) {
	for n, lengths := range captionCases {
		for _, d := range []int{1, 17, 768} {
			const v, kinds = 23, 2
			l, p, rows := 40+n, 41+n, total(lengths)
			words := make([]int32, len(lengths)*l)
			for i := range words {
				words[i] = guardInt // padding is never read
			}
			word, position, kind := h.normal(v*d, 1), h.normal(p*d, 1), h.normal(kinds*d, 1)
			out, dout := make([]float64, rows*d), h.normal(rows*d, 1)
			dWord, dPosition, dKind := make([]float64, v*d), make([]float64, p*d), make([]float64, kinds*d)
			r := 0
			for b, length := range lengths {
				for t := range int(length) {
					w := h.rng.IntN(v)
					words[b*l+t] = int32(w)
					for k := range d {
						g := dout[r*d+k]
						out[r*d+k] = word[w*d+k] + position[t*d+k] + kind[k]
						dWord[w*d+k] += g
						dPosition[t*d+k] += g
						dKind[k] += g
					}
					r++
				}
			}
			what := fmt.Sprintf("Embed of %v, D %d", lengths, d)
			a := device.Embed{Words: h.inInts(words), Lengths: h.inInts(lengths), L: l, V: v, P: p, K: kinds, D: d,
				Word: h.in(word), Position: h.in(position), Type: h.in(kind), Out: h.out((rows + 2) * d)}
			h.run(what, func() { device.Do(h.d, a) })
			h.equal(what, a.Out, padded(out, 2*d), h.tol.exact)
			h.steady(what, func() { device.Do(h.d, a) })
			g := a
			g.Word, g.Position, g.Type, g.Out = h.out(v*d), h.out(p*d), h.out(kinds*d), h.in(dout)
			h.run(what+" gradient", func() { device.DoGrad(h.d, g) })
			h.equal(what+": words", g.Word, dWord, h.tol.product)
			h.equal(what+": positions", g.Position, dPosition, h.tol.product)
			h.equal(what+": types", g.Type, dKind, h.tol.product)
			h.steady(what+" gradient", func() { device.DoGrad(h.d, g) })
			g.Word, g.Position, g.Type = device.View{}, h.out(p*d), device.View{}
			h.run(what+" gradient, only positions", func() { device.DoGrad(h.d, g) })
			h.equal(what+": positions alone", g.Position, dPosition, h.tol.product)
			h.release()
		}
	}
}

// layerCase is the definition of LayerNorm on the host.
type layerCase struct {
	n, d                          int
	eps                           float64
	x, branch, mask, weight, bias []float64
	sum, y, mean, inv             []float64
}

func (c *layerCase) forward() {
	c.sum, c.y, c.mean, c.inv = append([]float64(nil), c.x...), make([]float64, len(c.x)), make([]float64, c.n),
		make([]float64, c.n)
	for i := range c.branch {
		c.sum[i] += c.branch[i] * c.mask[i]
	}
	for r := range c.n {
		s := c.sum[r*c.d : (r+1)*c.d]
		var mean, variance float64
		for _, v := range s {
			mean += v / float64(c.d)
		}
		for _, v := range s {
			variance += (v - mean) * (v - mean) / float64(c.d)
		}
		c.mean[r], c.inv[r] = mean, 1/math.Sqrt(variance+c.eps)
		for k, v := range s {
			c.y[r*c.d+k] = c.weight[k]*(v-mean)*c.inv[r] + c.bias[k]
		}
	}
}

func testLayerNorm(h *harness) {
	for _, s := range [][2]int{{1, 2}, {3, 5}, {7, 16}, {70, 33}, {41, 768}} {
		for _, rate := range []float64{-1, 0, 0.3} { // -1 is without a branch
			h.layerNorm(s[0], s[1], rate)
		}
	}
}

func (h *harness) layerNorm(n, d int, rate float64) {
	what := fmt.Sprintf("LayerNorm %dx%d, dropout %v", n, d, rate)
	key := philox.NewKey(4, what)
	c := &layerCase{n: n, d: d, eps: 1e-3, x: h.normal(n*d, 1), weight: h.normal(d, 1), bias: h.normal(d, 1)}
	a := device.LayerNorm{N: n, D: d, Eps: c.eps, X: h.in(c.x), Weight: h.in(c.weight), Bias: h.in(c.bias)}
	if rate >= 0 {
		c.branch, c.mask = h.normal(n*d, 1), masks(rate, key, n*d)
		a.Branch, a.Sum, a.Drop = h.in(c.branch), h.out(n*d), h.drops(rate, key)
	}
	c.forward()
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what+": y", a.Y, c.y, 20*h.tol.exact)
	h.equalTo(what+": mean", a.Mean, c.mean, h.tol.exact*magnitude(c.sum))
	h.equal(what+": 1/std", a.InvStd, c.inv, 20*h.tol.exact)
	if rate >= 0 {
		h.equal(what+": sum", a.Sum, c.sum, h.tol.exact)
	}
	h.steady(what, func() { device.Do(h.d, a) })

	dy := h.normal(n*d, 1)
	g := device.LayerNorm{N: n, D: d, Eps: c.eps, Weight: a.Weight, Mean: h.in(c.mean), InvStd: h.in(c.inv),
		DY: h.in(dy), Drop: a.Drop, DWeight: h.out(d), DBias: h.out(d)}
	if rate < 0 {
		g.X = a.X
	} else {
		g.Sum, g.DBranch, g.DBranchBias = h.in(c.sum), h.out(n*d), h.out(d)
	}
	h.gradOutputs(&g)
	h.run(what+" gradient", func() { device.DoGrad(h.d, g) })
	loss := func() (s float64) {
		c.forward()
		for i, v := range c.y {
			s += v * dy[i]
		}
		return s
	}
	h.equalDifferences(what+": DX", c.x, g.DX, usual, loss)
	if rate >= 0 {
		h.equalDifferences(what+": DBranch", c.branch, g.DBranch, usual, loss)
		sums, branch := make([]float64, d), h.read(g.DBranch)
		for i, v := range branch {
			sums[i%d] += v
		}
		h.equal(what+": DBranchBias", g.DBranchBias, sums, 10*h.tol.product)
	}
	h.equalDifferences(what+": DWeight", c.weight, g.DWeight, usual, loss)
	h.equalDifferences(what+": DBias", c.bias, g.DBias, usual, loss)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, g) })
	want, both := append(h.read(g.DWeight), h.read(g.DBias)...), h.out(2*d)
	g.DWeight, g.DBias = both.Slice(0, d), both.Slice(d, 2*d)
	var branch []float64
	if rate >= 0 {
		branch, g.DBranchBias = h.read(g.DBranchBias), h.out(d)
	}
	h.run(what+" gradient, DWeight and DBias side by side", func() { device.DoGrad(h.d, g) })
	h.equal(what+": DWeight and DBias side by side", both, want, 0)
	if rate >= 0 {
		h.equal(what+": DBranchBias beside them", g.DBranchBias, branch, 0)
	}
	g.DBranch, g.DWeight, g.DBias, g.DBranchBias = device.View{}, device.View{}, device.View{}, device.View{}
	h.run(what+" gradient, DX alone", func() { device.DoGrad(h.d, g) })
	h.release()
}

// headsCase is the definition of SelfAttention on the host.
type headsCase struct {
	heads, d, l   int
	words, length []int32
	q, k, v, mask []float64
	context       []float64
}

func (c *headsCase) forward() {
	c.context = make([]float64, len(c.q))
	size, first, place := c.d/c.heads, 0, 0
	for b, length := range c.length {
		n, valid := int(length), 0
		for j := range n {
			if c.words == nil || c.words[b*c.l+j] != 0 {
				valid++
			}
		}
		for h := range c.heads {
			for i := range n {
				p, sum := make([]float64, n), 0.0
				for j := range n {
					if c.words != nil && valid > 0 && c.words[b*c.l+j] == 0 {
						continue
					}
					for k := h * size; k < (h+1)*size; k++ {
						p[j] += c.q[(first+i)*c.d+k] * c.k[(first+j)*c.d+k] / math.Sqrt(float64(size))
					}
					p[j] = math.Exp(p[j])
					sum += p[j]
				}
				for j := range n {
					w := p[j] / sum * c.mask[place+(h*n+i)*n+j]
					for k := h * size; k < (h+1)*size; k++ {
						c.context[(first+i)*c.d+k] += w * c.v[(first+j)*c.d+k]
					}
				}
			}
		}
		first += n
		place += c.heads * n * n
	}
}

func testSelfAttention(h *harness) {
	for n, lengths := range captionCases {
		for _, s := range [][2]int{{1, 1}, {2, 6}, {3, 60}, {2, 128}} {
			for _, rate := range []float64{0, 0.3} {
				h.selfAttention(s[0], s[1], lengths, rate, n%2 == 1)
			}
		}
	}
}

func (h *harness) selfAttention(heads, d int, lengths []int32, rate float64, padded bool) {
	what := fmt.Sprintf("SelfAttention of %v, %d heads, D %d, dropout %v, padding %v", lengths, heads, d, rate, padded)
	rows, key, places := total(lengths), philox.NewKey(4, what), 0
	for _, n := range lengths {
		places += heads * int(n) * int(n)
	}
	c := &headsCase{heads: heads, d: d, l: 41, length: lengths, q: h.normal(rows*d, 1), k: h.normal(rows*d, 1),
		v: h.normal(rows*d, 1), mask: masks(rate, key, places)}
	a := device.SelfAttention{Heads: heads, D: d, L: c.l, Lengths: h.inInts(lengths), Query: h.in(c.q),
		Key: h.in(c.k), Value: h.in(c.v),
		Context: h.out((rows + 1) * d), Drop: h.drops(rate, key)}
	if padded {
		c.words = make([]int32, len(lengths)*c.l)
		for i := range c.words {
			c.words[i] = int32(i % 4) // every fourth is 0
		}
		clear(c.words[:c.l]) // nothing but padding
		a.Words = h.inInts(c.words)
	}
	c.forward()
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what, a.Context, append(c.context, nans(d)...), 4*h.tol.product)
	h.steady(what, func() { device.Do(h.d, a) })

	dc := h.normal(rows*d, 1)
	g := a
	g.Context, g.DContext, g.DBias = device.View{}, h.in(dc), h.out(3*d)
	h.gradOutputs(&g)
	h.run(what+" gradient", func() { device.DoGrad(h.d, g) })
	loss := func() (s float64) {
		c.forward()
		for i, v := range c.context {
			s += v * dc[i]
		}
		return s
	}
	h.equalDifferences(what+": DQuery", c.q, g.DQuery, usual, loss)
	h.equalDifferences(what+": DKey", c.k, g.DKey, usual, loss)
	h.equalDifferences(what+": DValue", c.v, g.DValue, usual, loss)
	sums := make([]float64, 3*d)
	for k, v := range []device.View{g.DQuery, g.DKey, g.DValue} {
		for i, x := range h.read(v) {
			sums[k*d+i%d] += x
		}
	}
	h.equal(what+": DBias", g.DBias, sums, 10*h.tol.product)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, g) })

	// The same with queries, keys and values as columns of one matrix, bit for bit.
	ld := 3*d + 1
	columns := func(values []float64) [3]device.View {
		v := h.inout(values)
		return [3]device.View{v.Slice(0, rows*ld), v.Slice(d, rows*ld), v.Slice(2*d, rows*ld)}
	}
	one, into := columns(columnsOf(ld, d, c.q, c.k, c.v)), columns(nans(rows*ld))
	w := a
	w.LD, w.Query, w.Key, w.Value, w.Context = ld, one[0], one[1], one[2], h.out(rows*d)
	w.DContext, w.DQuery, w.DKey, w.DValue, w.DBias = g.DContext, into[0], into[1], into[2], h.out(3*d)
	h.run(what+" of columns", func() { device.Do(h.d, w); device.DoGrad(h.d, w) })
	h.equal(what+" of columns", w.Context, h.read(a.Context.Slice(0, rows*d)), 0)
	got, want := h.read(into[0]), columnsOf(ld, d, h.read(g.DQuery), h.read(g.DKey), h.read(g.DValue))
	if err := near(got, want, 0); err != nil && !h.short {
		h.errorf("%s: gradients of columns: %v", what, err)
	}
	h.equal(what+" of columns: DBias", w.DBias, sums, 10*h.tol.product)
	h.release()
}

// columnsOf puts matrices of d columns side by side, in rows ld apart with NaN behind them.
func columnsOf(ld, d int, parts ...[]float64) []float64 {
	rows := len(parts[0]) / d
	all := nans(rows * ld)
	for i, p := range parts {
		for r := range rows {
			copy(all[r*ld+i*d:], p[r*d:(r+1)*d])
		}
	}
	return all
}

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}
