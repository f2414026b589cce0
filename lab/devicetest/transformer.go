package devicetest

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

func testEmbed(h *harness) {
	for n, lengths := range captionCases {
		for _, d := range []int{1, 17, 768} {
			const v, kinds = 23, 2
			l, p := 40+n, 41+n
			words := repeat(len(lengths)*l, guardInt) // padding is never read
			for b, length := range lengths {
				for t := range int(length) {
					words[b*l+t] = int32(h.rng.IntN(v))
				}
			}
			what, tol := fmt.Sprintf("Embed of %v, D %d", lengths, d), bounds{"": {rel: h.tol.product},
				"Out": {rel: h.tol.exact}}
			a := device.Embed{Words: h.inInts(words), Lengths: h.inInts(lengths), L: l, V: v, P: p, K: kinds, D: d,
				Word: h.in(h.normal(v*d, 1)), Position: h.in(h.normal(p*d, 1)), Type: h.in(h.normal(kinds*d, 1))}
			h.transpose(what, &a, tol, "Out", "Word", "Position", "Type")
			a.Word, a.Position, a.Type = device.View{}, h.out(p*d), device.View{}
			h.check(what+" gradient, only positions", &a, tol)
			h.release()
		}
	}
}

func testLayerNorm(h *harness) {
	for _, s := range [][2]int{{1, 2}, {3, 5}, {7, 16}, {70, 33}, {41, 768}, {3, 1029}, {9, 1540}} {
		for _, rate := range []float64{-1, 0, 0.3} { // -1 is without a branch
			layerNorm(h, s[0], s[1], rate)
		}
	}
}

func layerNorm(h *harness, n, d int, rate float64) {
	what, x := fmt.Sprintf("LayerNorm %dx%d, dropout %v", n, d, rate), h.normal(n*d, 1)
	a := device.LayerNorm{N: n, D: d, Eps: 1e-3, X: h.in(x), Weight: h.in(h.normal(d, 1)), Bias: h.in(h.normal(d, 1))}
	without := []string{"DBranch", "DBranchBias"}
	if rate >= 0 {
		a.Branch, a.Sum, a.Drop = h.in(h.normal(n*d, 1)), h.out(n*d), h.drops(rate, philox.NewKey(4, what), n)
		without = nil
	}
	h.check(what, &a, bounds{"": {rel: 20 * h.tol.exact}, "Mean": {abs: h.tol.exact * magnitude(x)},
		"Sum": {rel: h.tol.exact}})
	tol := h.slopes()
	tol["DBranchBias"] = bound{rel: 10 * h.tol.product}
	h.back(what, &a, tol, without...)
	if rate >= 0 && !h.short { // the gradient of a bias is the gradient of the rows it is added to
		sums := make([]float64, d)
		for i, v := range h.read(a.DBranch)[:n*d] {
			sums[i%d] += v
		}
		h.equal(what+": DBranchBias", a.DBranchBias.Slice(0, d), sums, 10*h.tol.product)
	}
	want, both := append(h.read(a.DWeight)[:d], h.read(a.DBias)[:d]...), h.out(2*d)
	a.DWeight, a.DBias = both.Slice(0, d), both.Slice(d, 2*d)
	var branch []float64
	if rate >= 0 {
		branch, a.DBranchBias = h.read(a.DBranchBias)[:d], h.out(d)
	}
	h.run(what+" gradient, DWeight and DBias side by side", func() { device.Do(h.d, a) })
	h.equal(what+": DWeight and DBias side by side", both, want, 0)
	if rate >= 0 {
		h.equal(what+": DBranchBias beside them", a.DBranchBias, branch, 0)
	}
	a.DBranch, a.DWeight, a.DBias, a.DBranchBias = device.View{}, device.View{}, device.View{}, device.View{}
	h.run(what+" gradient, DX alone", func() { device.Do(h.d, a) })
	h.release()
}

func testSelfAttention(h *harness) {
	for n, lengths := range captionCases {
		for m, s := range [][2]int{{1, 1}, {2, 6}, {3, 60}, {2, 128}} {
			selfAttention(h, s[0], s[1], lengths, 0.3*float64((n/2+m)%2), n%2 == 1)
		}
	}
}

func selfAttention(h *harness, heads, d int, lengths []int32, rate float64, padded bool) {
	what := fmt.Sprintf("SelfAttention of %v, %d heads, D %d, dropout %v, padding %v", lengths, heads, d, rate, padded)
	const columns = 41
	rows := device.Total(lengths)
	q, k, v := h.normal(rows*d, 1), h.normal(rows*d, 1), h.normal(rows*d, 1)
	a := device.SelfAttention{Heads: heads, D: d, L: columns, Lengths: h.inInts(lengths), Query: h.in(q), Key: h.in(k),
		Value: h.in(v), Drop: h.drops(rate, philox.NewKey(4, what), rows)}
	if padded {
		words := make([]int32, len(lengths)*columns)
		for i := range words {
			words[i] = int32(i % 4) // every fourth is 0
		}
		clear(words[:columns]) // nothing but padding
		a.Words = h.inInts(words)
	}
	h.check(what, &a, all(max(4*h.tol.product, h.tol.reduced)))
	context := h.read(a.Context)[:rows*d]
	// The same with queries, keys and values as columns of one matrix, bit for bit.
	ld := 3*d + 1
	side := func(values []float64) [3]device.View {
		v := h.inout(values)
		return [3]device.View{v.Slice(0, rows*ld), v.Slice(d, rows*ld), v.Slice(2*d, rows*ld)}
	}
	one, into, w := side(columnsOf(ld, d, q, k, v)), side(nans(rows*ld)), a
	tol := h.slopes()
	sums := max(10*h.tol.product, h.tol.reduced)
	tol["DBias"] = bound{rel: sums}
	h.back(what, &a, tol)
	w.LD, w.Query, w.Key, w.Value, w.Context = ld, one[0], one[1], one[2], h.out(rows*d)
	w.DContext, w.DQuery, w.DKey, w.DValue, w.DBias = a.DContext, into[0], into[1], into[2], h.out(3*d)
	h.run(what+" of columns", func() { device.Do(h.d, w); device.DoGrad(h.d, w) })
	h.equal(what+" of columns", w.Context, context, 0)
	read := func(v device.View) []float64 { return h.read(v)[:rows*d] }
	got, want := h.read(into[0]), columnsOf(ld, d, read(a.DQuery), read(a.DKey), read(a.DValue))
	if err := near(got, want, 0); err != nil && !h.short {
		h.errorf("%s: gradients of columns: %v", what, err)
	}
	h.equal(what+" of columns: DBias", w.DBias, h.want(a.DBias)[:3*d], sums)
	h.release()
}

// columnsOf puts matrices of d columns side by side, in rows ld apart with NaN after them.
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
