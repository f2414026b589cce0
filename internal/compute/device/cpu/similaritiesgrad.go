package cpu

import "vsetrain/internal/compute/device"

// The gradient of the similarity vectors, from ds of the vectors before their normalisation:
//
//	dW += dsᵀ z    dz = ds W    dd = 2 d∘dz    dc -= dd    d(Σ α v) = l2'(dd)    dα = d(Σ α v) Vᵀ    dV += αᵀ d(Σ α v)
//
// with d = u - c and z = d∘d. z and d(Σ α v) become operands row by row, as in the forward pass.

func (d *dev[T]) SimilaritiesGrad(a device.Similarities) {
	l := d.beginSimilarities(a)
	d.packW(&l.backward, false, a.S, a.E, d.values(a.W), a.E)
	l.dImages, l.dWeights, l.dOut = d.values(a.DImages), d.values(a.DWeights), d.values(a.DNodes)
	dRows, dW, dB := d.values(a.DRows), d.values(a.DW), d.values(a.DBias)
	n := laneCount(a.B)
	if a.Filter.Present() {
		l.filter.setGrad(d, &a.Filter, n)
	}
	scratch(&l.dRows, n*len(dRows))
	size := a.S * (a.E + pairPad)
	scratch(&l.dW, (n+1)*size)
	scratch(&l.dB, n*len(dB))
	d.pool.For(n, l)
	d.columnSum(dRows, l.dRows, n, len(dRows))
	sum := l.dW[n*size : (n+1)*size]
	d.columnSum(sum, l.dW, n, size)
	for j := range a.S {
		copy(dW[j*a.E:(j+1)*a.E], sum[j*(a.E+pairPad):])
	}
	d.columnSum(dB, l.dB, n, len(dB))
	if a.Filter.Present() {
		d.columnSum(l.filter.dw, l.filter.lanes, n, a.S)
	}
}

// beginLane prepares the sums of a lane.
func (l *similarities[T]) beginLane(worker, i, lo, hi int) {
	w, e, r, size := &l.spaces[worker], l.a.E, l.a.R, l.a.S
	l.ops.Fill(l.dRows[i*l.rows*e:(i+1)*l.rows*e], 0)
	l.ops.Fill(l.dW[i*size*(e+pairPad):(i+1)*size*(e+pairPad)], 0)
	l.ops.Fill(l.dB[i*size:(i+1)*size], 0)
	if l.filter.w != nil {
		l.ops.Fill(l.filter.lanes[i*size:(i+1)*size], 0)
	}
	if l.a.Global {
		l.ops.Fill(l.dImages[lo*e:hi*e], 0)
		return
	}
	l.ops.Fill(l.dImages[lo*r*e:hi*r*e], 0)
	for b := lo; b < hi; b++ {
		l.single[worker].pack(&w.back[b-lo], true, e, r, l.images[b*r*e:(b+1)*r*e], e)
	}
}

// similarityRows are rows [at, at+n) of image b, and where they begin among those that dW takes together.
type similarityRows struct{ b, at, n, first int }

// gradient adds what rows [at, at+n) of images [b0, b1) give. dW takes their z together.
func (l *similarities[T]) gradient(worker, i, lo, b0, b1, at, n int) {
	w, one, e, size := &l.spaces[worker], l.single[worker], l.a.E, l.a.S
	w.pieces = w.pieces[:0]
	k := 0
	for b := b0; b < b1; b++ {
		if p := l.active(b, at, n); p.n > 0 {
			p.first = k
			k += (p.n + together - 1) / together * together
			w.pieces = append(w.pieces, p)
		}
	}
	if k == 0 {
		return
	}
	one.startB(&w.columns[0], k, e)
	for _, p := range w.pieces {
		l.vectorGradient(worker, i, lo, p)
		l.contextGradient(worker, i, lo, p)
	}
	w.p = product[T]{transA: true, m: size, n: e, k: k, alpha: 1, beta: 1, a: w.s, lda: size,
		c: l.dW[i*size*(e+pairPad):], ldc: e + pairPad}
	one.gemmPacked(&w.p, &w.columns[0])
}

// active returns the rows of a block of image b from the first to the last that has a gradient; the weights of the
// others get 0.
func (l *similarities[T]) active(b, at, n int) similarityRows {
	ld := l.a.B * l.a.R
	zero := func(j int) bool {
		if !l.without(b, j) {
			return false
		}
		if !l.a.Global {
			l.ops.Fill(l.dWeights[j*ld+b*l.a.R:][:l.a.R], 0)
		}
		return true
	}
	end := at + n
	for at < end && zero(at) {
		at++
	}
	for at < end && zero(end-1) {
		end--
	}
	return similarityRows{b: b, at: at, n: end - at}
}

// without reports whether row j has no gradient with image b.
func (l *similarities[T]) without(b, j int) bool {
	node, size := b*l.nodes+l.node[j], l.a.S
	if f := &l.filter; f.w != nil {
		return f.dLogits[node] == 0 && f.sum(l.ops, l.pairOf(b, j)) == nil
	}
	return l.ops.Zero(l.dOut[node*size:][:size])
}

// pairOf is the pair of image b and the caption of row j.
func (l *similarities[T]) pairOf(b, j int) int {
	return b*len(l.layout.lengths) + l.layout.of[l.node[j]]
}

// vectorGradient makes z of rows again, as rows of w.columns[0] from first on, and computes ds, rows of w.s and
// w.rows[0], and dz, w.c.
func (l *similarities[T]) vectorGradient(worker, i, lo int, p similarityRows) {
	b, at, n, first := p.b, p.at, p.n, p.first
	w, e, size, ops, one := &l.spaces[worker], l.a.E, l.a.S, l.ops, l.single[worker]
	if !l.a.Global {
		l.contexts(worker, lo, b, at, n)
	}
	one.startA(&w.rows[0], n, size)
	dBias := l.dB[i*size : (i+1)*size]
	pair, dr := -1, []T(nil)
	for j0 := 0; j0 < n; j0 += together {
		rows := min(together, n-j0)
		l.differences(w, b, at, j0, rows)
		ops.Fill(w.t[rows*e:together*e], 0)
		one.setRowsB(&w.columns[0], first+j0, w.t[:together*e])
		dS := w.s[(first+j0)*size : (first+j0+together)*size]
		for k := range rows {
			j := at + j0 + k
			node, norm := b*l.nodes+l.node[j], float64(l.norms[b*l.rows+j])
			y, ds := l.out[node*size:][:size], dS[k*size:(k+1)*size]
			if l.filter.w != nil {
				if q := l.pairOf(b, j); q != pair {
					pair, dr = q, l.filter.sum(ops, q)
				}
				l.filter.gradient(ops, ds, y, dr, i, node, norm)
			} else {
				dy := l.dOut[node*size:][:size]
				f, g := unit(norm, ops.Dot(y, dy))
				ops.Sum2(ds, dy, y, T(f), T(g))
			}
			ops.Add(dBias, dBias, ds)
		}
		ops.Fill(dS[rows*size:], 0)
		one.setRowsA(&w.rows[0], j0, dS[:rows*size])
	}
	w.p = product[T]{m: n, n: e, k: size, alpha: 1, c: w.c, ldc: e + pairPad}
	one.gemmRows(&w.p, &w.rows[0], &l.backward)
}

// contextGradient adds what dz of rows gives after the difference of context and row.
func (l *similarities[T]) contextGradient(worker, i, lo int, p similarityRows) {
	b, at, n := p.b, p.at, p.n
	w, e, r, ops, one := &l.spaces[worker], l.a.E, l.a.R, l.ops, l.single[worker]
	dRows := l.dRows[(i*l.rows+at)*e:]
	if l.a.Global {
		for j := range n {
			d := w.c[j*(e+pairPad):][:e]
			ops.SquareDiffGrad(d, d, l.images[b*e:(b+1)*e], l.values[(at+j)*e:(at+j+1)*e], dRows[j*e:(j+1)*e], 1)
			ops.Axpy(l.dImages[b*e:(b+1)*e], d, 2)
		}
		return
	}
	byRow, byColumn := &w.rows[1], &w.columns[1] // of the gradient of the contexts
	one.startA(byRow, n, e)
	one.startB(byColumn, n, e)
	for j0 := 0; j0 < n; j0 += together {
		rows := min(together, n-j0)
		for j := j0; j < j0+rows; j++ {
			u, d, du := w.a[j*(e+pairPad):][:e], w.c[j*(e+pairPad):][:e], w.t[(j-j0)*e:][:e]
			norm := float64(l.contextNorms[b*l.rows+at+j])
			s := 1 / (norm + pairEps)
			f, g := unit(norm, s*ops.SquareDiffGrad(du, d, u, l.values[(at+j)*e:(at+j+1)*e], dRows[j*e:(j+1)*e], T(s)))
			ops.Sum2(du, du, u, T(2*f), T(2*g*s))
		}
		one.setRowsA(byRow, j0, w.t[:rows*e])
		one.setRowsB(byColumn, j0, w.t[:rows*e])
	}
	ld := l.a.B * r
	w.p = product[T]{m: n, n: r, k: e, alpha: 1, c: l.dWeights[at*ld+b*r:], ldc: ld}
	one.gemmRows(&w.p, byRow, &w.back[b-lo])
	w.p = product[T]{transA: true, m: r, n: e, k: n, alpha: 1, beta: 1, a: l.weights[at*ld+b*r:], lda: ld,
		c: l.dImages[b*r*e:], ldc: e}
	one.gemmPacked(&w.p, byColumn)
}
