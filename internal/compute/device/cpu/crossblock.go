package cpu

import "vsetrain/internal/compute/vec"

// crossBlock is an item of sources with some items of queries, as a worker computes it: rows are sources, columns
// queries.
//
// The normalised products are z = f x, f = λ/(‖x‖ + ε) for each source and item of queries. With dw = e a + h m, m the
// product of the Gram matrix and the weights, the gradients go back as
//
//	dz = w∘(dw - Σ_k w∘dw)    dx = f dz + g x, g = -f² Σ_j x∘dz/(λ‖x‖)    da = leaky'(a) dx + e w
//
// where Σ_k runs along the sources and Σ_j along the queries of an item.
type crossBlock[T vec.Float] struct {
	l   *crossScores[T]
	one single[T]
	p   product[T]

	most, source, rows, n      int   // most columns
	items, at                  []int // of queries; the first column of each, and n
	tile                       []T   // rows ld apart
	ld                         int
	columns                    []int // of the items in the tile
	a, x, w, m, y              []T   // [rows, n]
	norm                       []T   // [rows, items]
	q, num, square, u, e, h, t []T   // [n]; q: lengths
	pull                       []T   // [rows, rows]: Σ h w wᵀ, what the sources get back by their Gram matrix
	gathered                   []T   // queries with a gradient
}

// reserve makes room for blocks of that many columns.
func (b *crossBlock[T]) reserve(most int) {
	b.most = most
	for _, v := range []*[]T{&b.a, &b.x, &b.w, &b.m, &b.y, &b.norm} {
		scratch(v, b.l.sources.most*most)
	}
	for _, v := range []*[]T{&b.q, &b.num, &b.square, &b.u, &b.e, &b.h, &b.t} {
		scratch(v, most)
	}
}

// gemm computes p on this thread, in the precision of the device.
func (b *crossBlock[T]) gemm(p product[T]) {
	b.p = p
	b.p.alpha, b.p.exact = 1, p.exact || b.l.d.precision != BF16
	b.one.gemm(&b.p)
}

// begin begins a block of products in a tile; add adds a pair, or reports that there is no room.
func (b *crossBlock[T]) begin(source int, tile []T, ld int) {
	b.source, b.rows, b.n, b.tile, b.ld = source, b.l.sources.n[source], 0, tile, ld
	b.items, b.at, b.columns = b.items[:0], append(b.at[:0], 0), b.columns[:0]
}

func (b *crossBlock[T]) add(p *crossPair) bool {
	n := b.l.queries.n[p.query]
	if b.n+n > b.most {
		return false
	}
	b.n += n
	b.items, b.at, b.columns = append(b.items, p.query), append(b.at, b.n), append(b.columns, p.column)
	return true
}

// move copies the products of the block out of the tile, or back into it.
func (b *crossBlock[T]) move(x []T, back bool) {
	last := len(b.items) - 1
	whole := b.columns[last]-b.columns[0] == b.at[last] // no gaps
	for k := range b.rows {
		own, tile := b.row(x, k), b.tile[k*b.ld:]
		for s, column := range b.columns {
			part := own[b.at[s]:b.at[s+1]]
			if whole {
				part = own
			}
			if back {
				copy(tile[column:], part)
			} else {
				copy(part, tile[column:])
			}
			if whole {
				break
			}
		}
	}
}

func (b *crossBlock[T]) row(x []T, k int) []T { return x[k*b.n:][:b.n] }

// each calls f for every item in every row: its columns [lo, hi) of a value, and its place i among [rows, items].
func (b *crossBlock[T]) each(f func(i, lo, hi int)) {
	for k := range b.rows {
		for s := range b.items {
			f(k*len(b.items)+s, k*b.n+b.at[s], k*b.n+b.at[s+1])
		}
	}
}

// sum computes dst = Σ_k x∘y, [n]; times dst = x∘f for f [n]; plus adds that to dst.
func (b *crossBlock[T]) sum(dst, x, y []T) {
	b.l.ops.Fill(dst, 0)
	for k := range b.rows {
		b.l.ops.MAdd(dst, b.row(x, k), b.row(y, k))
	}
}

func (b *crossBlock[T]) times(dst, x, f []T) {
	for k := range b.rows {
		b.l.ops.Mul(b.row(dst, k), b.row(x, k), f)
	}
}

func (b *crossBlock[T]) plus(dst, x, f []T) {
	for k := range b.rows {
		b.l.ops.MAdd(b.row(dst, k), b.row(x, k), f)
	}
}

// similarities computes the similarities of the queries, u.
func (b *crossBlock[T]) similarities() {
	l, size := b.l, b.rows*b.n
	for _, v := range []*[]T{&b.a, &b.x, &b.w, &b.m, &b.y} {
		*v = (*v)[:size]
	}
	for _, v := range []*[]T{&b.q, &b.num, &b.square, &b.u, &b.e, &b.h, &b.t} {
		*v = (*v)[:b.n]
	}
	b.move(b.a, false)
	if l.a.Max {
		copy(b.u, b.row(b.a, 0))
		for k := 1; k < b.rows; k++ {
			for j, v := range b.row(b.a, k) {
				if v > b.u[j] || v != v {
					b.u[j] = v
				}
			}
		}
		return
	}
	for s, q := range b.items {
		copy(b.q[b.at[s]:b.at[s+1]], l.norms[l.queries.first[q]:])
	}
	b.attend()
	b.gemm(product[T]{m: b.rows, n: b.n, k: b.rows, a: l.grams[l.gramAt[b.source]:], lda: b.rows, b: b.w, ldb: b.n,
		c: b.m, ldc: b.n, exact: true})
	b.sum(b.num, b.w, b.a)
	b.sum(b.square, b.w, b.m)
	for j := range b.u {
		b.u[j] = b.num[j] / max(b.q[j]*T(sqrt(float64(max(0, b.square[j])))), pairEps)
	}
}

// attend computes the weights of the sources.
func (b *crossBlock[T]) attend() {
	a, ops := &b.l.a, b.l.ops
	copy(b.x, b.a)
	if a.Leaky {
		ops.Map[vec.ReLU](b.x, b.a)
		ops.Sum2(b.x, b.a, b.x, pairSlope, 1-pairSlope)
	}
	if a.Softmax {
		ops.Exp(b.x, b.x)
		b.each(func(_, lo, hi int) { ops.Scale(b.x[lo:hi], b.x[lo:hi], T(1/ops.Sum(b.x[lo:hi]))) })
		ops.Scale(b.w, b.x, T(a.Lambda))
	} else {
		b.each(func(i, lo, hi int) {
			norm := sqrt(ops.Sumsq(b.x[lo:hi]))
			ops.Scale(b.w[lo:hi], b.x[lo:hi], T(a.Lambda/(norm+pairEps)))
			b.norm[i] = T(norm)
		})
	}
	ops.Exp(b.w, b.w)
	ops.Fill(b.t, 0)
	for k := range b.rows {
		ops.Add(b.t, b.t, b.row(b.w, k))
	}
	for j, v := range b.t {
		b.t[j] = 1 / v
	}
	b.times(b.w, b.w, b.t)
}

// gradient replaces the products of the block by their gradients, and writes the factors of its queries.
func (b *crossBlock[T]) gradient(factors []T) {
	l, ops := b.l, b.l.ops
	for s, q := range b.items {
		l.unpool(b.u[b.at[s]:b.at[s+1]], l.dScores[l.score(b.source, q)])
	}
	if l.a.Max {
		clear(factors[:b.n])
		clear(b.y)
		for j, d := range b.u {
			best := 0
			for k := 1; k < b.rows; k++ {
				if v := b.a[k*b.n+j]; v > b.a[best*b.n+j] || v != v {
					best = k
				}
			}
			b.y[best*b.n+j] = d
		}
	} else {
		b.gradientOfCosines(factors)
		b.times(b.y, b.a, b.e)
		b.plus(b.y, b.m, b.h)
		b.sum(b.t, b.w, b.y)
		ops.Scale(b.t, b.t, -1)
		ops.Mul(b.y, b.y, b.w)
		b.plus(b.y, b.w, b.t)
		b.times(b.m, b.w, b.h)
		b.gemm(product[T]{transB: true, m: b.rows, n: b.rows, k: b.n, a: b.m, lda: b.n, b: b.w, ldb: b.n, beta: 1,
			c: b.pull, ldc: b.rows, exact: true})
		b.gradientOfNorms()
		b.plus(b.y, b.w, b.e)
	}
	b.move(b.y, true)
}

// gradientOfCosines computes e and h, and what the queries get back of themselves.
func (b *crossBlock[T]) gradientOfCosines(factors []T) {
	for j, du := range b.u {
		q, r := float64(b.q[j]), sqrt(float64(max(0, b.square[j])))
		inverse := 1 / max(q*r, pairEps)
		b.e[j], b.h[j], factors[j] = T(float64(du)*inverse), 0, 0
		if q*r >= pairEps {
			dNorm := -float64(du) * float64(b.num[j]) * inverse * inverse
			b.h[j], factors[j] = T(dNorm*q/r), T(dNorm*r/q)
		}
	}
}

// gradientOfNorms replaces y, the gradient of the normalised products, by the gradient of the products in them.
func (b *crossBlock[T]) gradientOfNorms() {
	a, ops := &b.l.a, b.l.ops
	b.each(func(i, lo, hi int) {
		x, y, n := b.x[lo:hi], b.y[lo:hi], float64(b.norm[i])
		f, g, dot := a.Lambda/(n+pairEps), 0.0, ops.Dot(x, y)
		if a.Softmax {
			f, g = a.Lambda, -a.Lambda*dot
		} else if n > 0 {
			g = -dot * f / ((n + pairEps) * n)
		}
		if a.Softmax {
			ops.Mul(y, y, x)
		}
		ops.Sum2(y, y, x, T(f), T(g))
	})
	if a.Leaky {
		ops.Slope[vec.ReLU](b.m, b.a, b.y)
		ops.Sum2(b.y, b.y, b.m, pairSlope, 1-pairSlope)
	}
}
