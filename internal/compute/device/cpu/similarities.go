package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Similarity vectors of all pairs (device.Similarities). The contexts u_ij, B·T vectors of size E, exist for one
// block of rows and one image at a time, and the gradient makes them again: a small product against storing gigabytes.
// z = (u - c)∘(u - c) is not stored: its rows become an operand of the next product while they are in the level-1
// cache.
type similarities[T vec.Float] struct {
	ops            *vec.Ops[T]
	single         []single[T]
	spaces         []workspace[T]
	a              device.Similarities
	layout         pairLayout
	rows, nodes    int   // rows of an image: words or captions; nodes of an image
	node           []int // node of each row
	images, values []T   // V, and c
	weights, bias  []T
	out, norms     []T
	contextNorms   []T
	wanted         []T // nil: all pairs
	filter         filterLayer[T]
	forward        packed[T] // Wᵀ
	backward       packed[T] // W
	dOut, dImages  []T       // dOut: without a filter
	dWeights       []T
	dRows, dW, dB  []T // sums of the lanes: [lanes, rows, E], [lanes + 1, S, E + pairPad] with their sum, [lanes, S]
}

func (d *dev[T]) beginSimilarities(a device.Similarities) *similarities[T] {
	l := &d.similarities
	l.ops, l.a, l.single, l.spaces = d.ops, a, d.singles(), d.workspaces()
	l.layout.set(a.Lengths.Host)
	l.rows, l.node = l.layout.words(), l.layout.node
	if a.Global {
		l.rows, l.node = len(l.layout.lengths), l.layout.captions
	}
	l.nodes = l.layout.nodes()
	l.images, l.values, l.weights, l.bias = d.values(a.Images), d.values(a.Rows), d.values(a.Weights), d.values(a.Bias)
	l.out, l.norms, l.contextNorms = d.values(a.Nodes), d.values(a.Norms), d.values(a.Contexts)
	if l.filter.w = nil; a.Filter.Present() {
		l.filter.set(d, &a.Filter)
	}
	for i := range l.spaces { // any worker may get any lane
		w, n := &l.spaces[i], largestLane(a.B)
		scratch(&w.a, pairBlock*(a.E+pairPad))
		scratch(&w.s, max(pairBlock, gradImages*(gradBlock+together))*a.S)
		scratch(&w.t, together*a.E)
		if !a.Global {
			packs(l.single[i], &w.images, n, a.R, a.E)
		}
		if !a.Grad {
			continue
		}
		scratch(&w.c, pairBlock*(a.E+pairPad))
		if !a.Global {
			packs(l.single[i], &w.back, n, a.E, a.R)
		}
	}
	return l
}

func (d *dev[T]) Similarities(a device.Similarities) {
	l := d.beginSimilarities(a)
	l.wanted = d.values(a.Wanted)
	d.packW(&l.forward, true, a.E, a.S, d.values(a.W), a.E)
	d.pool.For(laneCount(a.B), l)
}

// Do works through lane i: blocks of rows, so that the rows of a block serve all images of the lane.
func (l *similarities[T]) Do(worker, i int) {
	w, e, r := &l.spaces[worker], l.a.E, l.a.R
	lo, hi := lane(l.a.B, i)
	if !l.a.Global {
		for b := lo; b < hi; b++ {
			l.single[worker].pack(&w.images[b-lo], false, r, e, l.images[b*r*e:(b+1)*r*e], e)
		}
	}
	if l.a.Grad {
		l.beginLane(worker, i, lo, hi)
		for at := 0; at < l.rows; at += gradBlock {
			n := min(gradBlock, l.rows-at)
			for b := lo; b < hi; b += gradImages {
				l.gradient(worker, i, lo, b, min(hi, b+gradImages), at, n)
			}
		}
		return
	}
	for at := 0; at < l.rows; at += pairBlock {
		n := min(pairBlock, l.rows-at)
		for b := lo; b < hi; b++ {
			if first, last := l.asked(b, at, at+n); first < last {
				l.similarity(worker, lo, b, first, last-first)
			}
		}
	}
}

// asked cuts rows [at, end) of image b to those from the first that is wanted to the last.
func (l *similarities[T]) asked(b, at, end int) (int, int) {
	for l.wanted != nil && at < end && l.wanted[l.pairOf(b, at)] == 0 {
		at++
	}
	for l.wanted != nil && at < end && l.wanted[l.pairOf(b, end-1)] == 0 {
		end--
	}
	return at, end
}

// contexts computes Σ_k α_jk v_k of image b for n rows into w.a.
func (l *similarities[T]) contexts(worker, lo, b, at, n int) {
	w, e, r := &l.spaces[worker], l.a.E, l.a.R
	ld := l.a.B * r
	w.p = product[T]{m: n, n: e, k: r, alpha: 1, a: l.weights[at*ld+b*r:], lda: ld, c: w.a, ldc: e + pairPad}
	l.single[worker].gemmPacked(&w.p, &w.images[b-lo])
}

// similarity computes s of image b for n rows.
func (l *similarities[T]) similarity(worker, lo, b, at, n int) {
	w, one, e, size := &l.spaces[worker], l.single[worker], l.a.E, l.a.S
	one.startA(&w.rows[0], n, e)
	if !l.a.Global {
		l.contexts(worker, lo, b, at, n)
	}
	for j := 0; j < n; j += together {
		rows := min(together, n-j)
		l.differences(w, b, at, j, rows)
		one.setRowsA(&w.rows[0], j, w.t[:rows*e])
	}
	w.p = product[T]{m: n, n: size, k: e, alpha: 1, c: w.s, ldc: size, bias: l.bias}
	one.gemmRows(&w.p, &w.rows[0], &l.forward)
	for j := range n {
		x := w.s[j*size : (j+1)*size]
		norm := sqrt(l.ops.Squares(x))
		l.norms[b*l.rows+at+j] = T(norm)
		node := b*l.nodes + l.node[at+j]
		y := l.out[node*size:][:size]
		l.ops.Scale(y, x, T(1/(norm+pairEps)))
		if f := &l.filter; f.w != nil {
			f.logits[node] = T(l.ops.Dot(f.w, y)) + f.bias
		}
	}
}

// differences computes z of rows j to j+rows of a block from row at on into w.t.
func (l *similarities[T]) differences(w *workspace[T], b, at, j, rows int) {
	e := l.a.E
	for k := range rows {
		u, s := l.context(w, b, at, j+k)
		l.ops.SquareDiff(w.t[k*e:(k+1)*e], u, l.values[(at+j+k)*e:(at+j+k+1)*e], s)
	}
}

// context returns the vector of image b that row j of a block from row at on is compared with, and its factor: u_ij and
// 1/(|u_ij| + eps), or the vector of the whole image and 1.
func (l *similarities[T]) context(w *workspace[T], b, at, j int) (u []T, s T) {
	e := l.a.E
	if l.a.Global {
		return l.images[b*e : (b+1)*e], 1
	}
	u = w.a[j*(e+pairPad):][:e]
	norm := &l.contextNorms[b*l.rows+at+j]
	if !l.a.Grad {
		*norm = T(sqrt(l.ops.Squares(u)))
	}
	return u, T(1 / (float64(*norm) + pairEps))
}
