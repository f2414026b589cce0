package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// Similarity vectors of all pairs (device.SimilarityArgs). The contexts u_ij, B·T vectors of size E, exist for one block of rows and
// one image at a time, and the gradient makes them again: two small products against storing gigabytes. Back, from ds:
//
//	dW += dsᵀ z    dz = ds W    dd = 2 d∘dz    dc -= dd    d(Σ α v) = l2'(dd)    dα = d(Σ α v) Vᵀ    dV += αᵀ d(Σ α v)
//
// with d = u - c and z = d∘d. d is not stored: the passes over a block are what takes the time beside the products.
type similarities[T vec.Float] struct {
	ops            *vec.Ops[T]
	single         []single[T]
	spaces         []workspace[T]
	a              device.SimilarityArgs
	layout         pairLayout
	back           bool
	rows, nodes    int   // rows of an image: words or captions; nodes of an image
	node           []int // node of each row
	images, values []T   // V, and c
	weights, bias  []T
	out, norms     []T
	forward        packed[T] // Wᵀ
	backward       packed[T] // W
	dOut, dImages  []T
	dWeights       []T
	dRows, dW, dB  []T // sums of the lanes: [lanes, rows, E], [lanes, S, E], [lanes, S]
}

func (d *dev[T]) beginSimilarities(what string, a device.SimilarityArgs, back bool) *similarities[T] {
	positive(what, a.B, a.E, a.S)
	l := &d.similarities
	l.ops, l.a, l.back, l.single, l.spaces = d.ops, a, back, d.singles(), d.workspaces()
	l.layout.set(a.Lengths.Host)
	l.rows, l.node = l.layout.words(), l.layout.node
	size := a.B * a.R * a.E
	if a.Global {
		l.rows, l.node = len(l.layout.lengths), l.layout.captions
		size, l.weights = a.B*a.E, nil
	} else {
		positive(what, a.R)
		l.weights = d.floats("Similarities Weights", a.Weights, l.rows*a.B*a.R)
	}
	l.nodes = l.layout.nodes()
	l.images, l.values = d.floats("Similarities Images", a.Images, size), d.floats("Similarities Rows", a.Rows, l.rows*a.E)
	l.out, l.norms = d.floats("Similarities Nodes", a.Nodes, a.B*l.nodes*a.S), d.floats("Similarities Norms", a.Norms, a.B*l.rows)
	l.bias = nil
	for i := range l.spaces { // any worker may get any lane
		w, n := &l.spaces[i], largestLane(a.B)
		scratch(&w.a, pairBlock*a.E)
		scratch(&w.s, pairBlock*a.S)
		if !a.Global {
			packs(l.single[i], &w.images, n, a.R, a.E)
		}
		if !back {
			continue
		}
		scratch(&w.c, pairBlock*a.E)
		inverses(&w.inverse, pairBlock)
		if !a.Global {
			packs(l.single[i], &w.back, n, a.E, a.R)
		}
	}
	return l
}

// Similarities implements device.Pairs.
func (d *dev[T]) Similarities(a device.SimilarityArgs) {
	l := d.beginSimilarities("Similarities", a, false)
	l.bias = d.floats("Similarities Bias", a.Bias, a.S)
	d.packW(&l.forward, true, a.E, a.S, d.floats("Similarities W", a.W, a.S*a.E), a.E)
	d.pool.For(laneCount(a.B), l)
}

// SimilaritiesGrad implements device.Pairs.
func (d *dev[T]) SimilaritiesGrad(a device.SimilarityArgs) {
	l := d.beginSimilarities("SimilaritiesGrad", a, true)
	d.packW(&l.backward, false, a.S, a.E, d.floats("SimilaritiesGrad W", a.W, a.S*a.E), a.E)
	l.dOut, l.dImages = d.floats("SimilaritiesGrad DNodes", a.DNodes, a.B*l.nodes*a.S), d.floats("SimilaritiesGrad DImages", a.DImages, len(l.images))
	if !a.Global {
		l.dWeights = d.floats("SimilaritiesGrad DWeights", a.DWeights, l.rows*a.B*a.R)
	}
	dRows, dW, dB := d.floats("SimilaritiesGrad DRows", a.DRows, l.rows*a.E), d.floats("SimilaritiesGrad DW", a.DW, a.S*a.E), d.floats("SimilaritiesGrad DBias", a.DBias, a.S)
	n := laneCount(a.B)
	scratch(&l.dRows, n*len(dRows))
	scratch(&l.dW, n*len(dW))
	scratch(&l.dB, n*len(dB))
	d.pool.For(n, l)
	d.columnSum(dRows, l.dRows, n, len(dRows))
	d.columnSum(dW, l.dW, n, len(dW))
	d.columnSum(dB, l.dB, n, len(dB))
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
	if l.back {
		l.beginLane(worker, i, lo, hi)
	}
	for at := 0; at < l.rows; at += pairBlock {
		n := min(pairBlock, l.rows-at)
		for b := lo; b < hi; b++ {
			if l.back {
				l.gradient(worker, i, lo, b, at, n)
			} else {
				l.similarity(worker, lo, b, at, n)
			}
		}
	}
}

// contexts computes Σ_k α_jk v_k of image b for n rows into w.a.
func (l *similarities[T]) contexts(worker, lo, b, at, n int) {
	w, e, r := &l.spaces[worker], l.a.E, l.a.R
	ld := l.a.B * r
	w.p = product[T]{m: n, n: e, k: r, alpha: 1, a: l.weights[at*ld+b*r:], lda: ld, c: w.a, ldc: e}
	l.single[worker].gemmPacked(&w.p, &w.images[b-lo])
}

// similarity computes s of image b for n rows.
func (l *similarities[T]) similarity(worker, lo, b, at, n int) {
	w, e, size := &l.spaces[worker], l.a.E, l.a.S
	if !l.a.Global {
		l.contexts(worker, lo, b, at, n)
	}
	for j := range n {
		z, c := w.a[j*e:(j+1)*e], l.values[(at+j)*e:(at+j+1)*e]
		if l.a.Global {
			l.ops.SquareDiff(z, l.images[b*e:(b+1)*e], c, 1)
		} else {
			l.ops.SquareDiff(z, z, c, T(1/(sqrt(l.ops.Sumsq(z))+pairEps)))
		}
	}
	w.p = product[T]{m: n, n: size, k: e, alpha: 1, a: w.a, lda: e, c: w.s, ldc: size, bias: l.bias}
	l.single[worker].gemmPacked(&w.p, &l.forward)
	for j := range n {
		x := w.s[j*size : (j+1)*size]
		norm := sqrt(l.ops.Sumsq(x))
		l.norms[b*l.rows+at+j] = T(norm)
		l.ops.Scale(l.out[(b*l.nodes+l.node[at+j])*size:][:size], x, T(1/(norm+pairEps)))
	}
}

// beginLane prepares the sums of a lane.
func (l *similarities[T]) beginLane(worker, i, lo, hi int) {
	w, e, r, size := &l.spaces[worker], l.a.E, l.a.R, l.a.S
	l.ops.Fill(l.dRows[i*l.rows*e:(i+1)*l.rows*e], 0)
	l.ops.Fill(l.dW[i*size*e:(i+1)*size*e], 0)
	l.ops.Fill(l.dB[i*size:(i+1)*size], 0)
	if l.a.Global {
		l.ops.Fill(l.dImages[lo*e:hi*e], 0)
		return
	}
	l.ops.Fill(l.dImages[lo*r*e:hi*r*e], 0)
	for b := lo; b < hi; b++ {
		l.single[worker].pack(&w.back[b-lo], true, e, r, l.images[b*r*e:(b+1)*r*e], e)
	}
}

// gradient adds what n rows of image b give.
func (l *similarities[T]) gradient(worker, i, lo, b, at, n int) {
	w, e, r, size, ops, one := &l.spaces[worker], l.a.E, l.a.R, l.a.S, l.ops, l.single[worker]
	norm := inverses(&w.inverse, n)
	if !l.a.Global {
		l.contexts(worker, lo, b, at, n)
	}
	for j := range n { // w.a: the context, w.c: z
		u, c, z := w.a[j*e:(j+1)*e], l.values[(at+j)*e:(at+j+1)*e], w.c[j*e:(j+1)*e]
		if l.a.Global {
			ops.SquareDiff(z, l.images[b*e:(b+1)*e], c, 1)
			continue
		}
		norm[j] = sqrt(ops.Sumsq(u))
		ops.SquareDiff(z, u, c, T(1/(norm[j]+pairEps)))
	}
	dBias := l.dB[i*size : (i+1)*size]
	for j := range n {
		node := (b*l.nodes + l.node[at+j]) * size
		y, dy, ds := l.out[node:node+size], l.dOut[node:node+size], w.s[j*size:(j+1)*size]
		f, g := unit(float64(l.norms[b*l.rows+at+j]), ops.Dot(y, dy))
		ops.Sum2(ds, dy, y, T(f), T(g))
		ops.Add(dBias, dBias, ds)
	}
	w.p = product[T]{transA: true, m: size, n: e, k: n, alpha: 1, beta: 1, a: w.s, lda: size, b: w.c, ldb: e, c: l.dW[i*size*e:], ldc: e}
	one.gemm(&w.p)
	w.p = product[T]{m: n, n: e, k: size, alpha: 1, a: w.s, lda: size, c: w.c, ldc: e}
	one.gemmPacked(&w.p, &l.backward)
	dRows := l.dRows[(i*l.rows+at)*e:]
	for j := range n { // w.c: dz, then dd/2, then the gradient of the context
		u, d, c, dc := w.a[j*e:(j+1)*e], w.c[j*e:(j+1)*e], l.values[(at+j)*e:(at+j+1)*e], dRows[j*e:(j+1)*e]
		if l.a.Global {
			ops.SquareDiffGrad(d, l.images[b*e:(b+1)*e], c, dc, 1)
			ops.Axpy(l.dImages[b*e:(b+1)*e], d, 2)
			continue
		}
		s := 1 / (norm[j] + pairEps)
		f, g := unit(norm[j], s*ops.SquareDiffGrad(d, u, c, dc, T(s)))
		ops.Sum2(d, d, u, T(2*f), T(2*g*s))
	}
	if l.a.Global {
		return
	}
	ld := l.a.B * r
	w.p = product[T]{m: n, n: r, k: e, alpha: 1, a: w.c, lda: e, c: l.dWeights[at*ld+b*r:], ldc: ld}
	one.gemmPacked(&w.p, &w.back[b-lo])
	w.p = product[T]{transA: true, m: r, n: e, k: n, alpha: 1, beta: 1, a: l.weights[at*ld+b*r:], lda: ld, b: w.c, ldb: e,
		c: l.dImages[b*r*e:], ldc: e}
	one.gemm(&w.p)
}

// inverses returns n float64 of *s.
func inverses(s *[]float64, n int) []float64 {
	if cap(*s) < n {
		*s = make([]float64, n)
	}
	return (*s)[:n]
}
