package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

func testCombine(h *harness) {
	for _, n := range lengths1 {
		a, b := h.normal(n, 1), h.normal(n, 1)
		both, one := make([]float64, n), make([]float64, n)
		for i := range a {
			both[i], one[i] = 0.5*a[i]-3*b[i], 0.5*a[i]
		}
		what := fmt.Sprintf("Combine of %d", n)
		va, vb, dst := h.in(a), h.in(b), h.out(n)
		h.run(what, func() { device.Do(h.d, device.Combine{Dst: dst, A: va, B: vb, Alpha: 0.5, Beta: -3}) })
		h.equal(what, dst, both, h.tol.exact)
		h.steady(what, func() { device.Do(h.d, device.Combine{Dst: dst, A: va, B: vb, Alpha: 0.5, Beta: -3}) })
		h.run(what+", one", func() { device.Do(h.d, device.Combine{Dst: dst, A: va, Alpha: 0.5, Beta: -3}) })
		h.equal(what+", one", dst, one, h.tol.exact)
		for _, place := range []string{"a", "b"} {
			ia, ib := h.inout(a), h.inout(b)
			into := map[string]device.View{"a": ia, "b": ib}[place]
			h.run(what+" in "+place, func() {
				device.Do(h.d, device.Combine{Dst: into, A: ia, B: ib, Alpha: 0.5, Beta: -3})
			})
			h.equal(what+" in "+place, into, both, h.tol.exact)
		}
		h.release()
	}
}

func testPoolWeights(h *harness) {
	for n, lengths := range h.lengthCases() {
		const temperature = 0.1
		b, l := len(lengths), int(lengths[0])+n%3
		rows := packed(lengths)
		scores, dw := h.normal(len(rows), 0.3), h.normal(b*l, 1)
		w, ds := make([]float64, b*l), make([]float64, len(rows))
		for i := range b {
			var most, sum, mean float64
			most = math.Inf(-1)
			for p, r := range rows {
				if r[0] == i {
					most = max(most, scores[p]/temperature)
				}
			}
			for p, r := range rows {
				if r[0] == i {
					w[i*l+r[1]] = math.Exp(scores[p]/temperature - most)
					sum += w[i*l+r[1]]
				}
			}
			for t := range l {
				w[i*l+t] /= sum
				mean += w[i*l+t] * dw[i*l+t]
			}
			for p, r := range rows {
				if r[0] == i {
					ds[p] = w[i*l+r[1]] * (dw[i*l+r[1]] - mean) / temperature
				}
			}
		}
		what := fmt.Sprintf("PoolWeights of %v", lengths)
		a := device.PoolWeights{L: l, Temperature: temperature, Lengths: h.inInts(lengths),
			Scores: h.in(append(scores, math.NaN()))}
		h.outputs(&a)
		h.run(what, func() { device.Do(h.d, a) })
		h.equal(what, a.Weights, w, 10*h.tol.exact)
		h.steady(what, func() { device.Do(h.d, a) })
		a.Scores, a.Weights, a.DWeights, a.DScores = device.View{}, h.in(w), h.in(dw), h.out(len(rows)+2)
		h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.equalTo(what+" gradient", a.DScores, padded(ds, 2), 100*h.tol.exact)
		h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.release()
	}
}

// poolCase is a batch of items on the host: rows[b][p] is where row p of item b lies.
type poolCase struct {
	d, k    int
	lengths []int32
	rows    [][]int
	total   int
	x, w    []float64 // [T, D], [K, K]
}

func (h *harness) poolCase(lengths []int32, d, k int, inPacks bool) *poolCase {
	c := &poolCase{d: d, k: k, lengths: lengths, rows: make([][]int, len(lengths)), w: h.normal(k*k, 1)}
	if inPacks {
		for p, r := range packed(lengths) {
			c.rows[r[0]] = append(c.rows[r[0]], p)
		}
	}
	for b, n := range lengths {
		for range n {
			if !inPacks {
				c.rows[b] = append(c.rows[b], c.total)
			}
			c.total++
		}
	}
	c.x = h.normal(c.total*d, 1)
	for i := range c.x {
		if i%5 == 0 { // ties, also between the two zeros
			c.x[i] = []float64{0.5, math.Copysign(0, -1), 0, 0.5}[i/5%4]
		}
	}
	return c
}

// order returns the rows of item b in descending order of channel ch, equal values as they come.
func (c *poolCase) order(b, ch int) []int {
	rows := slices.Clone(c.rows[b])
	slices.SortStableFunc(rows, func(p, q int) int {
		switch vp, vq := c.x[p*c.d+ch], c.x[q*c.d+ch]; {
		case vp > vq:
			return -1
		case vp < vq:
			return 1
		}
		return 0
	})
	return rows
}

func testSortPool(h *harness) {
	unsorted := []int32{2, 5, 1, 3, 5, 5}
	long := make([]int32, 9)
	for i := range long {
		long[i] = int32(40 - 3*i)
	}
	cases := append(h.lengthCases(), long)
	for _, d := range []int{1, 15, 33, 600} {
		for n, lengths := range cases {
			h.sortPool(h.poolCase(lengths, d, int(lengths[0])+n%2, true), true)
		}
		h.sortPool(h.poolCase(unsorted, d, 6, false), false)
		h.sortPool(h.poolCase(long, d, 40, false), false)
	}
	if h.short {
		return
	}
	for p := range 3 { // a value that is not a number must stay visible
		c := h.poolCase([]int32{3}, 1, 3, false)
		c.x[p] = math.NaN()
		a := device.SortPool{D: 1, K: 3, Lengths: h.inInts(c.lengths), X: h.in(c.x), Weights: h.in(c.w)}
		h.outputs(&a)
		h.run("SortPool of NaN", func() { device.Do(h.d, a) })
		if !math.IsNaN(h.read(a.Y)[0]) {
			h.errorf("SortPool: NaN in row %d became %v", p, h.read(a.Y)[0])
		}
		h.release()
	}
}

func (h *harness) sortPool(c *poolCase, inPacks bool) {
	what := fmt.Sprintf("SortPool of %v, packed %v, D %d", c.lengths, inPacks, c.d)
	items := len(c.lengths)
	y, dy := make([]float64, items*c.d), h.normal(items*c.d, 1)
	ranks, dx, dw := make([]int32, c.total*c.d), make([]float64, c.total*c.d), make([]float64, c.k*c.k)
	for b, n := range c.lengths {
		table := (c.k - int(n)) * c.k
		for ch := range c.d {
			for p, row := range c.order(b, ch) {
				i := row*c.d + ch
				ranks[i] = int32(p)
				y[b*c.d+ch] += c.w[table+p] * c.x[i]
				dx[i] = c.w[table+p] * dy[b*c.d+ch]
				dw[table+p] += dy[b*c.d+ch] * c.x[i]
			}
		}
	}
	// Two more rows than there are: memory beyond them is left alone.
	a := device.SortPool{D: c.d, K: c.k, Lengths: h.inInts(c.lengths), Packed: inPacks, X: h.in(padded(c.x, 2*c.d)),
		Weights: h.in(c.w), Y: h.out(len(y)), Ranks: h.outInts(len(ranks) + 1)}
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what, a.Y, y, h.tol.product)
	h.equalInts(what+": ranks", a.Ranks, append(ranks, guardInt))
	h.steady(what, func() { device.Do(h.d, a) })
	a.Ranks, a.DY = h.inInts(ranks).View, h.in(dy)
	a.DX, a.DWeights = h.out(len(dx)+3), h.out(len(dw))
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.equal(what+": dx", a.DX, padded(dx, 3), h.tol.exact)
	h.equal(what+": dweights", a.DWeights, dw, h.tol.product)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	for _, only := range []string{"dx", "dweights"} {
		a := a
		a.DX, a.DWeights = device.View{}, device.View{}
		if only == "dx" {
			a.DX = h.out(len(dx))
		} else {
			a.DWeights = h.out(len(dw))
		}
		h.run(what+" gradient, only "+only, func() { device.DoGrad(h.d, a) })
		if only == "dx" {
			h.equal(what+": dx alone", a.DX, dx, h.tol.exact)
		} else {
			h.equal(what+": dweights alone", a.DWeights, dw, h.tol.product)
		}
	}
	h.release()
}
