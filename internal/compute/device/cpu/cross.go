package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Scores of cross attention (device.CrossScores).
//
// The images, with OverWords the captions, are taken in groups. The products of all sources of a group with all queries
// come from one product on all threads: the tile, in which a row is a source. Then a worker takes the sources of one
// item with the queries of a few, a block, which stays in its cache through all elementwise work (crossblock.go).
//
// Back, only the pairs of a group that have a gradient are listed. Where they are few, each item of sources multiplies
// the queries of its pairs alone, and each item of queries collects its gradient from its pairs; where they are many,
// these are three products of the group with all queries. The attention is computed again.
type crossScores[T vec.Float] struct {
	d   *dev[T]
	ops *vec.Ops[T]
	a   device.CrossScores

	images, captions crossSide[T]
	sources, queries *crossSide[T]
	scores, dScores  []T
	norms            []T   // of the queries
	grams            []T   // of each item of sources
	gramAt           []int // of each

	from, to int  // items of sources of the group
	tile     []T  // products; back, their gradients
	all      bool // the tile has all queries as columns
	pairs    []crossPair
	pairAt   []int // of each item of sources of the group: its first pair; and the total
	factors  []T   // of each query of the pairs: how much of itself it gets back by its length

	phase  crossPhase
	blocks []crossBlock[T]
}

type crossPhase uint8

const (
	crossPrepare crossPhase = iota // norms and Gram matrices
	crossSources                   // the pairs of an item of sources; back, its gradient without products
	crossQueries                   // the gradient of an item of queries, but for that
)

// crossSide are the images or the captions: item i has n_i rows of x, from first_i on.
type crossSide[T vec.Float] struct {
	x, dx    []T
	own      []T // memory for dx
	n, first []int
	most     int  // rows of an item
	gaps     bool // between the rows of items lie others, which are not there
	step     int  // between the scores of items
}

// crossPair is a pair, back one with a gradient. column is the column of its first query among the queries of the item
// of sources, whose rows of the tile are ld apart, from at on; factor is the place of its factors.
type crossPair struct{ source, query, column, at, ld, factor int }

const (
	crossGroup  = 1 << 21 // values of a tile
	crossValues = 1 << 14 // values of a block, about
)

func (s *crossSide[T]) begin(x, dx []T, step int) {
	*s = crossSide[T]{x: x, dx: dx, own: s.own, n: s.n[:0], first: append(s.first[:0], 0), step: step}
}

// add adds an item with that many rows, of which n are there.
func (s *crossSide[T]) add(rows, n int) {
	s.n, s.first = append(s.n, n), append(s.first, s.first[len(s.n)]+rows)
	s.most, s.gaps = max(s.most, n), s.gaps || n < rows
}

func (s *crossSide[T]) items() int                { return len(s.n) }
func (s *crossSide[T]) rows() int                 { return s.first[len(s.n)] }
func (s *crossSide[T]) item(i int) (first, n int) { return s.first[i], s.n[i] }

// CrossScores computes that kernel and its gradient.
func (d *dev[T]) CrossScores(a device.CrossScores) bool {
	l := &d.cross
	l.begin(d, a)
	for l.from = 0; l.from < l.sources.items(); l.from = l.to {
		for l.to = l.from + 1; l.to < l.sources.items() && l.height()*l.queries.rows() < crossGroup; l.to++ {
		}
		l.compute()
	}
	return true
}

// begin computes norms and Gram matrices.
func (l *crossScores[T]) begin(d *dev[T], a device.CrossScores) {
	l.d, l.ops, l.a = d, d.ops, a
	l.scores, l.dScores = d.values(a.Scores), d.values(a.DScores)
	l.images.begin(d.values(a.Regions), d.values(a.DRegions), len(a.Lengths.Host))
	l.captions.begin(d.values(a.Words), d.values(a.DWords), 1)
	l.sources, l.queries = &l.images, &l.captions
	if a.OverWords {
		l.sources, l.queries = l.queries, l.sources
	}
	for _, n := range a.Lengths.Host {
		l.captions.add(int(n), int(n))
	}
	mask := d.values(a.Mask)
	for i := range a.B {
		n := a.R
		for mask != nil && n > 1 && mask[i*a.R+n-1] == 0 {
			n--
		}
		l.images.add(a.R, n)
	}
	for _, s := range []*crossSide[T]{l.sources, l.queries} {
		if a.Grad && s.dx == nil {
			s.dx = scratch(&s.own, s.rows()*a.E)
		}
	}
	columns := max(l.queries.most, crossValues/l.sources.most)
	l.gramAt = append(l.gramAt[:0], 0)
	for i := range l.sources.items() {
		_, n := l.sources.item(i)
		l.gramAt = append(l.gramAt, l.gramAt[i]+n*n)
	}
	for one := d.singles(); len(l.blocks) < len(one); {
		l.blocks = append(l.blocks, crossBlock[T]{l: l, one: one[len(l.blocks)]})
	}
	for i := range l.blocks {
		l.blocks[i].reserve(columns)
	}
	l.grams, l.norms = scratch(&l.grams, l.gramAt[l.sources.items()]), scratch(&l.norms, l.queries.rows())
	l.run(crossPrepare, l.sources.items()+l.queries.items())
}

func (l *crossScores[T]) run(phase crossPhase, n int) {
	l.phase = phase
	l.d.pool.For(n, l)
}

func (l *crossScores[T]) Do(worker, i int) {
	switch l.phase {
	case crossPrepare:
		l.prepare(&l.blocks[worker], i)
	case crossSources:
		l.ofSources(&l.blocks[worker], l.from+i, l.pairs[l.pairAt[i]:l.pairAt[i+1]])
	default:
		l.toQueries(&l.blocks[worker], i)
	}
}

// height is how many sources the group has.
func (l *crossScores[T]) height() int { return l.sources.first[l.to] - l.sources.first[l.from] }

// group returns the rows of the group.
func (l *crossScores[T]) group(x []T) []T {
	return x[l.sources.first[l.from]*l.a.E : l.sources.first[l.to]*l.a.E]
}

// score is the place of the score of a pair.
func (l *crossScores[T]) score(source, query int) int {
	return source*l.sources.step + query*l.queries.step
}

func (l *crossScores[T]) prepare(b *crossBlock[T], i int) {
	e, q := l.a.E, i-l.sources.items()
	if q >= 0 && l.a.Grad {
		clear(l.queries.dx[l.queries.first[q]*e : l.queries.first[q+1]*e])
	}
	if l.a.Max {
		return
	}
	if q < 0 {
		lo, n := l.sources.item(i)
		x := l.sources.x[lo*e:]
		b.gemm(product[T]{transB: true, m: n, n: n, k: e, a: x, lda: e, b: x, ldb: e, c: l.grams[l.gramAt[i]:], ldc: n,
			exact: true})
		return
	}
	for j := l.queries.first[q]; j < l.queries.first[q+1]; j++ {
		l.norms[j] = T(sqrt(l.ops.Sumsq(l.queries.x[j*e : (j+1)*e])))
	}
}

// compute computes the pairs of a group.
func (l *crossScores[T]) compute() {
	rows, columns, e := l.height(), l.queries.rows(), l.a.E
	l.all = !l.a.Grad
	if n := l.list(); !l.all && !l.queries.gaps && 2*n > rows*columns {
		l.all = true
		l.list()
	}
	if l.all {
		l.d.multiply(product[T]{transB: true, m: rows, n: columns, k: e, alpha: 1, a: l.group(l.sources.x), lda: e,
			b: l.queries.x, ldb: e, c: l.tile, ldc: columns})
	}
	l.run(crossSources, l.to-l.from)
	if !l.a.Grad {
		return
	}
	if l.all {
		l.d.multiply(product[T]{m: rows, n: e, k: columns, alpha: 1, beta: 1, a: l.tile, lda: columns, b: l.queries.x,
			ldb: e, c: l.group(l.sources.dx), ldc: e})
		l.d.multiply(product[T]{transA: true, m: columns, n: e, k: rows, alpha: 1, beta: 1, a: l.tile, lda: columns,
			b: l.group(l.sources.x), ldb: e, c: l.queries.dx, ldc: e})
	}
	l.run(crossQueries, l.queries.items())
}

// list lists the pairs of the group that have a gradient, or all, and makes room for them: the number of products.
func (l *crossScores[T]) list() (size int) {
	l.pairs, l.pairAt = l.pairs[:0], append(l.pairAt[:0], 0)
	factors := 0
	for i := l.from; i < l.to; i++ {
		start, columns, rows := len(l.pairs), 0, l.sources.n[i]
		if l.all {
			rows = l.sources.first[i+1] - l.sources.first[i]
		}
		for q, n := range l.queries.n {
			if l.all {
				n = l.queries.first[q+1] - l.queries.first[q]
			} else if l.dScores[l.score(i, q)] == 0 {
				continue
			}
			l.pairs = append(l.pairs, crossPair{i, q, columns, size, 0, factors + columns})
			columns += n
		}
		for k := range l.pairs[start:] {
			l.pairs[start+k].ld = columns
		}
		size += rows * columns
		factors += columns
		l.pairAt = append(l.pairAt, len(l.pairs))
	}
	scratch(&l.tile, size)
	scratch(&l.factors, factors)
	return size
}

func (l *crossScores[T]) ofSources(b *crossBlock[T], source int, pairs []crossPair) {
	e, back := l.a.E, l.a.Grad
	lo, rows := l.sources.item(source)
	x, dx := l.sources.x[lo*e:], l.sources.dx
	if back {
		dx = dx[lo*e : l.sources.first[source+1]*e]
		clear(dx)
	}
	if len(pairs) == 0 {
		return
	}
	tile, n := l.tile[pairs[0].at:], pairs[0].ld
	if back && l.all { // sources that are not there
		clear(tile[rows*n : (l.sources.first[source+1]-lo)*n])
	}
	if !l.all {
		scratch(&b.gathered, n*e)
		for _, p := range pairs {
			first, n := l.queries.item(p.query)
			copy(b.gathered[p.column*e:], l.queries.x[first*e:(first+n)*e])
		}
		b.gemm(product[T]{transB: true, m: rows, n: n, k: e, a: x, lda: e, b: b.gathered, ldb: e, c: tile, ldc: n})
	}
	clear(scratch(&b.pull, rows*rows))
	for len(pairs) > 0 {
		b.begin(source, tile, n)
		for len(b.items) < len(pairs) && b.add(&pairs[len(b.items)]) {
		}
		b.similarities()
		if back {
			b.gradient(l.factors[pairs[0].factor:])
		} else {
			for s, q := range b.items {
				l.scores[l.score(source, q)] = l.pool(b.u[b.at[s]:b.at[s+1]])
			}
		}
		pairs = pairs[len(b.items):]
	}
	if back {
		b.gemm(product[T]{m: rows, n: e, k: rows, a: b.pull, lda: rows, b: x, ldb: e, c: dx, ldc: e, exact: true})
	}
	if !l.all {
		b.gemm(product[T]{m: rows, n: e, k: n, a: tile, lda: n, b: b.gathered, ldb: e, beta: 1, c: dx, ldc: e})
	}
}

func (l *crossScores[T]) toQueries(b *crossBlock[T], query int) {
	e := l.a.E
	lo, n := l.queries.item(query)
	x, dx := l.queries.x[lo*e:], l.queries.dx[lo*e:]
	for k := range l.pairs {
		p := &l.pairs[k]
		if p.query != query {
			continue
		}
		for j, f := range l.factors[p.factor:][:n] {
			if f != 0 {
				l.ops.Axpy(dx[j*e:(j+1)*e], x[j*e:(j+1)*e], f)
			}
		}
		if !l.all {
			first, rows := l.sources.item(p.source)
			b.gemm(product[T]{transA: true, m: n, n: e, k: rows, a: l.tile[p.at+p.column:], lda: p.ld,
				b: l.sources.x[first*e:], ldb: e, beta: 1, c: dx, ldc: e})
		}
	}
}

// pool makes the similarities of a pair a score.
func (l *crossScores[T]) pool(u []T) T {
	switch l.a.Pool {
	case device.CrossMean:
		return total(u) / T(len(u))
	case device.CrossSum:
		return total(u)
	case device.CrossMaximum:
		return u[greatest(u)]
	}
	return T(l.logSumExp(u))
}

func (l *crossScores[T]) logSumExp(u []T) float64 {
	top, sum := l.a.Factor*float64(u[greatest(u)]), 0.0
	for _, v := range u {
		sum += exp(l.a.Factor*float64(v) - top)
	}
	return math.Log(sum) + top
}

// unpool replaces the similarities of a pair by their gradients, from the gradient of the score.
func (l *crossScores[T]) unpool(u []T, score T) {
	switch l.a.Pool {
	case device.CrossMean:
		l.ops.Fill(u, score/T(len(u)))
	case device.CrossSum:
		l.ops.Fill(u, score)
	case device.CrossMaximum:
		k := greatest(u)
		clear(u)
		u[k] = score
	default:
		sum := l.logSumExp(u)
		for j, v := range u {
			u[j] = score * T(l.a.Factor*exp(l.a.Factor*float64(v)-sum))
		}
	}
}

// greatest is the position of the greatest value, the first of equal ones, or the last that is NaN.
func greatest[T vec.Float](x []T) (k int) {
	for i, v := range x {
		if v > x[k] || v != v {
			k = i
		}
	}
	return k
}
